"""Room now: which node, which CPUs, which devices.

Tasks
    gang                         all tasks or none
Nodes by the class, not one by one
    node_index, buckets, heaps, wants, numbers, ranks, nodeclass
The chosen node itself
    node_room, trial_rooms, node_checks, devices, pins
Which node, and how good it is
    filters, free, scores, cluster_load, packing, stranding, gradient, fragments, coming
    tariff                       what a job will cost
"""
