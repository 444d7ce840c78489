"""A period in figures: who used what, what it cost, how long jobs waited, why they failed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from rota.api.context import Asking, context_of
from rota.api.site.quota_alerts import alerts
from rota.api.site.report_sums import (
    FORECAST_DAYS,
    AccountSums,
    JobSums,
    add_up,
    forecast,
    percentile,
)
from rota.api.site.usage import UsageRow, not_charged, usage_rows
from rota.api.views.quota_use import AccountKind
from rota.api.views.times import Moment, when
from rota.core.derived.usage import DAY_S, DAYS_KEPT, Spent, seconds_by_day
from rota.core.facts.states import NodeState

if TYPE_CHECKING:
    from rota.core.cluster import Cluster

HOUR_S = 3600.0
#: More jobs than this are not gone through: the newest count, and the report says so.
JOBS_MAX = 200_000
AHEAD_DAYS = 7


class ReportRow(msgspec.Struct, kw_only=True):
    """One user in one project; in the row of all of them both are empty."""

    user: str
    project: str
    #: Submitted in the period, and of these what ended how.
    jobs: int
    completed: int
    failed: int
    cancelled: int
    #: Held in the period, whenever it was submitted; and what that cost.
    cpu_hours: float
    gpu_hours: float
    memory_gb_hours: float
    cost: float
    #: Used of what was held, by tries that ended; null: not known.
    cpu_efficiency: float | None
    gpu_efficiency: float | None
    gpu_idle_hours: float
    energy_kwh: float


class ReportDay(msgspec.Struct):
    """One day, in UTC."""

    day: str
    jobs: int
    cpu_hours: float
    gpu_hours: float
    cost: float


class ReportWait(msgspec.Struct):
    """How long jobs of a queue waited for room."""

    queue: str
    started: int
    median_s: float
    p95_s: float
    longest_s: float


class ReportFailure(msgspec.Struct):
    """Tries that failed for one cause; what they held is lost."""

    cause: str
    fault: str
    tries: int
    cpu_hours: float
    gpu_hours: float
    #: The latest job that had it.
    job: int


class ReportForecast(msgspec.Struct):
    """What the days to come may take, of what there is in a day."""

    resource: str
    days: list[str]
    hours: list[float]
    spread: float
    capacity: float


class ReportAlert(msgspec.Struct):
    """A limit of which 80 % or all is used now; of money, within its period."""

    kind: AccountKind
    name: str
    resource: str
    used: float
    limit: float
    percent: float
    level: int


class ReportView(msgspec.Struct, kw_only=True):
    since: Moment | None
    until: Moment | None
    currency: str
    total: ReportRow
    items: list[ReportRow]
    days: list[ReportDay]
    waits: list[ReportWait]
    failures: list[ReportFailure]
    forecast: list[ReportForecast]
    #: How the forecast was made, or why there is none.
    forecast_method: str
    alerts: list[ReportAlert]
    #: How many jobs were gone through; fewer than there were: only the newest.
    jobs_seen: int
    complete: bool


@get("/report", summary="A period in figures", opt={"right": "read"})
async def report(
    request: Asking,
    period_s: Annotated[
        int, QueryParameter(description="The period in seconds", ge=3600, le=DAYS_KEPT * DAY_S)
    ] = 7 * DAY_S,
) -> ReportView:
    """Use, cost, waits, efficiency, failures, idle GPUs, a forecast, and limits nearly reached."""
    host = context_of(request).host
    now_s = host.clock.now_s()
    since_s = now_s - period_s
    sums = await host.read(
        lambda store: add_up(store.jobs_submitted(since_s, now_s, limit=JOBS_MAX))
    )
    cluster = host.cluster
    rows = usage_rows(cluster, since_s, now_s)
    items = _rows(rows, sums)
    forecasts, method = _forecasts(cluster, now_s)
    return ReportView(
        since=when(since_s),
        until=when(now_s),
        currency=cluster.policy.prices.currency,
        total=_total(items, sums),
        items=items,
        days=_days(cluster, sums, since_s, now_s),
        waits=_waits(sums),
        failures=_failures(sums),
        forecast=forecasts,
        forecast_method=method,
        alerts=[ReportAlert(*alert) for alert in alerts(cluster, now_s)],
        jobs_seen=sums.jobs,
        complete=sums.jobs < JOBS_MAX,
    )


def _rows(rows: list[UsageRow], sums: JobSums) -> list[ReportRow]:
    """Accounts that held something or submitted something, most GPU hours first."""
    used = {(row.user, row.project): row for row in rows}
    found = [
        _row(user, project, used.get((user, project)), sums.accounts.get((user, project)))
        for user, project in {**used, **sums.accounts}
    ]
    told = [row for row in found if row.jobs or row.cpu_hours or row.gpu_hours]
    return sorted(told, key=lambda row: (-row.gpu_hours, -row.cpu_hours, row.user, row.project))


def _row(user: str, project: str, used: UsageRow | None, sums: AccountSums | None) -> ReportRow:
    sums = sums or AccountSums()
    period = used.period if used is not None else None
    return ReportRow(
        user=user,
        project=project,
        jobs=sums.jobs,
        completed=sums.completed,
        failed=sums.failed,
        cancelled=sums.cancelled,
        cpu_hours=period.cpu_hours if period is not None else 0.0,
        gpu_hours=period.gpu_hours if period is not None else 0.0,
        memory_gb_hours=period.memory_gb_hours if period is not None else 0.0,
        cost=period.cost if period is not None else 0.0,
        cpu_efficiency=_part(sums.cpu_used_s, sums.cpu_held_s),
        gpu_efficiency=_part(sums.gpu_busy_s, sums.gpu_measured_s),
        gpu_idle_hours=round(sums.gpu_idle_s / HOUR_S, 4),
        energy_kwh=round(sums.energy_j / HOUR_S / 1000, 4),
    )


def _part(used: float, held: float) -> float | None:
    return round(used / held, 4) if held else None


def _total(items: list[ReportRow], sums: JobSums) -> ReportRow:
    whole = AccountSums()
    for account in sums.accounts.values():
        for name, value in vars(account).items():
            setattr(whole, name, getattr(whole, name) + value)
    total = _row("", "", None, whole)
    for name in ("cpu_hours", "gpu_hours", "memory_gb_hours", "cost"):
        setattr(total, name, round(sum(getattr(row, name) for row in items), 4))
    return total


def _spent_by_day(cluster: Cluster, now_s: float) -> dict[int, Spent]:
    """What was charged, and what tries have spent that still run."""
    found: dict[int, Spent] = {}
    for usage in cluster.accounts.usage.values():
        for day, spent in usage.days.items():
            found.setdefault(day, Spent()).add(spent)
    for _, rate, start_s in not_charged(cluster):
        for day, seconds in seconds_by_day(max(start_s, now_s - DAYS_KEPT * DAY_S), now_s):
            found.setdefault(day, Spent()).add(rate, seconds)
    return found


def _days(cluster: Cluster, sums: JobSums, since_s: float, now_s: float) -> list[ReportDay]:
    spent = _spent_by_day(cluster, now_s)
    return [
        ReportDay(
            _date(day),
            sums.days.get(day, 0),
            round(spent[day].cpu_s / HOUR_S, 4) if day in spent else 0.0,
            round(spent[day].device_s / HOUR_S, 4) if day in spent else 0.0,
            round(spent[day].cost, 4) if day in spent else 0.0,
        )
        for day in range(int(since_s // DAY_S), int(now_s // DAY_S) + 1)
    ]


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()


def _waits(sums: JobSums) -> list[ReportWait]:
    found = []
    for queue, waits in sorted(sums.waits.items()):
        if waits:
            waits.sort()
            median, p95 = percentile(waits, 0.5), percentile(waits, 0.95)
            figures = (round(one, 3) for one in (median, p95, waits[-1]))
            found.append(ReportWait(queue, len(waits), *figures))
    return found


def _failures(sums: JobSums) -> list[ReportFailure]:
    found = [
        ReportFailure(
            str(cause),
            ends.fault,
            ends.tries,
            round(ends.cpu_s / HOUR_S, 4),
            round(ends.gpu_s / HOUR_S, 4),
            ends.job,
        )
        for cause, ends in sums.ends.items()
    ]
    return sorted(found, key=lambda row: (-row.tries, row.cause))


def _forecasts(cluster: Cluster, now_s: float) -> tuple[list[ReportForecast], str]:
    """By what was held on whole days since the first of them with anything in it."""
    spent, today = _spent_by_day(cluster, now_s), int(now_s // DAY_S)
    first = min((day for day in spent if day < today), default=today)
    days = [spent.get(day, Spent()) for day in range(max(first, today - FORECAST_DAYS), today)]
    up = [node.spec for node in cluster.nodes.values() if node.state is NodeState.UP]
    capacity = {
        "gpu": 24.0 * sum(len(spec.devices) for spec in up),
        "cpu": 24.0 * sum(spec.cpu_milli for spec in up) / 1000,
    }
    hours = {
        "gpu": [one.device_s / HOUR_S for one in days],
        "cpu": [one.cpu_s / HOUR_S for one in days],
    }
    ahead = [_date(today + at) for at in range(AHEAD_DAYS)]
    found = []
    for resource, known in hours.items():
        made = forecast(known, AHEAD_DAYS)
        if made is None:
            return [], f"none: only {len(days)} whole days are on record, and 3 are needed"
        expected = [round(one, 3) for one in made.expected]
        found.append(
            ReportForecast(resource, ahead, expected, round(made.spread, 3), capacity[resource])
        )
    return found, (
        f"a straight line through the last {len(days)} whole days, carried on for {AHEAD_DAYS}; it "
        "knows nothing of weekends, deadlines or plans"
    )


ROUTES = [report]
