"""How attempts start on this node, and whether they are well.

launch, node_variables           from a launch to the keeper's order, and its environment
errands, accounts                what takes time around an attempt; to whom its files are given
gangs, address                   where the members of a gang meet
health                           asking tasks whether they are well
"""
