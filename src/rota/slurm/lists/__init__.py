"""The commands that list jobs, nodes and how they fare.

squeue, squeue_fields, squeue_steps    jobs that wait and run
sinfo, sinfo_fields              partitions and nodes
sacct, sacct_fields, sstat       what became of jobs, and what their steps use
sprio, sdiag                     priorities; how busy the controller is
"""
