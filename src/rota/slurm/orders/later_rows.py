"""Options that versions of Slurm after 22.05 brought, where programs use them."""

from __future__ import annotations

from functools import partial

from rota.slurm.orders import readers
from rota.slurm.orders.row import NUMBER, OptionRow, Status
from rota.slurm.orders.rows import ALLOCATION, BATCH, STEPS
from rota.slurm.words import values

_later = partial(OptionRow, later=True)
_ignored = partial(_later, status=Status.IGNORED)

LATER = (
    _later("container-id=ID", "images run with rota submit --image", Status.REFUSED,
        env="sbatch:SBATCH_CONTAINER_ID srun:SRUN_CONTAINER_ID salloc:SALLOC_CONTAINER_ID"),
    _ignored("extra=TEXT", "a text for filters of a site"),
    _ignored("external-launcher", "tasks that another program starts", of=STEPS),
    _ignored("oom-kill-step=?0|1", "a step that runs out of memory ends on all of its nodes",
        env="srun:SLURM_OOMKILLSTEP"),
    _ignored("resv-ports=?COUNT", "ports that are set aside for a job", of=(*BATCH, *ALLOCATION)),
    _ignored("segment=COUNT", "nodes of a block side by side",
        read=values.whole, complaint=NUMBER),
    _ignored("stepmgr", "steps that the job looks after itself"),
    _ignored("treewidth=COUNT", "how messages to nodes fan out", of=STEPS),
    _ignored("tres-bind=TYPE", "which task sees which device", env="TRES_BIND"),
    _later("tres-per-task=LIST", "CPUs and GPUs for each task: cpu:2,gres/gpu:1",
        means=readers.per_task, env="TRES_PER_TASK", sets="SLURM_TRES_PER_TASK",
        shows="squeue:tres-per-task rest:tres_per_task"),
    _ignored("wait-for-children", "a task is over when all of its processes are", of=STEPS),
)  # fmt: skip
