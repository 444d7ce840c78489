"""``sbatch``, ``salloc``, ``srun``, ``sbcast`` and ``sattach``.

sbatch, salloc, srun, sbcast, sattach    the commands
submitting, groups, trying       from an order to a job; heterogeneous ones; ``--test-only``
partitions                       the one of several in which a job would start first
allocating                       a job that only holds its nodes
"""
