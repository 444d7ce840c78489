"""The live host of the core: commands in, one tick, one commit, orders to agents out.

Each room knows only those below it.

    chores/                          what a live host does beside its ticks
    loop, inbox, alarm               the ticks and the commits; what waits for them; their time
    watch, recover, clock            who is told; state from the disk; time that does not jump
    names                            of jobs, sessions and starts, by chance
    meters, tallies, traces          what is counted and timed as it happens; spans for others
    aside                            questions that take long, in a copy of the process
    blobs, parents                   what launches and submits need of the disk, at hand
    audit                            who did what to which object
    follower                         a host that follows another one, only to be read
    outage                           while nothing can be written, or something broke
    engine, orders                   a tick without its I/O; what agents are told after it
    past                             what an installation has lived through
    agents/                          who they are, what they say and are told
    commands/                        what a caller may ask, and what follows
    tick/                            what a tick does by itself: timers, the pass as events, ends
    launches/                        what an attempt is started with
"""
