"""Routes about jobs.

jobs, submit, resubmit           submitted, also again; listed and looked at
changes, changes_many, allocations    cancelled, held, updated; room without a program
logs, log_search, results, artifacts, bundles, checkpoints    what they print, leave and bring
endpoints                        where their tasks can be reached
why, plan, measures              what they wait for, would become and cost
"""
