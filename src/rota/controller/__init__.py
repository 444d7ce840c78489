"""The live host of the core: commands in, one tick, one commit, orders to agents out.

The tick
    loop, engine, scribe             the inbox, the tick without its I/O, events of one tick
    timers, lifecycle                what is due, and what follows from what
    plan_events, forecast, plugins   the pass: its decisions as events, run times, others' rules
    recover, retention, past, garbage    state at start, what is forgotten, history, the collector
Commands
    commands, access                 what a caller may ask, and whether
    submit, possible, change, enter_job, endpoints, steps, overrides    about jobs
    site, accounts, reserve, reserve_job    about nodes, queues, projects, reservations
Agents
    links, sessions, report_checks, observe, identity, liveness    who they are and what they say
    launch, variables, world, job_tokens    what an attempt is started with
    visit_lines, migrate, saved_work, bundles    visits, moves, saved work, folders
Others
    watch, outbox, elsewhere         who is told, and who is asked: news, notices, an inventory
"""
