"""How long a job really ran, by the attempts that are on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.states import Cause

if TYPE_CHECKING:
    from rota.core.facts.job import Attempt, Job

#: Rounds that ended so were no work of the job's own: it had to do all of it again.
IN_VAIN = frozenset(
    {
        Cause.PREEMPTED,
        Cause.REQUEUED,
        Cause.NODE_LOST,
        Cause.BACKFILL_WINDOW,
        Cause.ASSEMBLY_TIMEOUT,
        Cause.START_FAILED,
        Cause.MIGRATED,
    }
)


def has_started(job: Job) -> bool:
    """Whether any process of it ever existed."""
    return any(attempt.started_s for task in job.tasks for attempt in task.attempts)


def ran_once(job: Job) -> bool:
    return len(_rounds(job)) <= 1


def run_length_s(job: Job) -> float:
    """What its useful rounds took together; the last one counts, however it ended.

    Time that it stood still does not: it would not have stood still under other rules.
    """
    rounds = _rounds(job)
    total_s = 0.0
    for place, attempts in enumerate(rounds):
        last = place == len(rounds) - 1
        if last or not any(attempt.cause in IN_VAIN for attempt in attempts):
            begin_s = min(attempt.started_s for attempt in attempts)
            end_s = max(attempt.ended_s for attempt in attempts)
            total_s += end_s - begin_s - (job.paused_s if last else 0.0)
    return max(total_s, 0.0)


def _rounds(job: Job) -> list[list[Attempt]]:
    """The attempts that started, by the round that they belong to."""
    rounds: dict[int, list[Attempt]] = {}
    for task in job.tasks:
        for attempt in task.attempts:
            if attempt.started_s:
                rounds.setdefault(attempt.number, []).append(attempt)
    return [rounds[number] for number in sorted(rounds)]
