"""The route about how jobs fared: per user and period, added up by the database."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from rota.api import params
from rota.api.context import Asking, context_of
from rota.api.site.usage import usage_rows
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.api.views.views import ref_of
from rota.controller.launches.launch import fill_in
from rota.core.derived.usage import DAYS_KEPT
from rota.core.facts.states import JobState
from rota.store.stats import StateSums, StatsRow, by_user, run_s_of, stats_row

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


def _untouched(cluster: Cluster, since_s: float, user: str) -> list[StateSums]:
    """Elements of arrays that nothing has touched: they have no rows in the store."""
    found = []
    for array in cluster.arrays.values():
        if array.submitted_s < since_s or user not in ("", array.spec.user):
            continue
        if waiting := len(array.pending()):
            state = JobState.HELD if array.held else JobState.QUEUED
            found.append(StateSums(array.spec.user, state, waiting))
        if array.cut_outcome is not None:
            cut = sum(last - first + 1 for first, last in array.cut)
            found.append(StateSums(array.spec.user, array.cut_outcome.state, cut))
    return found


def gpu_hours(cluster: Cluster, since_s: float, now_s: float, user: str = "") -> dict[str, float]:
    """What each user's jobs held since a moment, whatever project they were for."""
    hours: dict[str, float] = defaultdict(float)
    for used in usage_rows(cluster, since_s, now_s):
        if user in ("", used.user):
            hours[used.user] += used.period.gpu_hours
    return hours


def _promises(cluster: Cluster, since_s: float) -> dict[str, tuple[int, int]]:
    """Promises kept and broken since the day of a moment, by user."""
    found: dict[str, tuple[int, int]] = {}
    for usage in cluster.accounts.usage.values():
        before, more = found.get(usage.user, (0, 0)), usage.promises_since(since_s)
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
    period_s: Annotated[
        int, QueryParameter(description="The period in seconds", ge=1, le=DAYS_KEPT * 86400)
    ] = 7 * 86400,
    longest: Annotated[
        int, QueryParameter(description="How many of the longest jobs", ge=0, le=100)
    ] = 5,
    limit: params.PartSize = None,
    cursor: params.Cursor = "",
) -> StatsView:
    """Jobs submitted in the period: states, mean wait and run, success rate, the longest."""
    host = context_of(request).host
    now_s = host.clock.now_s()
    since_s = now_s - period_s

    def look(store: Store) -> tuple[list[StateSums], list[Job]]:
        return (
            store.job_sums(since_s, user=user),
            store.longest_jobs(since_s, user=user, now_s=now_s, limit=longest),
        )

    sums, long_ones = await host.read(look)
    sums = [*sums, *_untouched(host.cluster, since_s, user)]
    hours = gpu_hours(host.cluster, since_s, now_s, user)
    theirs = by_user(sums)
    names = sorted({*theirs, *(name for name, used in hours.items() if used)})
    page, after = ListPart(limit, cursor).of(names, str)
    promised = _promises(host.cluster, since_s)
    rows = [stats_row(name, theirs.get(name, []), hours.get(name, 0.0)) for name in page]
    total = stats_row("", sums, sum(hours.values()))
    for row in rows:
        row.promises_kept, row.promises_broken = promised.get(row.user, (0, 0))
    mine = [told for name, told in promised.items() if user in ("", name)]
    total.promises_kept, total.promises_broken = (sum(told[at] for told in mine) for at in (0, 1))
    return StatsView(
        since=when(since_s),
        until=when(now_s),
        total=total,
        items=rows,
        cursor=after,
        longest=[_long_view(job, now_s) for job in long_ones],
    )


ROUTES = [stats]
