"""The command line. Every command is a module of its own, loaded when it is asked for.

The rooms are the sections of ``rota --help``; each knows only those below it.

    start, main                      where ``rota`` begins; the table of commands
    completion, version              two commands about the program itself
    engines/                         engine and its pilots
    service/                         up, down, agent, token, doctor and their like
    rules/                           policy, sim, replay, quota, project, user, queue-admin
    cluster/                         nodes, gpus, queues, usage, reserve and their like
    jobs/                            run, queue, show, logs, cancel and their like
    submit/                          from options, scripts and surroundings to a job
    shared/                          what all commands share
"""
