"""What an engine shows, in the words of the agent's state machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.backends.api import EngineJob, EnginePhase
from rota.core.facts.states import Blame, Cause
from rota.session.instructions import Began, Gone, Keep, KnownAttempt

if TYPE_CHECKING:
    from rota.backends.journal import EngineEntry


def unstarted(uid: str, why: str, fault: Blame) -> EngineJob:
    return EngineJob(
        uid=uid,
        id="",
        phase=EnginePhase.ENDED,
        ended_s=time.time(),
        cause=Cause.START_FAILED,
        detail=why,
        fault=fault,
    )


def started(job: EngineJob) -> Began:
    return Began(job.uid, 0, 0, job.started_s, job.id, job.node)


def ended(entry: EngineEntry) -> Gone:
    job = entry.end
    if job is None:
        return Gone(entry.uid, 0.0, time.time(), lost=True, error="the engine does not know it")
    cause, detail, fault = job.cause, job.detail, job.fault
    if entry.given_back and not job.started_s:
        cause, detail, fault = Cause.START_FAILED, entry.given_back, Blame.NODE
    elif entry.given_back and cause is Cause.CANCELLED:
        # The engine began it just as Rota took it out: its user cancelled nothing.
        cause, detail = Cause.PREEMPTED, f"it began while it was taken back: {entry.given_back}"
    return Gone(
        entry.uid,
        job.started_s,
        job.ended_s or time.time(),
        code=job.code,
        signal=job.signal,
        error=detail,
        fault=str(fault) if fault is not None else "",
        cause=cause,
        external=job.id,
        where=job.node,
    )


def known(entry: EngineEntry, job: EngineJob | None) -> KnownAttempt:
    keep = Keep(grace_s=entry.grace_s)
    if entry.over:
        end = ended(entry)
        return KnownAttempt(
            entry.uid,
            "ended",
            keep,
            started_s=end.started_s,
            ended_s=end.ended_s,
            code=end.code,
            signal=end.signal,
            error=end.error,
            lost=end.lost,
            fault=end.fault,
            cause=end.cause,
            external=end.external,
            where=end.where,
        )
    if job is not None and job.phase is EnginePhase.RUNNING:
        return KnownAttempt(
            entry.uid,
            "running",
            keep,
            started_s=job.started_s,
            external=job.id,
            where=job.node,
        )
    return KnownAttempt(entry.uid, "starting", keep)
