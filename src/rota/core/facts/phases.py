"""What a job is doing, in finer words than its state: derived each time, never stored."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from rota.core.facts.states import Cause, JobState

if TYPE_CHECKING:
    from rota.core.facts.job import Attempt, Job


class JobPhase(StrEnum):
    """Finer words than a job's state."""

    PENDING = "pending"
    QUEUED = "queued"
    SCHEDULED = "scheduled"
    PROVISIONING = "provisioning"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CHECKPOINTING = "checkpointing"
    MIGRATING = "migrating"
    PREEMPTED = "preempted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


_ENDS = {JobState.COMPLETED: JobPhase.COMPLETED, JobState.CANCELLED: JobPhase.CANCELLED}
#: Stops that leave time to save the work.
_SAVING = (Cause.PREEMPTED, Cause.SHRUNK, Cause.BACKFILL_WINDOW)


def phase_of(job: Job) -> JobPhase:
    """One word. Every end that is neither good nor wished for is ``failed``."""
    if job.outcome is not None:
        return _ENDS.get(job.outcome.state, JobPhase.FAILED)
    latest, state = job.round, job.state
    if state is JobState.RUNNING:
        return _running(job, latest)
    if state is JobState.SCHEDULED:
        # An attempt that waits for others to leave its room is not prepared for yet.
        waits = any(attempt.after for attempt in latest)
        return JobPhase.SCHEDULED if waits else JobPhase.PROVISIONING
    if state is JobState.PREEMPTED:
        return JobPhase.PREEMPTED
    if any(attempt.cause is Cause.MIGRATED for attempt in latest):
        return JobPhase.MIGRATING
    ready = state is JobState.QUEUED and job.eligible_s
    return JobPhase.QUEUED if ready else JobPhase.PENDING


def _running(job: Job, latest: list[Attempt]) -> JobPhase:
    if job.suspended_s:
        return JobPhase.SUSPENDED
    stops = {attempt.stop_cause for attempt in latest if attempt.live}
    if Cause.MIGRATED in stops:
        return JobPhase.MIGRATING
    leaves = job.spec.checkpoint_signal and any(cause in stops for cause in _SAVING)
    saves = leaves or job.save_asked_s > job.checkpoint_s
    return JobPhase.CHECKPOINTING if saves else JobPhase.RUNNING
