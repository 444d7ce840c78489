"""The pure core: facts, states, events, and the one function that applies an event.

Facts
    job, parents, placing, notices, health, checkpoint, steps, endpoints, visits    of jobs
    node, resources, tenant, policy, presets    machines, amounts, accounts, rules
    cluster                          all of them, and what is derived
Changes
    event, events, node_events       what happened
    apply, apply_jobs, apply_attempts, apply_saving, apply_site, apply_steps    what it changes
    states, phases, faults, errors   legal moves, finer words, whose doing, refusals
Derived, and kept in step
    lanes, brisk, indices, dependencies, waiting, running, holdings, loans, usage, quarantine
    invariants, compare              what must hold at any instant, and whether two are the same
Words
    units, policy_text, placing_text    what people write, read and printed
    kin                              what a job may do for itself
"""
