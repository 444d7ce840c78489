"""What a job is doing, in finer words than its state: derived each time, never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.states import Cause, JobState

if TYPE_CHECKING:
    from rota.core.facts.job import Attempt, Job

_ENDS = {JobState.COMPLETED: "completed", JobState.CANCELLED: "cancelled"}
#: Stops that leave time to save the work.
_SAVING = (Cause.PREEMPTED, Cause.SHRUNK, Cause.BACKFILL_WINDOW)


def phase_of(job: Job) -> str:
    """One word. Every end that is neither good nor wished for is ``failed``."""
    if job.outcome is not None:
        return _ENDS.get(job.outcome.state, "failed")
    latest, state = job.round, job.state
    if state is JobState.RUNNING:
        return _running(job, latest)
    if state is JobState.SCHEDULED:
        # An attempt that waits for others to leave its room is not prepared for yet.
        return "scheduled" if any(attempt.after for attempt in latest) else "provisioning"
    if state is JobState.PREEMPTED:
        return "preempted"
    if any(attempt.cause is Cause.MIGRATED for attempt in latest):
        return "migrating"
    return "queued" if state is JobState.QUEUED and job.eligible_s else "pending"


def _running(job: Job, latest: list[Attempt]) -> str:
    if job.suspended_s:
        return "suspended"
    stops = {attempt.stop_cause for attempt in latest if attempt.live}
    if Cause.MIGRATED in stops:
        return "migrating"
    leaves = job.spec.checkpoint_signal and any(cause in stops for cause in _SAVING)
    return "checkpointing" if leaves or job.save_asked_s > job.checkpoint_s else "running"
