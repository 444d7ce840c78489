"""The route about how jobs fared: per user and period, added up by the database."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from rota.api import params
from rota.api.context import Asking, context_of
from rota.api.site.usage import span_of, usage_rows
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.api.views.views import ref_of
from rota.controller.launches.launch import fill_in
from rota.core.derived.usage import DAYS_KEPT
from rota.core.facts.states import JobState
from rota.store.stats import Cohort, StateSums, StatsRow, by_user, run_s_of, stats_row

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.store.api import Store


class LongView(msgspec.Struct):
    """A job that ran long; ``run_s`` grows while it runs."""

    id: int
    #: How people name it: 12, or 15_3 for an element of an array.
    ref: str
    name: str
    user: str
    state: JobState
    started_at: Moment | None
    run_s: float


class StatsView(Listed):
    since: Moment | None
    until: Moment | None
    total: StatsRow
    items: list[StatsRow]
    longest: list[LongView]


def _untouched(cluster: Cluster, wanted: Cohort) -> list[StateSums]:
    """Elements of arrays that nothing has touched: they have no rows in the store."""
    found = []
    for array in cluster.arrays.values():
        if not wanted.has(array.submitted_s, array.spec.user, array.spec.project):
            continue
        if waiting := len(array.pending()):
            state = JobState.HELD if array.held else JobState.QUEUED
            found.append(StateSums(array.spec.user, state, waiting))
        if array.cut_outcome is not None:
            cut = sum(last - first + 1 for first, last in array.cut)
            found.append(StateSums(array.spec.user, array.cut_outcome.state, cut))
    return found


def gpu_hours(cluster: Cluster, wanted: Cohort, now_s: float) -> dict[str, float]:
    """What each user's jobs held in a time; without a project, for whatever project they were."""
    hours: dict[str, float] = defaultdict(float)
    until_s = wanted.until_s if wanted.until_s < now_s else None
    for used in usage_rows(cluster, wanted.since_s, now_s, until_s):
        if wanted.user in ("", used.user) and wanted.project in ("", used.project):
            hours[used.user] += used.period.gpu_hours
    return hours


def _promises(cluster: Cluster, wanted: Cohort) -> dict[str, tuple[int, int]]:
    """Promises kept and broken in the days of a time, by user."""
    found: dict[str, tuple[int, int]] = {}
    for usage in cluster.accounts.usage.values():
        if wanted.user not in ("", usage.user) or wanted.project not in ("", usage.project):
            continue
        before = found.get(usage.user, (0, 0))
        more = usage.promises_between(wanted.since_s, wanted.until_s)
        found[usage.user] = (before[0] + more[0], before[1] + more[1])
    return found


def _long_view(job: Job, now_s: float) -> LongView:
    return LongView(
        id=job.id,
        ref=ref_of(job),
        name=fill_in(job.spec.name, job),
        user=job.spec.user,
        state=job.state,
        started_at=when(job.started_s),
        run_s=round(max(0.0, run_s_of(job, now_s)), 3),
    )


@get("/stats", summary="How jobs fared, per user and period", opt={"right": "read"})
async def stats(
    request: Asking,
    user: Annotated[str, QueryParameter(description="Only this user", max_length=200)] = "",
    project: Annotated[str, QueryParameter(description="Only this project", max_length=200)] = "",
    period_s: Annotated[
        int, QueryParameter(description="The period in seconds", ge=1, le=DAYS_KEPT * 86400)
    ] = 7 * 86400,
    since: Annotated[str, QueryParameter(description="When it begins, instead")] = "",
    until: Annotated[str, QueryParameter(description="When it ends; empty: now")] = "",
    longest: Annotated[
        int, QueryParameter(description="How many of the longest jobs", ge=0, le=100)
    ] = 5,
    limit: params.PartSize = None,
    cursor: params.Cursor = "",
) -> StatsView:
    """Jobs submitted in the period: states, mean wait and run, success rate, the longest."""
    host = context_of(request).host
    now_s = host.clock.now_s()
    since_s, until_s = span_of(since, until, period_s, now_s)
    # What is submitted in this very moment belongs to a period up to now.
    wanted = Cohort(since_s, until_s if until_s < now_s else inf, user, project)

    def look(store: Store) -> tuple[list[StateSums], list[Job]]:
        return (
            store.job_sums(wanted),
            store.longest_jobs(wanted, now_s=now_s, limit=longest),
        )

    sums, long_ones = await host.read(look)
    sums = [*sums, *_untouched(host.cluster, wanted)]
    hours = gpu_hours(host.cluster, wanted, now_s)
    theirs = by_user(sums)
    names = sorted({*theirs, *(name for name, used in hours.items() if used)})
    page, after = ListPart(limit, cursor).of(names, str)
    promised = _promises(host.cluster, wanted)
    rows = [stats_row(name, theirs.get(name, []), hours.get(name, 0.0)) for name in page]
    total = stats_row("", sums, sum(hours.values()))
    for row in rows:
        row.promises_kept, row.promises_broken = promised.get(row.user, (0, 0))
    kept, broken = (sum(told[at] for told in promised.values()) for at in (0, 1))
    total.promises_kept, total.promises_broken = kept, broken
    return StatsView(
        since=when(since_s),
        until=when(until_s),
        total=total,
        items=rows,
        cursor=after,
        longest=[_long_view(job, now_s) for job in long_ones],
    )


ROUTES = [stats]
