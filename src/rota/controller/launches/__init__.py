"""From an allocation to what an attempt is started with.

launch                           the argument list, the environment, the files
variables, overrides             what a task finds in its environment; Slurm's differences
world                            the members of a job, and where they meet
vault                            what seals environments and secrets
"""
