"""Jobs that break the work on them are put aside with a reason, so that the others go on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.controller.tick import lifecycle
from rota.core.changes import events as ev
from rota.core.facts.states import WAITING, Cause

if TYPE_CHECKING:
    from rota.controller.tick.scribe import Scribe

log = logging.getLogger("rota.controller")


def hold_broken(scribe: Scribe, job_id: int, note: str) -> None:
    """Hold a waiting job, or the waiting elements of its array: nobody tries it before a person
    has looked and let it go."""
    cluster = scribe.cluster
    scribe.actor = "rota"
    job = cluster.jobs.get(job_id)
    array = cluster.arrays.get(job_id) or cluster.array_of(job_id)
    if job is not None and job.state in WAITING and not job.held:
        scribe.emit(ev.JobHeld(job=job_id, note=note))
    elif job is None and array is not None and not array.held:
        scribe.emit(ev.ArrayChanged(array=array.id, held=True, eligible=False, note=note))
    else:
        return
    log.error("job %d is held: %s", job_id, note)


def never_began(scribe: Scribe, uid: str, detail: str) -> None:
    """A placed attempt that no agent could be told of: its job ends with the cause."""
    cluster = scribe.cluster
    job_id, task = cluster.live.where[uid]
    attempt = cluster.jobs[job_id].tasks[task].attempts[-1]
    log.error("job %d: attempt %s ends: %s", job_id, uid, detail)
    scribe.emit(
        ev.AttemptEnded(
            job=job_id,
            task=task,
            uid=uid,
            ended_s=max(scribe.now_s, attempt.placed_s),
            cause=attempt.stop_cause or Cause.START_FAILED,
            detail=attempt.detail if attempt.stop_cause else detail,
        )
    )
    lifecycle.after_attempt_end(scribe, cluster.jobs[job_id], attempt)
