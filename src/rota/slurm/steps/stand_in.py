"""Our process inside a job, on a node where no script runs: it starts tasks of steps there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.commands.change import may_change_job
from rota.digits import is_digits
from rota.slurm.call import wire
from rota.slurm.call.command import Answer
from rota.slurm.call.waiting import unless_stopping
from rota.slurm.orders.detail import detail_of
from rota.slurm.steps import step_log
from rota.slurm.steps.steps import StandIn, steps_of, stream_of

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call

#: How often it looks whether the first task of its job has ended.
LOOK_S = 0.25


async def stand_in(call: Call) -> Answer:
    """Until the job is over: pass on what comes from the node."""
    job, member = _of(call)
    attempt = job.tasks[member].current if job is not None else None
    if job is None or attempt is None:
        return Answer("", "", 0)
    if call.request.argv[:1] == ("ended",):
        await _told_late(call, job)
        return Answer("", "", 0)
    stream = stream_of(call)
    steps = steps_of(call.context)
    if detail_of(job.spec).interactive == "srun" and job.id not in steps.held:
        # The srun that it was for lost its line to the controller before this one, and is gone.
        code = _ended(call)
        if len(job.tasks) == 1 and call.request.argv:
            await _end_unseen(call, job, 0, code - 128 if code > 128 else code << 8)
        return Answer("", "", code)
    # The head of the answer tells the other side that it was taken.
    await stream.write()
    entry = StandIn(member, call.env, stream.write)
    listening = asyncio.create_task(_listen(call, job.id, entry, stream))
    watching = asyncio.create_task(_watch(call, job.id, attempt.number, entry))
    await steps.arrive(job.id, entry)
    try:
        ends: set[asyncio.Future[Any]] = {listening, entry.dismissed}
        over = asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await unless_stopping(call.context, over)
    finally:
        listening.cancel()
        watching.cancel()
        await steps.leave(job.id, entry)
    return Answer("", "", entry.dismissed.result() if entry.dismissed.done() else 0)


def _of(call: Call) -> tuple[Job | None, int]:
    """The job and which member of it this is, if the caller may speak for it."""
    uid = call.env.get("ROTA_ATTEMPT_UID", "")
    where = call.context.host.cluster.live.where.get(uid)
    job = call.context.host.cluster.jobs.get(where[0]) if where else None
    if job is None or where is None or not may_change_job(call.actor, job.spec, job.id):
        return None, 0
    return job, where[1]


async def _listen(call: Call, job: int, entry: StandIn, stream: wire.Stream) -> None:
    """Each frame names the step that it is about."""
    runners = steps_of(call.context).runners
    while (frame := await stream.read()) is not None:
        if frame.kind == wire.EVENT:
            step = _step.decode(frame.body).step
        else:
            step = int.from_bytes(frame.body[:4], "big")
        runner = runners.get((job, step))
        if runner is not None:
            await runner.heard(frame.kind, frame.body)


async def _told_late(call: Call, job: Job) -> None:
    """srun itself says how a step ended while there was no controller to see it."""
    words = call.request.argv[1:]
    if len(words) != 2 or not all(is_digits(word) and len(word) < 10 for word in words):
        return
    number, status = map(int, words)
    await _end_unseen(call, job, number, status)


async def _end_unseen(call: Call, job: Job, number: int, status: int) -> None:
    steps = steps_of(call.context)
    await step_log.recall(call.context.host, steps, [job])
    for step in steps.of(job.id):
        if step.id == number and step.state == "RUNNING":
            step.finish(status, call.context.host.clock.now_s())
            await step_log.told(call, step)


def _ended(call: Call) -> int:
    """How the tasks ended that ran on while there was no controller; 1 where none did."""
    word = "".join(call.request.argv[:1])
    return int(word) & 0xFF if is_digits(word) and len(word) < 4 else 1


class _Named(msgspec.Struct):
    step: int


_step = msgspec.json.Decoder(_Named)


async def _watch(call: Call, job_id: int, number: int, entry: StandIn) -> None:
    """Of a batch job the first task is the script: when it has ended, all others go."""
    if call.env.get("ROTA_TASK_INDEX", "0") == "0":
        return
    while True:
        job = call.context.host.cluster.jobs.get(job_id)
        first = job.tasks[0].current if job is not None else None
        if first is None or not first.live or first.number != number:
            entry.dismiss(0)
            return
        await asyncio.sleep(LOOK_S)
