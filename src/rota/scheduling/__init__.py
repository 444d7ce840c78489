"""One scheduling pass, pure: reads a Cluster, returns decisions. Imports core and nothing else.

The pass
    scheduler, passes, api           what it remembers, what it does, what it decides
    registry, guarded                from names to rules; plug-ins under watch
    known_misses, recheck            what need not be asked again, and when it must be
The rooms
    order/      who comes first
    limits/     who may take more
    place/      room now
    later/      room later: promises and claims
    evict/      room of others
    answers/    why a job waits, and what would help
    pool/       the same decisions where a site counts one thing only
"""
