"""Room for a step in its job: steps share the CPUs of the job, and wait for each other's.

A step takes as many CPUs as its tasks ask for, as with ``--exact``; with ``--overlap`` none.
"""

from __future__ import annotations

import asyncio
import signal as signals
from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.facts.states import JobState
from rota.slurm.call import wire
from rota.slurm.call.command import NotServed
from rota.slurm.call.waiting import unless_stopping
from rota.slurm.steps.step_plan import cpus_held, plan_step
from rota.slurm.steps.steps import steps_of, stream_of

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.steps.step_plan import StepPart, StepPlan
    from rota.slurm.steps.steps import StepClaim

#: How often one who waits looks whether the job is still there.
LOOK_S = 0.25
BUSY = "Requested nodes are busy"
OVER = "Job/step already completing or completed"
_SHARING = ("overlap", "oversubscribe")
#: Who waits for room and is sent one of these, gives up.
_GIVE_UP = frozenset({signals.SIGINT, signals.SIGTERM, signals.SIGHUP, signals.SIGQUIT})


async def find_room(call: Call, job: Job, parts: list[StepPart]) -> tuple[StepPlan, StepClaim]:
    """Where the tasks go and what they hold there, which the caller gives back."""
    steps = steps_of(call.context)
    order = parts[0].order
    waited = False
    while True:
        taken = steps.taken(job.id)
        plan = plan_step(job, parts, taken)
        needs = needs_of(plan)
        if all(taken.get(task, 0) + cpus <= most for task, (cpus, most) in needs.items()):
            claim = steps.claim(job.id, {task: cpus for task, (cpus, _) in needs.items()})
            if waited:
                await _say(call, parts, f"Step created for job {job.id}")
            return plan, claim
        if order.has("immediate"):
            raise _refused(job, BUSY)
        if not waited:
            why = f"step creation temporarily disabled, retrying ({BUSY})"
            await _say(call, parts, f"Job {job.id} {why}")
        waited = True
        await _until_freed(call, job)


def needs_of(plan: StepPlan) -> dict[int, tuple[int, int]]:
    """By member: how many CPUs a step takes of it, and how many it has."""
    needs: dict[int, tuple[int, int]] = {}
    for place in plan.places:
        order = plan.parts[place.part].order
        if any(map(order.has, _SHARING)):
            continue
        most = cpus_held(place.member)
        before, _ = needs.get(place.member.task, (0, 0))
        needs[place.member.task] = (min(before + (order.cpus_per_task or 1), most), most)
    return needs


async def _until_freed(call: Call, job: Job) -> None:
    """Until some step has ended; ``Failed`` when the job is over or the caller gives up."""
    freed = asyncio.ensure_future(steps_of(call.context).freed.wait())
    leaving = asyncio.ensure_future(_leaves(call))
    try:
        ends: set[asyncio.Future[Any]] = {freed, leaving}
        waiting = asyncio.wait(ends, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        await unless_stopping(call.context, waiting)
        if leaving.done():
            line = f"srun: Cancelled pending job step with signal {leaving.result()}\n"
            await call.line.show(stderr=line)
            raise _refused(job, OVER)
    finally:
        freed.cancel()
        leaving.cancel()
    known = call.context.host.cluster.jobs.get(job.id)
    if known is None or known.state is not JobState.RUNNING:
        raise _refused(job, OVER)


async def _leaves(call: Call) -> int:
    """The signal with which the caller gives up; one that is gone was killed."""
    while (frame := await stream_of(call).read()) is not None:
        event = msgspec.json.decode(frame.body) if frame.kind == wire.EVENT else {}
        if event.get("op") == "signal" and event["number"] in _GIVE_UP:
            return int(event["number"])
    return int(signals.SIGKILL)


async def _say(call: Call, parts: list[StepPart], text: str) -> None:
    if not parts[0].order.has("quiet"):
        await call.line.show(stderr=f"srun: {text}\n")


def _refused(job: Job, reason: str) -> NotServed:
    return NotServed(f"srun: error: Unable to create step for job {job.id}: {reason}\n")
