"""The node side: the agent that speaks to the controller and the keeper that owns the processes.

Each room knows only those below it.

    host, alarm                      the live agent, and its one timer
    visits/                          what people want of attempts: logs, terminals, ports
    attempts/                        how attempts start, and whether they are well
    record                           how far the controller's database had come
    agent_config, folder             what the agent is told at its start, and its own folder
    talk/                            the lines to the controller and to the keeper
    files/                           folders that come and go: bundles, saved work
    logic/                           the state machine, without I/O
    machine/                         what this machine is and has
    as_user/                         what touches a user's files, in children that are that user
    keeper/                          the parent of all job processes: a program of its own
"""
