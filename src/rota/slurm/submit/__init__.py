"""``sbatch``, ``salloc``, ``srun`` and ``sbcast``.

sbatch, salloc, srun, sbcast     the commands
submitting, groups, trying       from an order to a job; heterogeneous ones; ``--test-only``
partitions                       the one of several in which a job would start first
allocating                       a job that only holds its nodes
"""
