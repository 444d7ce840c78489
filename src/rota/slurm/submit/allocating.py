"""Allocations for srun and salloc: a job that only holds its nodes, with a stand-in on each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from rota.controller.commands.commands import Cancel
from rota.core.facts.states import FINAL, JobState
from rota.digits import is_digits
from rota.slurm.call.command import Answer, CommandFailed, NotServed
from rota.slurm.call.waiting import unless_stopping, until_running
from rota.slurm.orders.detail import Detail
from rota.slurm.relay.programs import step_script
from rota.slurm.steps.steps import steps_of, stream_of
from rota.slurm.submit.groups import prepare_groups
from rota.slurm.submit.partitions import in_best_partition
from rota.slurm.submit.submitting import BatchWork, NotTaken, partitions_of, prepare, submit
from rota.slurm.submit.trying import tried

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.orders.orders import JobOrder

#: A stand-in that has not called by then will not come.
ARRIVAL_S = 60.0
FOR_EVER_S = 1e9
#: What each program says in front of a refusal.
_LEADS = {
    "srun": "srun: error: Unable to allocate resources: ",
    "salloc": "salloc: error: Job submit/allocate failed: ",
}


async def allocate(call: Call, orders: list[JobOrder], command: str) -> Job:
    """A running job, somebody of ours on each of its nodes; ``Failed`` when it cannot be had.

    Of several orders each is a group of a heterogeneous job, the first one speaks for the whole.
    """
    order = orders[0]
    called = call.request.program
    stream_of(call)
    lead = _LEADS[called]
    work = BatchWork(step_script(), ["stand-in"], order.text("job-name") or command)
    # What the tasks print goes to the caller, and nobody waits for a second try.
    silent = {"output": "/dev/null", "error": "/dev/null", "no-requeue": ""}
    # The folder of the tasks is the step's affair: where it is missing they begin in /tmp.
    kept = {key: value for key, value in order.options.items() if key != "chdir"}
    asked = msgspec.structs.replace(order, options={**kept, **silent})
    extra = Detail(interactive=called)
    try:
        made = await call.context.host.parents.at_hand(
            lambda: (
                prepare_groups(call, [asked, *orders[1:]], work, extra)
                if len(orders) > 1
                else prepare(call, asked, work, extra)[0]
            )
        )
        made = await in_best_partition(call, made, partitions_of(order))
        (job_id,) = await submit(call, [made])
    except NotTaken as refused:
        before = "".join(f"{called}: error: {line}\n" for line in refused.before)
        raise NotServed(f"{before}{lead}{refused.reason}\n") from None
    steps_of(call.context).held.add(job_id)
    try:
        return await _wait(call, order, job_id)
    except BaseException:
        await cancel(call, job_id)
        raise


async def tried_alone(call: Call, order: JobOrder) -> Answer:
    """``srun --test-only``: when its job would start."""
    work = BatchWork(step_script(), ["stand-in"], order.text("job-name") or "srun")
    try:
        made = prepare(call, order, work, Detail(interactive="srun"))[0]
        return await tried(call, await in_best_partition(call, made, partitions_of(order)))
    except NotTaken as refused:
        return Answer("", f"srun: error: allocation failure: {refused.reason}\n", 1)


async def _wait(call: Call, order: JobOrder, job_id: int) -> Job:
    called, context = call.request.program, call.context
    state = await until_running(context, job_id, 0.05)
    if state is JobState.QUEUED and called == "salloc":
        await call.line.show(stderr=f"salloc: Pending job allocation {job_id}\n")
    waited = state in (JobState.QUEUED, JobState.HELD)
    if waited and not order.has("quiet") and not order.has("immediate"):
        text = f"{called}: job {job_id} queued and waiting for resources\n"
        await call.line.show(stderr=text)
    state = await _until_running_or_gone(call, order, job_id)
    if state is None or state in FINAL or state is not JobState.RUNNING:
        if order.has("immediate") and state not in FINAL:
            busy = f"{_LEADS[called]}Requested nodes are busy\n"
            raise NotServed(busy, "SLURM_EXIT_IMMEDIATE")
        before = f"{called}: Job has been cancelled\n"
        over = "Job/step already completing or completed"
        raise NotServed(f"{before}{_LEADS[called]}{over}\n")
    if waited and not order.has("quiet"):
        text = f"{called}: job {job_id} has been allocated resources\n"
        await call.line.show(stderr=text)
    job = context.host.cluster.jobs[job_id]
    members = set(range(len(job.tasks)))
    arrived = steps_of(context).arrived(job_id, members, ARRIVAL_S)
    if not await unless_stopping(context, arrived):
        raise NotServed(f"{called}: error: nodes of job {job_id} did not answer\n")
    return job


async def _until_running_or_gone(call: Call, order: JobOrder, job_id: int) -> JobState | None:
    """The caller may give up while it waits."""
    patience_s = FOR_EVER_S
    if order.has("immediate"):
        text = order.text("immediate")
        patience_s = float(text) if is_digits(text) else 1.0
    waiting = asyncio.create_task(until_running(call.context, job_id, patience_s))
    leaving = asyncio.create_task(stream_of(call).read())
    done, _ = await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if waiting in done:
        # The read goes on where it was: nothing of what comes next is lost.
        leaving.cancel()
        return waiting.result()
    waiting.cancel()
    raise CommandFailed("", 1)


async def cancel(call: Call, job_id: int) -> None:
    steps_of(call.context).held.discard(job_id)
    await call.context.host.ask(Cancel(actor=call.actor, ids=(job_id,)))


def give_back(call: Call, job_id: int, code: int) -> None:
    """The stand-ins leave, which ends the job with this code."""
    steps = steps_of(call.context)
    steps.held.discard(job_id)
    steps.dismiss(job_id, code)
