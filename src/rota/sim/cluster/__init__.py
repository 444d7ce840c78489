"""A recorded workload played on the whole core: a Cluster, a Scheduler, and a virtual clock.

run     the player: from one moment at which anything happens to the next
cast    recorded jobs as jobs of the core: ids, specs, how long each one runs
notes   what happens in the core, as far as the clock must see to it
"""
