"""The route about use: what accounts hold, have used, and are entitled to."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get, post
from litestar.params import QueryParameter

from rota.api import params
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import ResetRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.site.accounts import HeldView, held_view
from rota.api.views.paging import Listed, ListPart
from rota.api.views.quota_use import AccountKind
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import ForgetUsage
from rota.core.derived.holdings import price_of, uncharged_s
from rota.core.derived.usage import DAY_S, DAYS_KEPT, Spent, Usage, rate_of, usage_key
from rota.core.facts.errors import Rejected
from rota.moments import parse_last
from rota.scheduling.order.fairshare import ShareRow, shares_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Quota

HOUR_S = 3600.0

#: A year ago on the asker's clock is a little longer ago when it is heard.
LATE_S = 60.0


class SpentView(msgspec.Struct):
    """Declared, never measured: what was asked for counts while it is held."""

    cpu_hours: float
    memory_gb_hours: float
    gpu_hours: float
    cost: float


class UsageRow(msgspec.Struct):
    """A user within a project.

    ``period`` is what was used in the period that was asked for, with what still runs;
    ``recent`` is what fair share remembers of what has ended, older use counting less.
    """

    user: str
    project: str
    attempts: int
    now: HeldView
    period: SpentView
    recent: SpentView


class ShareView(msgspec.Struct):
    """A project (``user`` is empty) or a user in one: entitled part, used part, their ratio."""

    project: str
    user: str
    shares: int
    target: float
    used: float
    ratio: float


class BudgetView(msgspec.Struct):
    """Money that an account may spend in a period up to now, and what of it is spent."""

    kind: AccountKind
    name: str
    hard: float | None
    soft: float | None
    period_s: int
    spent: float


class UsageView(Listed):
    """``currency`` is what the site calls its money; ``budgets``: of users and projects."""

    since: Moment | None
    until: Moment | None
    currency: str
    items: list[UsageRow]
    shares: list[ShareView]
    budgets: list[BudgetView]


def _spent_view(spent: Spent) -> SpentView:
    return SpentView(
        round(spent.cpu_s / HOUR_S, 4),
        round(spent.memory_gib_s / HOUR_S, 4),
        round(spent.device_s / HOUR_S, 4),
        round(spent.cost, 4),
    )


def not_charged(cluster: Cluster) -> Iterator[tuple[str, Spent, float]]:
    """Of each live attempt its account, what it spends in a second, and since when that waits."""
    for job_id, task in cluster.live.where.values():
        job = cluster.jobs[job_id]
        attempt = job.tasks[task].attempts[-1]
        start_s = uncharged_s(attempt) if attempt.started_s else attempt.placed_s
        count = cluster.accounts.holdings.count_of(attempt)
        rate = rate_of(count.used)
        rate.cost = price_of(attempt, count) / HOUR_S if attempt.started_s else 0.0
        yield usage_key(job.spec.user, job.spec.project), rate, start_s


def _running(cluster: Cluster, since_s: float, until_s: float) -> dict[str, Spent]:
    """What live attempts have used between two moments, by account."""
    found: dict[str, Spent] = {}
    for account, rate, start_s in not_charged(cluster):
        seconds = max(0.0, until_s - max(since_s, start_s))
        found.setdefault(account, Spent()).add(rate, seconds)
    return found


def budget_views(cluster: Cluster, now_s: float) -> list[BudgetView]:
    """Every user and project with a budget of money."""
    accounts = cluster.accounts
    found: list[BudgetView] = []
    records: list[tuple[AccountKind, str, Quota]] = [
        ("project", p.name, p.quota) for p in accounts.projects.values()
    ]
    records += [("user", user.name, user.quota) for user in accounts.users.values() if user.name]
    for kind, name, quota in sorted(records, key=lambda record: record[:2]):
        if quota.hard.cost is None and quota.soft.cost is None:
            continue
        below = set(accounts.below(name)) if kind == "project" else {name}
        rows = usage_rows(cluster, now_s - quota.period_s, now_s)
        spent = sum(row.period.cost for row in rows if getattr(row, kind) in below)
        hard, soft = quota.hard.cost, quota.soft.cost
        found.append(BudgetView(kind, name, hard, soft, quota.period_s, round(spent, 4)))
    return found


def usage_rows(
    cluster: Cluster, since_s: float, now_s: float, until_s: float | None = None
) -> list[UsageRow]:
    """Every account that has used or holds something; its use up to now, or to an earlier end."""
    half_life_s = cluster.policy.share.half_life_s
    running = _running(cluster, since_s, now_s if until_s is None else until_s)
    rows = []
    for key in sorted({*cluster.accounts.usage, *running}):
        user, _, project = key.partition("\n")
        usage = cluster.accounts.usage.get(key) or Usage(user, project, Spent(), days={})
        period = usage.since(since_s) if until_s is None else usage.between(since_s, until_s)
        period.add(running.get(key, Spent()))
        holders = cluster.census.active_in.get(("user", user), {})
        jobs = sum(cluster.jobs[job].spec.project == project for job in holders)
        rows.append(
            UsageRow(
                user=user,
                project=project,
                attempts=usage.attempts,
                now=held_view(cluster.accounts.holdings.get(("account", key)), jobs),
                period=_spent_view(period),
                recent=_spent_view(usage.recent_at(now_s, half_life_s)),
            )
        )
    return rows


def _share_view(row: ShareRow) -> ShareView:
    return ShareView(
        row.project,
        row.user,
        row.shares,
        round(row.target, 6),
        round(row.used, 6),
        round(row.ratio, 6),
    )


def span_of(since: str, until: str, period_s: int, now_s: float) -> tuple[float, float]:
    """From when to when: as it is said, or a period up to the end."""
    until_s = min(now_s, _moment("until", until, now_s) if until else now_s)
    since_s = _moment("since", since, now_s) if since else until_s - period_s
    if not now_s - DAYS_KEPT * DAY_S - LATE_S <= since_s < until_s:
        allowed = f"a period begins before it ends, and {DAYS_KEPT} days ago at the most"
        raise Rejected.because("since", since or period_s, allowed)
    return since_s, until_s


def _moment(name: str, text: str, now_s: float) -> float:
    try:
        return parse_last(text, now_s, UTC)
    except ValueError as error:
        raise Rejected(f"{name}: {error}", field=name, value=text) from None


@get("/usage", summary="Who uses how much, and who is entitled to what", opt={"right": "read"})
async def usage(
    request: Asking,
    user: Annotated[str, QueryParameter(description="Only this user", max_length=200)] = "",
    project: Annotated[str, QueryParameter(description="Only this project", max_length=200)] = "",
    period_s: Annotated[
        int, QueryParameter(description="The period in seconds", ge=1, le=DAYS_KEPT * 86400)
    ] = 7 * 86400,
    since: Annotated[str, QueryParameter(description="When it begins, instead")] = "",
    until: Annotated[str, QueryParameter(description="When it ends; empty: now")] = "",
    limit: params.PartSize = None,
    cursor: params.Cursor = "",
) -> UsageView:
    """Use in a period, what fair share remembers, and targets; days are counted in UTC."""
    host = context_of(request).host
    now_s = host.clock.now_s()
    since_s, until_s = span_of(since, until, period_s, now_s)
    rows = usage_rows(host.cluster, since_s, now_s, until_s if until else None)
    shares = shares_of(host.cluster, now_s)
    budgets = budget_views(host.cluster, now_s)
    wanted = [r for r in rows if user in ("", r.user) and project in ("", r.project)]
    page, after = ListPart(limit, cursor).of(wanted, lambda row: f"{row.user}\n{row.project}")
    return UsageView(
        since=when(since_s),
        until=when(until_s),
        currency=host.cluster.policy.prices.currency,
        items=page,
        cursor=after,
        shares=[
            _share_view(row)
            for row in shares
            if user in ("", row.user) and project in ("", row.project)
        ],
        budgets=[row for row in budgets if row.name in (user, project) or not (user or project)],
    )


class Account(msgspec.Struct):
    user: str
    project: str


class ResetView(msgspec.Struct):
    items: list[Account]


_reset = Body(ResetRequest)


@post(
    "/usage:reset",
    summary="Forget what accounts have used",
    status_code=200,
    opt={"right": "operate", "body": ResetRequest, "errors": (404, 429, 503)},
)
async def reset(request: Asking) -> ResetView:
    """For fair share, budgets and reports; what still runs is charged in full when it ends."""
    asked = await body_of(request, _reset)
    if asked.all == bool(asked.user or asked.project):
        raise Rejected.because("all", asked.all, "give either all, or a user, a project or both")
    command = ForgetUsage(actor=actor_of(request), user=asked.user, project=asked.project)
    found = await context_of(request).host.ask(command)
    return ResetView([Account(user, project) for user, project in found])


ROUTES = [usage, reset]
