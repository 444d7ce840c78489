"""A Slurm that a site already has, by slurmrestd or by its commands.

driver      what the host of an engine calls, over either transport
settings    what a site says of its Slurm
inner       what both transports can do, and what is asked of them
rest        the transport that speaks to slurmrestd
commands    the transport that calls sbatch, squeue, sacct, scancel
records     what Slurm says of a job, in the four shapes in which it says it
states      where a job is and how it ended, from what Slurm says
nodes       its machines, one by one or as pools
script      the batch script: what sets an attempt up before its program begins
shim        the fixed parts of that script
backstops   a limit of Slurm beyond the job's own, where Slurm lets it in
visits      steps beside a running job: programs, and its ports
folders     what attempts leave behind: their output, and how they ended
"""
