"""Routes about jobs.

jobs, submit, resubmit           submitted, also again; listed and looked at
changes, changes_many, allocations    cancelled, held, updated; room without a program
logs, log_reader, log_merge, log_search    what they print, both streams as one, hits in it
bundles, checkpoints, saved_notes    what they bring, and what of their work is saved
endpoints                        where their tasks can be reached
why, basis, endings              what they wait for, what that rests on, how they failed
plan, measures                   what they would become, and cost
starts, promises                 when those that wait will probably start; promised deadlines
"""
