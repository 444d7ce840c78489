"""The Slurm commands: parsed and answered in the server, relayed by a tiny program.

Each room knows only those below it.

    rest/                            the paths of slurmrestd
    serving, routes                  the door for the relay; batch scripts over the network
    submit/                          sbatch, salloc, srun, sbcast, sattach
    lists/                           squeue, sinfo, sacct, sstat, sprio, sdiag
    control/                         scontrol, scancel
    accounting/                      sacctmgr, sreport, sshare
    formats/                         tables, JSON and YAML
    records/                         jobs, nodes and accounts in Slurm's values
    steps/                           steps of jobs: which run where, and how they end
    orders/                          what the options of sbatch, salloc and srun ask for
    call/                            one call of a command: its words, its line, its answer
    relay/                           the programs that run elsewhere
    words/                           times, sizes, states, file names as Slurm writes them
    site/                            a site of Slurm, read and turned into one of Rota
"""
