"""The paths of slurmrestd, on the same records as the commands.

door, rest                       loaded when somebody first comes; which path is whose
reading, accounting, changes     ``/slurm`` and ``/slurmdb``: read, and changed
errors                           how a request is refused
"""
