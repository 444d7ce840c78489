"""The file beside a job's saved work: its state and its checkpoints, for programs that look there.

It is written when a checkpoint is reported, and again with every move of a job that has one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from rota.api.views.checkpoint_views import record_view
from rota.api.views.times import when
from rota.core.changes import events as ev
from rota.core.facts.errors import RotaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.controller.chores.saved_work import SavedWork
    from rota.controller.loop import Host
    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Job

log = logging.getLogger("rota.controller")

#: After these the job is in another state.
MOVES = (
    *(ev.AttemptStarted, ev.JobHeld, ev.JobReleased),
    *(ev.JobPreempted, ev.JobRequeued, ev.JobRetried),
)


def note_of(job: Job) -> bytes:
    """What the file says."""
    body = {
        "id": job.id,
        "uid": job.uid,
        "name": job.spec.name,
        "user": job.spec.user,
        "state": job.state,
        "saved_at": when(job.checkpoint_s),
        "checkpoints": [record_view(record) for record in job.checkpoints],
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


class SavedNotes:
    """Hears what was committed, and has the agents write these files anew."""

    def __init__(self, host: Host, saved_work: SavedWork) -> None:
        self._host, self._saved_work = host, saved_work
        #: Jobs with a checkpoint that have not ended: what ended is known to the store only.
        self._open = {job.id for job in host.cluster.jobs.values() if job.checkpoints}
        self._tasks: set[asyncio.Task[None]] = set()
        host.watch.listeners.append(self.hear)

    def hear(self, records: Sequence[Recorded]) -> None:
        """Of each move of a job with a checkpoint its file is told."""
        for record in records:
            event = record.event
            if isinstance(event, ev.CheckpointReported):
                self._open.add(event.job)
            elif isinstance(event, ev.JobSettled):
                if event.job in self._open:
                    self._open.discard(event.job)
                    self._begin(event.job)
            elif isinstance(event, MOVES):
                job = self._host.cluster.jobs.get(event.job)
                if job is not None and job.checkpoints:
                    self._open.add(job.id)
                    self._saved_work.note(job, note_of(job))

    def _begin(self, number: int) -> None:
        task = asyncio.get_running_loop().create_task(self._note_ended(number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _note_ended(self, number: int) -> None:
        try:
            ended = await self._host.read(lambda store: store.job(number))
        except RotaError as error:
            log.warning(
                "the file beside the saved work of job %d is not written: %s", number, error
            )
            return
        # It may have been put back into the queue meanwhile.
        job = self._host.cluster.jobs.get(number) or ended
        if job is not None:
            self._saved_work.note(job, note_of(job))
