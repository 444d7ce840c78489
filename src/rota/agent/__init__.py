"""The node side: the agent that joins a session with the controller and a keeper of processes.

Each room knows only those below it. Below all of them: ``session``, ``as_user`` and ``keeper``.

    host                             the live agent
    pretend                          nodes for a demonstration
    simulated                        an agent whose processes are pretended
    leaving                          a node that goes by itself, and says good-bye
    chores                           what may break without the agent
    visits/                          what people want of attempts: logs, terminals, ports
    attempts/                        how attempts start, and whether they are well
    record                           how far the controller's database had come
    agent_config                     what the agent is told at its start
    keeper_link                      the agent's end of the keeper's socket
    files/                           folders that come and go: bundles, saved work
    machine/                         what this machine is and has
"""
