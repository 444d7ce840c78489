"""A Ray that a site already has, through its job server: each attempt is one job there.

The id of the job is the attempt's key, so Ray itself refuses to start an attempt twice. What an
attempt needs travels in a package of its own, which Ray's job server hides from its readers.

    settings    what ``[engines.NAME]`` says, checked
    client      the few requests that the driver makes, each bounded in time
    records     what Ray says of jobs, nodes and use
    states      from a job's record and the shim's notes to what became of its attempt
    machines    from Ray's nodes to what there is for us
    room        what we hold and what others hold: whether an attempt fits now
    package     what travels with an attempt, and what is asked of the job server
    driver      the driver

    shim        runs on the node between Ray and the program; a plain Python is enough for it
    gang        runs on the head for the members of a gang
    removal     runs on the head to end what the job server cannot
"""
