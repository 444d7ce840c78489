"""Routes about jobs.

jobs, submit, resubmit           submitted, also again; listed and looked at
changes, changes_many, allocations    cancelled, held, updated; room without a program
logs, log_reader, log_merge, log_search    what they print, both streams as one, hits in it
results, artifacts, bundles, checkpoints    what they leave and bring
endpoints                        where their tasks can be reached
why, endings, plan, measures     what they wait for, how they failed, would become and cost
"""
