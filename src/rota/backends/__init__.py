"""Engines that a site already has, in the place of our own keeper: Slurm, Kubernetes, Ray.

An engine starts, signals and forgets attempts as a keeper does, and tells how they fare. The state
machine above it is the agent's own, and the controller sees nodes like any others.

    api           what a driver can do, what it says of jobs and nodes, and how it refuses
    orders        what one attempt asks of an engine, and its key
    registry      which kinds there are, and from ``[engines.NAME]`` to a driver
    pilot_tables  from the settings of a pilot to the table of an engine
    slurm         the driver for Slurm
    kubernetes    the driver for Kubernetes
    ray           the driver for Ray

    journal       what has been asked of an engine, on disk before it is asked
    reconcile     the engine's list held against the journal: what follows
    guard         a driver on whose bugs its host does not break
    lost          what the list no longer has, asked of all that remembers
    pace          how long to wait before an engine is asked again
    intake        from attempts that shall start to submits
    gangs         members of a gang: when all are there, and how one job stands for all
    flow          how many attempts an engine gets before there is room for them
    metering      what waits inside an engine, and what of it comes back
    news          what an engine shows, in the words of the agent's state machine
    register      its machines on disk: one may leave while nobody looks
    machines      the engine's machines as nodes: names, cluster, what keeps jobs off
    node_session  one node of an engine in the controller's eyes
    visits        people who come into running jobs
    logs          what jobs on an engine printed
    old_copies    what of that goes as old jobs do
    host          the process of one engine
    process       its folder, its journal, its driver, joined
"""
