"""Facts.

Of jobs
    job, array, parents, placing, notices, health, checkpoint, steps, endpoints, visits, indices,
    loans
Of the site
    node, pilot, resources, features, tenant, outer, policy, quarantine, audit
    site                              clusters, models of devices, prices
Moves and refusals
    states, phases, faults, errors    legal moves, finer words, whose doing, refusals
    event                             the base of everything that happens
"""
