"""Programs written for other libraries, with another import: the part of each that is natural here.

Dask's ``Client`` needs none: ``submit``, ``map``, ``gather`` and ``as_completed`` are called alike.

submitit     AutoExecutor and its jobs
ray          remote functions, get, wait and put; no actors
"""
