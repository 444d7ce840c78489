"""Somebody of ours on each node of a step: the script's own node has nobody until one is sent.

Who is outside of a job and wants a step in it needs a process inside, which starts its tasks: the
stand-in that nodes without a script have from the beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.rpc.visits import StartBeside
from rota.slurm.call.command import NotServed
from rota.slurm.call.waiting import unless_stopping
from rota.slurm.orders.detail import LABEL, detail_of
from rota.slurm.relay.programs import step_script
from rota.slurm.steps.steps import steps_of

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.steps.step_plan import StepPlan

#: How long a step waits for the starters of its tasks elsewhere.
ARRIVAL_S = 10.0
_PYTHON = ("python3", "-ISE", "-c")


async def require_staff(call: Call, job: Job, plan: StepPlan, home: int) -> None:
    """Wait until all are there who start tasks of a step; ``Failed`` when somebody is not."""
    steps = steps_of(call.context)
    wanted = {member.task: member.node for member in plan.members if member.task != home}
    if not wanted:
        return
    for task in wanted:
        if task not in steps.stand_ins.get(job.id, {}) and not _has_stand_in(job, task):
            _summon(call, job, task)
    arrived = steps.arrived(job.id, set(wanted), ARRIVAL_S)
    if await unless_stopping(call.context, arrived):
        return
    known = steps.stand_ins.get(job.id, {})
    absent = [task for task in wanted if task not in known]
    steps.summoned.difference_update((job.id, task) for task in absent)
    raise NotServed(
        f"srun: error: Unable to create step for job {job.id}: "
        f"Unable to contact slurmd on {wanted[absent[0]] if absent else ''}\n"
    )


def _has_stand_in(job: Job, task: int) -> bool:
    """Whether the job itself runs one there: it will call in a moment."""
    if LABEL not in job.spec.labels:
        return False
    return task > 0 or bool(detail_of(job.spec).interactive)


def _summon(call: Call, job: Job, task: int) -> None:
    """Send an attendant to the job, unless one is on its way."""
    steps, host = steps_of(call.context), call.context.host
    attempt = job.tasks[task].current
    if attempt is None or (job.id, task) in steps.summoned:
        return
    session = host.sessions.by_node.get(attempt.allocation.node)
    if session is not None:
        steps.summoned.add((job.id, task))
        argv = (*_PYTHON, step_script().decode(), "stand-in")
        host.links.send(session.link, StartBeside(attempt.uid, job.spec.user, argv))
