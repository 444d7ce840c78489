"""How attempts start on this node, and whether they are well.

launch, node_variables           from a launch to the keeper's order, and its environment
errands                          what takes time around an attempt
gangs, address                   where the members of a gang meet
health                           asking tasks whether they are well
"""
