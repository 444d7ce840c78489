"""What agents report, turned into events. An end that is already on record changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller import lifecycle
from rota.core import events as ev
from rota.core.states import Cause, Phase
from rota.rpc.messages import Seen, Sighting

if TYPE_CHECKING:
    from rota.controller.scribe import Scribe
    from rota.core.job import Attempt, Job


def observe(scribe: Scribe, node: str, seen: Seen) -> bool:
    """Take in one sighting. False when we do not count the attempt as live: it may be forgotten."""
    cluster = scribe.cluster
    where = cluster.live.get(seen.uid)
    if where is None:
        return False
    job = cluster.jobs[where[0]]
    attempt = job.tasks[where[1]].attempts[-1]
    if attempt.allocation.node != node:
        return False
    if seen.sighting is Sighting.RUNNING:
        _running(scribe, job, where[1], attempt, seen)
        return True
    _ended(scribe, job, where[1], attempt, seen)
    return True


def _running(scribe: Scribe, job: Job, task: int, attempt: Attempt, seen: Seen) -> None:
    if attempt.phase is not Phase.PLACED:
        return
    started_s = _sane(seen.started_s, attempt.placed_s, scribe.now_s)
    scribe.emit(
        ev.AttemptStarted(job=job.id, task=task, uid=attempt.uid, pid=seen.pid, started_s=started_s)
    )
    lifecycle.start_seen(scribe, job)


def _sane(reported_s: float, placed_s: float, now_s: float) -> float:
    """A node's clock may be off: nothing starts before it was placed or after we heard of it."""
    return min(max(reported_s, placed_s), max(now_s, placed_s))


def _ended(scribe: Scribe, job: Job, task: int, attempt: Attempt, seen: Seen) -> None:
    started_s = attempt.started_s
    if not started_s and seen.started_s:
        started_s = _sane(seen.started_s, attempt.placed_s, scribe.now_s)
    cause, detail = _cause(scribe, attempt, seen)
    scribe.emit(
        ev.AttemptEnded(
            job=job.id,
            task=task,
            uid=attempt.uid,
            started_s=started_s,
            ended_s=max(_sane(seen.ended_s, attempt.placed_s, scribe.now_s), started_s),
            cause=cause,
            exit_code=seen.exit_code,
            signal=seen.signal,
            detail=detail,
            peak_memory_mib=seen.peak_memory_mib,
            cpu_s=seen.cpu_s,
        )
    )
    lifecycle.after_attempt_end(scribe, job, attempt)


def _cause(scribe: Scribe, attempt: Attempt, seen: Seen) -> tuple[Cause, str]:
    """The first cause: what we asked for, else what the agent knows, else the exit status.

    Two tasks of a gang may fail at once. The stop that the first failure caused in this very tick
    was not sent yet, so the second one has a cause of its own.
    """
    both = attempt.stop_cause is Cause.PEER_FAILED and attempt.uid in scribe.stops
    if attempt.stop_cause is not None and not both:
        return attempt.stop_cause, attempt.detail
    if seen.sighting is Sighting.MISSING:
        return Cause.NODE_LOST, seen.detail or "the agent lost track of it"
    if seen.cause is not None:
        return seen.cause, seen.detail
    if seen.signal:
        return Cause.SIGNAL, seen.detail
    return Cause.EXIT, seen.detail
