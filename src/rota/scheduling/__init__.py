"""One scheduling pass, pure: reads a Cluster, returns decisions. Imports core and nothing else.

The pass
    scheduler, memory, passes        what is remembered between passes; the pass, step by step
    api, outcomes                    what is decided, and what comes of a look at a job
    waits, misses, reading, blocked  what a blocked lane waits for, and which lanes an event opens
    passing                          which jobs may pass one that waits
    early                            jobs that wait inside an engine before there is room
    growth                           elastic gangs that get more tasks
    rulebook, registry, rules, guarded    from names to rules; plug-ins under watch
The rooms
    order/      who comes first
    limits/     who may take more
    place/      room now
    later/      room later: promises and claims
    evict/      room of others
    answers/    why a job waits, and what would help
"""
