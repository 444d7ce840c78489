"""The paths of slurmrestd, on the same records as the commands.

door, rest                       loaded when somebody first comes; which path is whose
reading, changes                 ``/slurm``: read, and changed
accounting, account_changes      ``/slurmdb``: read, and changed
errors                           how a request is refused
"""
