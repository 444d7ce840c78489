"""Jobs, nodes and accounts in Slurm's values, from the controller's state.

records                          what the showing commands know
job_records, job_steps, het_records, node_records, accounts    made from the state
holding, wishes, tres, why_words    what jobs hold, ask for and wait for
gather, job_refs                 the jobs that a command is asked about
"""
