"""How jobs of a period fared, added up by the database: never by walking through history.

A job belongs to the period in which it was submitted. It waited from then until its latest try
started, and ran from there until it ended. Elements of arrays that nothing has touched have no
rows and are not counted here.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.core.facts.states import FINAL, JobState
from rota.store.statements import JOB_BODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.facts.job import Job

    Read = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

#: States in which a start on record is that of the run which is meant.
RUN_STATES: tuple[JobState, ...] = tuple(
    state for state in JobState if state in FINAL or state is JobState.RUNNING
)
#: Not the bare column: SQLite would follow the index of users (or of states) through all of
#: history, where the one of submission times leads straight to the period.
_USER = "user_id || ''"
_PROJECT = "project || ''"
_RUN = ", ".join(f"'{state}'" for state in RUN_STATES)


class StateSums(msgspec.Struct, frozen=True):
    """The jobs of one user in one state: how many, and the sums behind the means."""

    user: str
    state: JobState
    jobs: int
    #: Of those that started: how many, and how long they had waited for it.
    started: int = 0
    wait_s: float = 0.0
    #: Of those that have run to an end: how many, and for how long.
    ran: int = 0
    run_s: float = 0.0


class StatsRow(msgspec.Struct):
    """The jobs that a user submitted in the period; of the row of all users ``user`` is empty.

    ``states`` counts them by state. The wait is from submission to the latest start, the run
    from there to the end. ``success_rate`` is the part of those that ended, cancelled ones left
    out, that completed; null while there are none. ``gpu_hours`` is what the user's jobs held
    in the period, whenever they were submitted, as in ``/usage``.
    """

    user: str
    jobs: int
    states: dict[str, int]
    mean_wait_s: float | None
    mean_run_s: float | None
    success_rate: float | None
    gpu_hours: float
    #: Promises of deadlines that were kept and broken in the period.
    promises_kept: int = 0
    promises_broken: int = 0


class Cohort(NamedTuple):
    """Jobs by when and for whom they were submitted; an empty name is everybody's."""

    since_s: float
    until_s: float = inf
    user: str = ""
    project: str = ""

    def has(self, submitted_s: float, user: str, project: str) -> bool:
        in_time = self.since_s <= submitted_s < self.until_s
        return in_time and self.user in ("", user) and self.project in ("", project)


def sums(wanted: Cohort) -> tuple[str, list[Any]]:
    """The statement that gives rows for ``sums_of``, and its values."""
    where, values = _chosen(wanted)
    wait = f"CASE WHEN state IN ({_RUN}) THEN started_at - created_at END"
    run = "completed_at - started_at"
    text = (
        f"SELECT {_USER} AS who, state, count(*),"
        f" count({wait}), sum({wait}), count({run}), sum({run})"
        f" FROM jobs WHERE {where} GROUP BY 1, 2"
    )
    return text, values


def gpu_hours(read: Read, wanted: Cohort) -> dict[str, float]:
    """What the latest tries of the jobs of a period held, by user."""
    where, values = _chosen(wanted)
    held = "sum((completed_at - started_at) * gpu_count) / 3600.0"
    found = read(f"SELECT user_id, {held} FROM jobs WHERE {where} GROUP BY user_id", values)
    return {name: hours or 0.0 for name, hours in found}


def longest(wanted: Cohort, now_s: float, limit: int) -> tuple[str, list[Any]]:
    """The statement that gives the bodies of the jobs that ran longest, what still runs too."""
    where, values = _chosen(wanted)
    text = (
        f"SELECT {JOB_BODY} FROM jobs WHERE {where}"
        f" AND state || '' IN ({_RUN}) AND started_at IS NOT NULL"
        " ORDER BY coalesce(completed_at, ?) - started_at DESC, id LIMIT ?"
    )
    return text, [*values, now_s, limit]


def submitted(since_s: float, until_s: float, limit: int) -> tuple[str, list[Any]]:
    """The statement that gives the bodies of the jobs of a period, the newest first."""
    text = f"SELECT {JOB_BODY} FROM jobs WHERE created_at >= ? AND created_at < ?"
    return f"{text} ORDER BY created_at DESC, id LIMIT ?", [since_s, until_s, limit]


def _chosen(wanted: Cohort) -> tuple[str, list[Any]]:
    conditions: list[tuple[str, Any]] = [("created_at >= ?", wanted.since_s)]
    if wanted.until_s < inf:
        conditions.append(("created_at < ?", wanted.until_s))
    if wanted.user:
        conditions.append((f"{_USER} = ?", wanted.user))
    if wanted.project:
        conditions.append((f"{_PROJECT} = ?", wanted.project))
    return " AND ".join(text for text, _ in conditions), [value for _, value in conditions]


def sums_of(rows: Iterable[Any]) -> list[StateSums]:
    """From the rows of ``sums``, by user and state whatever the database's idea of order."""
    return [
        StateSums(user, JobState(state), jobs, started, wait_s or 0.0, ran, run_s or 0.0)
        for user, state, jobs, started, wait_s, ran, run_s in sorted(rows, key=lambda row: row[:2])
    ]


def run_s_of(job: Job, now_s: float) -> float:
    """How long its latest try ran, or has run so far; it must have started."""
    return (job.ended_s or now_s) - job.started_s


def add_up(jobs: Iterable[Job]) -> list[StateSums]:
    """The same sums from the jobs themselves, for a store without a database."""
    found: dict[tuple[str, JobState], StateSums] = {}
    for job in jobs:
        key = (job.spec.user, job.state)
        known = found.get(key) or StateSums(*key, 0)
        started = bool(job.started_s) and job.state in RUN_STATES
        ran = bool(job.started_s and job.ended_s)
        found[key] = StateSums(
            *key,
            jobs=known.jobs + 1,
            started=known.started + started,
            wait_s=known.wait_s + (job.started_s - job.submitted_s) * started,
            ran=known.ran + ran,
            run_s=known.run_s + (job.ended_s - job.started_s) * ran,
        )
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1].value))]


def by_user(sums: Iterable[StateSums]) -> dict[str, list[StateSums]]:
    found: dict[str, list[StateSums]] = {}
    for one in sums:
        found.setdefault(one.user, []).append(one)
    return found


def stats_row(user: str, sums: Iterable[StateSums], gpu_hours: float) -> StatsRow:
    """One row out of the sums by state."""
    states: dict[str, int] = Counter()
    started = ran = 0
    wait_s = run_s = 0.0
    for one in sums:
        states[one.state] += one.jobs
        started, wait_s = started + one.started, wait_s + one.wait_s
        ran, run_s = ran + one.ran, run_s + one.run_s
    judged = sum(states.get(state, 0) for state in FINAL if state is not JobState.CANCELLED)
    return StatsRow(
        user=user,
        jobs=sum(states.values()),
        states={str(state): states[state] for state in JobState if states.get(state)},
        mean_wait_s=round(wait_s / started, 3) if started else None,
        mean_run_s=round(run_s / ran, 3) if ran else None,
        success_rate=round(states.get(JobState.COMPLETED, 0) / judged, 4) if judged else None,
        gpu_hours=round(gpu_hours, 4),
    )
