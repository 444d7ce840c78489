"""``sbatch``, ``salloc`` and ``srun``.

sbatch, salloc, srun             the commands
submitting, groups, trying       from an order to a job; heterogeneous ones; ``--test-only``
allocating                       a job that only holds its nodes
"""
