"""Routes about jobs.

jobs, submit, resubmit           submitted, also again; listed and looked at
changes, changes_many, allocations    cancelled, held, updated; room without a program
logs, log_reader, log_merge, log_search    what they print, both streams as one, hits in it
results, artifacts, bundles, checkpoints, saved_notes    what they leave and bring
endpoints                        where their tasks can be reached
why, basis, endings              what they wait for, what that rests on, how they failed
plan, measures, progress         what they would become, and cost; how far they are
starts, promises                 when those that wait will probably start; promised deadlines
"""
