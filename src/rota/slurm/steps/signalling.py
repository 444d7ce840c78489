"""Signals for jobs: to the tasks of their steps, and to the batch script where that is meant."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.core.changes import events as ev
from rota.core.facts.states import Phase
from rota.digits import is_digits
from rota.rpc.visits import SendSignal
from rota.slurm.call.waiting import until_running
from rota.slurm.orders.detail import LABEL, detail_of
from rota.slurm.steps.remarks import Remarks
from rota.slurm.steps.steps import steps_of
from rota.slurm.words.values import warning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.api.context import Context
    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Job

#: A signal waits so long for the start of a job that has its node.
STARTS_S = 10.0


async def signal_job(
    context: Context, job_id: int, number: int, *, batch: bool = False, full: bool = False
) -> None:
    """To the steps; with ``batch`` to the script instead, with ``full`` to both."""
    if full or not batch:
        for runner in steps_of(context).running(job_id):
            await runner.signal(number)
    if full or batch:
        if _starts(context, job_id):
            # It may run already: that this is known here takes a moment.
            await until_running(context, job_id, STARTS_S)
        signal_script(context, job_id, number, children=full)


def _starts(context: Context, job_id: int) -> bool:
    job = context.host.cluster.jobs.get(job_id)
    attempt = job.tasks[0].current if job is not None and job.tasks else None
    return attempt is not None and attempt.phase is Phase.PLACED


def signal_script(context: Context, job_id: int, number: int, *, children: bool = False) -> None:
    """To the first process of the first task, by way of its node's agent; or to all of it."""
    host = context.host
    job = host.cluster.jobs.get(job_id)
    attempt = job.tasks[0].current if job is not None and job.tasks else None
    if attempt is None or attempt.phase is not Phase.RUNNING:
        return
    session = host.sessions.by_node.get(attempt.allocation.node)
    if session is not None:
        host.links.send(session.link, SendSignal(attempt.uid, number, children))


async def signal_step(context: Context, job_id: int, step: str, number: int) -> bool:
    """To one step; whether there is one."""
    if step == "batch":
        signal_script(context, job_id, number)
        return True
    runner = steps_of(context).runners.get((job_id, int(step))) if is_digits(step) else None
    if runner is not None:
        await runner.signal(number)
    return runner is not None


class Warnings:
    """``--signal=USR1@90``: jobs are warned 90 seconds before their limit is over."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._alarms: dict[int, asyncio.TimerHandle] = {}
        #: The attempt of each job that has heard it already.
        self._warned: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked = False

    def hear(self, records: Sequence[Recorded]) -> None:
        """What was committed; the first time also jobs that ran before the controller started."""
        jobs = self._context.host.cluster.jobs
        if not self._looked:
            self._looked = True
            for job in jobs.values():
                self._set(job)
        for record in records:
            event = record.event
            if isinstance(event, ev.AttemptStarted | ev.JobUpdated | ev.JobResumed):
                found = jobs.get(event.job)
                if found is not None:
                    self._set(found)

    def _set(self, job: Job) -> None:
        if LABEL not in job.spec.labels or not (due_s := job.limit_due_s):
            return
        text = detail_of(job.spec).signal
        if not text:
            return
        ahead_s = warning(text)[2]
        wait_s = max(0.0, due_s - ahead_s - self._context.host.clock.now_s())
        if (known := self._alarms.pop(job.id, None)) is not None:
            known.cancel()
        loop = asyncio.get_running_loop()
        self._alarms[job.id] = loop.call_later(wait_s, self._warn, job.id)

    def _warn(self, job_id: int) -> None:
        self._alarms.pop(job_id, None)
        job = self._context.host.cluster.jobs.get(job_id)
        if job is None or not job.limit_due_s:
            return
        uid = job.tasks[0].attempts[-1].uid
        if self._warned.get(job_id) == uid:
            return
        flags, number, ahead_s = warning(detail_of(job.spec).signal)
        if job.limit_due_s - ahead_s > self._context.host.clock.now_s() + 1.0:
            self._set(job)
            return
        jobs = self._context.host.cluster.jobs
        self._warned = {item: heard for item, heard in self._warned.items() if item in jobs}
        self._warned[job_id] = uid
        sending = signal_job(self._context, job_id, number, batch="B" in flags)
        task = asyncio.get_running_loop().create_task(sending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def watch(context: Context) -> None:
    """From now on jobs are warned before their limit is over, and told why they were ended."""
    context.host.watch.listeners += (Warnings(context).hear, Remarks(context).hear)
