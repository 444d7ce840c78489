"""Adding up the jobs of a period: waits, ends, and what they made of what they held.

Pure: jobs come in one by one, in any thread, and nothing else is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, linear_regression, pstdev
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.faults import fault_of
from rota.core.facts.states import Cause, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.facts.job import Attempt, Job

HOUR_S = 3600.0
#: The most waits of a queue that are remembered: enough for a percentile, whatever the site's size.
WAITS_MAX = 50_000
#: The most whole days that a forecast looks at, and the fewest that it needs.
FORECAST_DAYS, DAYS_MIN = 14, 3


class FailedTries:
    """Tries that failed for one cause."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.tries = 0
        self.gpu_s = 0.0
        self.cpu_s = 0.0
        #: The job that had it last.
        self.job = 0


class AccountSums:
    """The jobs that one user submitted in one project."""

    def __init__(self) -> None:
        self.jobs = 0
        self.completed = 0
        self.failed = 0
        self.cancelled = 0
        #: CPU seconds: held and used by tries that have ended.
        self.cpu_held_s = 0.0
        self.cpu_used_s = 0.0
        #: Seconds times GPUs: measured, busy, idle; and energy.
        self.gpu_measured_s = 0.0
        self.gpu_busy_s = 0.0
        self.gpu_idle_s = 0.0
        self.energy_j = 0.0


class JobSums:
    """All of a period."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[str, str], AccountSums] = defaultdict(AccountSums)
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.ends: dict[Cause, FailedTries] = {}
        self.days: dict[int, int] = defaultdict(int)
        self.jobs = 0

    def add(self, job: Job) -> None:
        spec = job.spec
        account = self.accounts[spec.user, spec.project]
        account.jobs += 1
        self.jobs += 1
        self.days[int(job.submitted_s // 86400)] += 1
        state = job.state
        account.completed += state is JobState.COMPLETED
        account.cancelled += state is JobState.CANCELLED
        account.failed += job.outcome is not None and state not in (
            JobState.COMPLETED,
            JobState.CANCELLED,
        )
        waits = self.waits[spec.queue]
        if job.started_s and len(waits) < WAITS_MAX:
            waits.append(max(0.0, job.started_s - (job.eligible_s or job.submitted_s)))
        for task in job.tasks:
            for attempt in task.attempts:
                if not attempt.live and attempt.started_s:
                    self._add_try(account, job, attempt)

    def _add_try(self, account: AccountSums, job: Job, attempt: Attempt) -> None:
        ran_s = max(0.0, attempt.ended_s - attempt.started_s)
        cpu_s = ran_s * attempt.allocation.cpu_milli / 1000
        account.cpu_held_s += cpu_s
        account.cpu_used_s += attempt.cpu_s
        if (gpu := attempt.gpu) is not None:
            account.gpu_measured_s += gpu.measured_s
            account.gpu_busy_s += gpu.measured_s * gpu.mean_use_percent / 100
            account.gpu_idle_s += gpu.idle_s
            account.energy_j += gpu.energy_j
        fault = fault_of(attempt)
        if fault is None or attempt.cause is None:
            return
        ends = self.ends.setdefault(attempt.cause, FailedTries(str(fault)))
        ends.tries += 1
        ends.cpu_s += cpu_s
        ends.gpu_s += ran_s * len(attempt.allocation.devices)
        ends.job = max(ends.job, job.id)


def add_up(jobs: Iterable[Job]) -> JobSums:
    sums = JobSums()
    for job in jobs:
        sums.add(job)
    return sums


def percentile(values: Sequence[float], part: float) -> float:
    """Of sorted values the one below which this part lies; they must not be none."""
    return values[min(len(values) - 1, int(part * len(values)))]


class DemandForecast(NamedTuple):
    """What each of the days to come may take, and how far the days before were off the line."""

    expected: list[float]
    spread: float


def forecast(days: Sequence[float], ahead: int) -> DemandForecast | None:
    """The straight line through the last whole days, carried on; None: they are too few.

    Nothing is ever expected to be less than nothing.
    """
    known = days[-FORECAST_DAYS:]
    if len(known) < DAYS_MIN:
        return None
    numbers = list(range(len(known)))
    slope, start = linear_regression(numbers, known)
    off = [value - (start + slope * at) for at, value in zip(numbers, known, strict=True)]
    expected = [max(0.0, start + slope * (len(known) + at)) for at in range(ahead)]
    return DemandForecast(expected, pstdev(off) if fmean(known) else 0.0)
