"""What the end of a job is called, and in which words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState
from rota.core.words.units import format_duration

if TYPE_CHECKING:
    from rota.core.facts.job import Attempt, Job

_STATE_OF_CAUSE = {
    Cause.CANCELLED: JobState.CANCELLED,
    Cause.DEPENDENCY: JobState.CANCELLED,
    Cause.TIME_LIMIT: JobState.TIMEOUT,
    Cause.NODE_LOST: JobState.NODE_FAILED,
    Cause.SCHEDULING_TIMEOUT: JobState.UNSCHEDULABLE,
    Cause.PREEMPTED: JobState.CANCELLED,
}

#: Stops that are nobody's fault: a job that is cancelled meanwhile ends as cancelled.
_BLAMELESS = {
    Cause.REQUEUED: "while it was being requeued",
    Cause.PREEMPTED: "while it was giving way",
    Cause.BACKFILL_WINDOW: "while it was giving way",
    Cause.ASSEMBLY_TIMEOUT: "while it was being requeued",
    Cause.MIGRATED: "while it was moving to another node",
}


def succeeded(attempt: Attempt) -> bool:
    return attempt.cause is Cause.EXIT and attempt.exit_code == 0


def outcome_of(job: Job, first: Attempt) -> Outcome:
    """State, cause and words for the end of a job."""
    cause = first.cause or Cause.EXIT
    if succeeded(first):
        return Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)
    if cause in _BLAMELESS and job.after_stop == "cancel":
        return Outcome(JobState.CANCELLED, Cause.CANCELLED, _BLAMELESS[cause])
    state = _STATE_OF_CAUSE.get(cause, JobState.FAILED)
    return Outcome(state, cause, words_for(job, first, cause), first.exit_code, first.signal)


def words_for(job: Job, first: Attempt, cause: Cause) -> str:
    if cause is Cause.PREEMPTED and job.after_stop == "preempt":
        return f"{first.detail}, and preempt_retries ({job.spec.preempt_retries}) are used up"
    if first.detail:
        return first.detail
    if cause is Cause.EXIT:
        return f"exit code {first.exit_code}"
    if cause is Cause.SIGNAL:
        return f"killed by signal {first.signal}"
    if cause is Cause.TIME_LIMIT:
        return f"ran longer than its limit of {format_duration(job.spec.time_limit_s)}"
    return ""


def no_bundle(digest: str) -> str:
    """Why a job is held whose packed working folder is not here."""
    return (
        f"its packed working folder (bundle {digest[:12]}) is not on the head that leads:"
        " submit once more from that folder, or copy the file of that name here, then"
        " 'rota release'; several heads need one bundles.path"
    )
