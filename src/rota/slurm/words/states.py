"""States in Slurm's words: which there are, how they are abbreviated, how callers name them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.core.facts.states import Cause, JobState

if TYPE_CHECKING:
    from rota.core.facts.job import Job

#: Long word -> compact form, in the order in which Slurm lists and sorts them.
COMPACT = MappingProxyType(
    {
        "PENDING": "PD",
        "RUNNING": "R",
        "SUSPENDED": "S",
        "COMPLETED": "CD",
        "CANCELLED": "CA",
        "FAILED": "F",
        "TIMEOUT": "TO",
        "NODE_FAIL": "NF",
        "PREEMPTED": "PR",
        "BOOT_FAIL": "BF",
        "DEADLINE": "DL",
        "OUT_OF_MEMORY": "OOM",
        "COMPLETING": "CG",
        "CONFIGURING": "CF",
        "RESIZING": "RS",
        "RESV_DEL_HOLD": "RD",
        "REQUEUED": "RQ",
        "REQUEUE_FED": "RF",
        "REQUEUE_HOLD": "RH",
        "REVOKED": "RV",
        "SIGNALING": "SI",
        "SPECIAL_EXIT": "SE",
        "STAGE_OUT": "SO",
        "STOPPED": "ST",
    }
)
_LONG = {compact: word for word, compact in COMPACT.items()}
_ORDER = {word: place for place, word in enumerate(COMPACT)}
#: What squeue shows when nobody names states.
UNFINISHED = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED")
ENDED = frozenset(
    {
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
    }
)

_WORDS = {
    JobState.HELD: "PENDING",
    JobState.QUEUED: "PENDING",
    JobState.PREEMPTED: "PENDING",
    JobState.SCHEDULED: "CONFIGURING",
    JobState.RUNNING: "RUNNING",
    JobState.COMPLETED: "COMPLETED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
    JobState.TIMEOUT: "TIMEOUT",
    JobState.NODE_FAILED: "NODE_FAIL",
    JobState.UNSCHEDULABLE: "DEADLINE",
}


def parse_state(word: str) -> str | None:
    """The long form of ``PD``, ``pending`` or ``Pending``; None for what is no state."""
    upper = word.strip().upper()
    if upper in COMPACT:
        return upper
    return _LONG.get(upper)


def place_of(state: str) -> int:
    """Where a state stands in Slurm's own order."""
    return _ORDER.get(state, len(_ORDER))


def state_word(job: Job) -> str:
    """The state of a job or element in Slurm's words."""
    state = job.state
    if job.outcome is not None and job.outcome.cause is Cause.OUT_OF_MEMORY:
        return "OUT_OF_MEMORY"
    if state is JobState.CANCELLED and job.outcome is not None:
        return "CANCELLED"
    if job.suspended_s and state is JobState.RUNNING:
        return "SUSPENDED"
    if state is JobState.SCHEDULED:
        return "RUNNING" if not _leaving(job) else "COMPLETING"
    if state is JobState.RUNNING and _leaving(job):
        return "COMPLETING"
    return _WORDS[state]


def _leaving(job: Job) -> bool:
    """Whether it was told to stop, and has not yet."""
    live = job.live_attempts
    return bool(live) and all(attempt.stop_cause is not None for attempt in live)


#: Why an ended job ended, where Slurm has a word for it.
END_REASONS = MappingProxyType(
    {
        Cause.EXIT: "NonZeroExitCode",
        Cause.SIGNAL: "JobLaunchFailure",
        Cause.OUT_OF_MEMORY: "OutOfMemory",
        Cause.TIME_LIMIT: "TimeLimit",
        Cause.START_FAILED: "JobLaunchFailure",
        Cause.NODE_LOST: "NodeDown",
        Cause.DEPENDENCY: "DependencyNeverSatisfied",
        Cause.SCHEDULING_TIMEOUT: "DeadLine",
        Cause.PEER_FAILED: "NonZeroExitCode",
    }
)


#: In the place of a signal where a script could not be started: its output cannot be written.
NEVER_BEGAN = 53


def end_reason(job: Job) -> str:
    """Slurm's reason of a job that is over; one word, and never empty."""
    outcome = job.outcome
    if outcome is None or outcome.state in (JobState.COMPLETED, JobState.CANCELLED):
        return "None"
    return END_REASONS.get(outcome.cause, "None")
