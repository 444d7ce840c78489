"""The steps of jobs.

steps, step_log                  which run and how the others ended, also on record
step_plan, step_room, step_orders    which tasks run where, when, and what is told to start them
step_run, step_patience, step_words, audience    a step that runs, what is said of it, who watches
staffing, stand_in               somebody of ours on each node
signalling, remarks              signals; Slurm's own lines in the output
"""
