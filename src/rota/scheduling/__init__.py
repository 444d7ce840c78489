"""One scheduling pass, pure: reads a Cluster, returns decisions. Imports core and nothing else.

The pass
    scheduler, passes, api           what it remembers, what it does, what it decides
    lines, heads, firsts, keys, order, fairshare, share_tree    who comes first
    quota, quota_rules               who may take more
    registry, guarded                from names to rules; plug-ins under watch
    policies                         the same rules for tools that think job by job
    pool/                            the same decisions where a site counts one thing only
Room now
    gang, growth, overtaking         all tasks or none; who grows; who is looked at again
    space, buckets, heaps, wants, ranks, nodeclass, refusals    nodes by the class, not one by one
    room, rooms, near, devices, pins    the chosen node itself
    filters, scores, packing, gradient, fragments    which node, and how good it is
Room later
    backfill, redeem, timeline, future, reserved    promises and claims
    successors                       who is placed before the one before him has ended
    stays, course, leavers           who is where until when
    predict, predict_runs            how long a job will run
Room of others
    takeovers, preempt, victims, front, trial, lending    who gives way, and what it costs
Answers
    explain, reasons, prose, survey, ahead, past, queue_stats    why a job waits
    advice, knobs, remedies, whatif, outlook    what would help, tried without a trace
"""
