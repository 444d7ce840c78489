"""The live host of the core: commands in, one tick, one commit, orders to agents out.

Each room knows only those below it.

    chores/                          what a live host does beside its ticks
    loop, watch, recover, clock      the inbox and the commits; who is told; state, time at start
    engine                           a tick without its I/O
    past                             what an installation has lived through
    agents/                          who they are, what they say and are told
    commands/                        what a caller may ask, and what follows
    tick/                            what a tick does by itself: timers, the pass as events, ends
    launches/                        what an attempt is started with
"""
