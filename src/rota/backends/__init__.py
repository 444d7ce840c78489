"""Engines that a site already has, in the place of our own keeper: Slurm, Kubernetes, Ray.

An engine starts, signals and forgets attempts as a keeper does, and tells how they fare. The state
machine above it is the agent's own, and the controller sees nodes like any others.

    api         what a driver can do, what it says of jobs and nodes, and how it refuses
    orders      what one attempt asks of an engine
    slurm       the drivers of a Slurm
"""
