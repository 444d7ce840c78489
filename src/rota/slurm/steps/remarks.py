"""Slurm's own lines in the output of a batch job: why it was ended before its script did."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from rota.controller.launches.launch import output_path
from rota.core.changes import events as ev
from rota.core.facts.states import Cause, Phase
from rota.rpc.visits import WriteRemark
from rota.slurm.orders.detail import LABEL, detail_of
from rota.slurm.words.amounts import zone_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from rota.api.context import Context
    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Job

_PREEMPTED = " DUE TO PREEMPTION"
_DUE_TO = {
    Cause.CANCELLED: "",
    Cause.TIME_LIMIT: " DUE TO TIME LIMIT",
    Cause.REQUEUED: " DUE TO JOB REQUEUE",
    Cause.PREEMPTED: _PREEMPTED,
    Cause.BACKFILL_WINDOW: _PREEMPTED,
    Cause.SHRUNK: _PREEMPTED,
    Cause.MIGRATED: _PREEMPTED,
}


def stopped_line(what: str, node: str, at_s: float, why: str = "") -> str:
    """``what`` is ``JOB 12`` or ``STEP 12.0``."""
    at = datetime.fromtimestamp(at_s, zone_of("")).strftime("%Y-%m-%dT%H:%M:%S")
    return f"slurmstepd-{node}: error: *** {what} ON {node} CANCELLED AT {at}{why} ***\n"


def _memory_line(job: int, node: str) -> str:
    return (
        f"slurmstepd-{node}: error: Detected 1 oom-kill event(s) in StepId={job}.batch. Some of "
        "your processes may have been killed by the cgroup out-of-memory handler.\n"
    )


class Remarks:
    """Hears what was committed, and has the agents write what Slurm would have written."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, records: Sequence[Recorded]) -> None:
        for record in records:
            event = record.event
            if isinstance(event, ev.AttemptStopAsked):
                self._on_stop(event, record.at_s)
            elif isinstance(event, ev.AttemptEnded) and event.cause is Cause.OUT_OF_MEMORY:
                self._start(self._on_memory(event))

    def _on_stop(self, event: ev.AttemptStopAsked, at_s: float) -> None:
        job = self._context.host.cluster.jobs.get(event.job)
        why = _DUE_TO.get(event.cause)
        if job is None or why is None or event.task:
            return
        attempt = job.tasks[0].attempts[-1]
        if attempt.uid == event.uid and attempt.phase is Phase.RUNNING:
            node = attempt.allocation.node
            line = stopped_line(f"JOB {job.id}", node, at_s, why)
            write_remark(self._context, job, event.uid, node, line)

    async def _on_memory(self, event: ev.AttemptEnded) -> None:
        """By now the job may be over, and known to the store only."""
        host = self._context.host
        job = host.cluster.jobs.get(event.job)
        if job is None:
            job = await host.read(lambda store: store.job(event.job))
        if job is None or event.task:
            return
        node = next(a.allocation.node for a in job.tasks[0].attempts if a.uid == event.uid)
        write_remark(self._context, job, event.uid, node, _memory_line(job.id, node))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def write_remark(context: Context, job: Job, uid: str, node: str, text: str) -> None:
    """Into the errors of a batch job, by the agent of its node and with the rights of its user."""
    spec = job.spec
    if LABEL not in spec.labels or detail_of(spec).interactive:
        return
    path = output_path(spec.error or spec.output, job, 0)
    host = context.host
    session = host.sessions.by_node.get(node)
    if session is not None and path:
        host.links.send(session.link, WriteRemark(uid, path, spec.user, text))
