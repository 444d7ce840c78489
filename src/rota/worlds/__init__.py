"""Hosts for the core on a virtual clock: deterministic worlds with faults.

world                    the real controller and agents, all else pretended
leases                   worlds of live hosts, with broken networks, disks and machines
swarm                    many worlds, each with some of all features
clock, virtual_loop      time in a heap; an event loop on it
head, virtual_node       a controller, and a machine with its keeper and its agent
database                 where the controllers keep their state
script, site             what users do, and what operators do
wishes, cuts             what jobs ask for, and what breaks
judge, books, sums       what really happened, what the log says, and what accounts are charged
"""
