"""Facts.

Of jobs
    job, array, parents, placing, notices, health, checkpoint, steps, endpoints, visits, indices,
    loans
Of the site
    node, resources, features, tenant, policy, quarantine, gpu_use
    site                              clusters, prices, pilots, quotas outside, audit
Moves and refusals
    states, phases, faults, errors    legal moves, finer words, whose doing, refusals
    event                             the base of everything that happens
"""
