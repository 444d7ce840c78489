"""What a live attempt counts with, and what is charged for it.

An attempt counts with what it was given; where it has a node to itself, with all of the node, once
for all tasks of its job there. It is not charged for CPUs while it lends them. When the count
changes, the use up to that moment is charged first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.holdings import Count, amount_of, price_of, uncharged_s
from rota.core.derived.usage import Spent, Usage, rate_of, usage_key
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.site.prices import HOUR_S, hourly, models_of
from rota.core.facts.states import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job


def derive_count(cluster: Cluster, attempt: Attempt) -> Count:
    """What a live attempt counts with, by the facts alone."""
    kept, lent, live = amount_of(attempt.allocation), NOTHING, cluster.live
    if attempt.allocation.keeps is not None:
        first = min(_beside(cluster, attempt), key=lambda peer: (peer[1].placed_s, peer[0]))
        if first[1] is not attempt:
            kept = NOTHING
    for uid, loan in live.loans.get(attempt.uid, {}).items():
        if live.attempt(uid).phase is Phase.RUNNING:
            lent = lent.plus(Amount(loan.cpu_milli))
    return Count(kept, lent)


def _beside(cluster: Cluster, attempt: Attempt) -> Iterator[tuple[int, Attempt]]:
    """Live attempts of the same job on the same node of its own, with their tasks."""
    where = cluster.live.where
    job_id, own_task = where[attempt.uid]
    node = cluster.nodes.get(attempt.allocation.node)
    if node is None:
        yield own_task, attempt
        return
    for uid in node.live:
        other, task = where[uid]
        if other == job_id:
            peer = cluster.jobs[job_id].tasks[task].attempts[-1]
            if peer.allocation.keeps is not None:
                yield task, peer


def begin_to_charge(cluster: Cluster, job: Job, attempt: Attempt, at_s: float | None) -> None:
    """A live attempt counts from now on; without a moment it is being loaded."""
    accounts = cluster.accounts
    if attempt.allocation.keeps is not None or attempt.uid in cluster.live.loans:
        _keep_count(cluster, attempt, derive_count(cluster, attempt))
    count = accounts.holdings.count_of(attempt)
    accounts.holdings.shift(job.spec, count, 1)
    if attempt.phase is Phase.RUNNING:
        accounts.running.shift(job.spec, count.used, uncharged_s(attempt), 1)
    recount_beside(cluster, job, attempt, at_s)


def begin(cluster: Cluster, job: Job, attempt: Attempt, started_s: float) -> None:
    """A live attempt runs from then on; its lenders are charged no longer for what it has."""
    attempt.phase, attempt.started_s = Phase.RUNNING, started_s
    begin_clock(cluster, job, attempt)
    recount_lenders(cluster, attempt, started_s)


def begin_clock(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """Its use counts as that of a running attempt, from where it was last charged."""
    if attempt.phase is Phase.RUNNING:
        used = cluster.accounts.holdings.count_of(attempt).used
        cluster.accounts.running.shift(job.spec, used, uncharged_s(attempt), 1)


def stop_clock(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """Its use so far is no longer that of a running attempt: charged, or counted anew."""
    if attempt.phase is Phase.RUNNING:
        used = cluster.accounts.holdings.count_of(attempt).used
        cluster.accounts.running.shift(job.spec, used, uncharged_s(attempt), -1)


def charge(cluster: Cluster, job: Job, attempt: Attempt, until_s: float) -> None:
    """What ran is charged to its user and project: by what it kept from others, for so long."""
    since_s = uncharged_s(attempt)
    if not attempt.started_s or until_s <= since_s:
        return
    usage = _usage_of(cluster, job, until_s)
    count = cluster.accounts.holdings.count_of(attempt)
    rate = rate_of(count.used)
    rate.cost = price_of(attempt, count) / HOUR_S
    usage.charge(rate, since_s, until_s, cluster.policy.share.half_life_s)
    cluster.dirty.usage[usage.key] = None


def count_promise(cluster: Cluster, job: Job, at_s: float) -> None:
    """The promise to a job was kept or broken: it counts for its user and project."""
    usage = _usage_of(cluster, job, at_s)
    usage.count_promise(at_s, kept=job.promise == "kept")
    cluster.dirty.usage[usage.key] = None


def _usage_of(cluster: Cluster, job: Job, at_s: float) -> Usage:
    """The record of the account that a job counts for; made if there is none."""
    key, table = usage_key(job.spec.user, job.spec.project), cluster.accounts.usage
    usage = table.get(key)
    if usage is None:
        blank = Usage(job.spec.user, job.spec.project, Spent(), at_s, {}, promises={})
        usage = table[key] = blank
    return usage


def asked_price(cluster: Cluster, attempt: Attempt) -> float:
    """What an hour of an attempt that is being placed costs; CPUs on loan are paid by the lender.

    It stays so until the attempt ends, whatever becomes of the prices.
    """
    prices, node = cluster.policy.prices, cluster.nodes.get(attempt.allocation.node)
    if not prices.rates or node is None:
        return 0.0
    amount = amount_of(attempt.allocation)
    for loan in attempt.borrows:
        amount = amount.plus(Amount(loan.cpu_milli), -1)
    models = models_of(node.spec, attempt.allocation)
    return hourly(prices, node.spec, node.all_labels, amount, models)


def recount_beside(cluster: Cluster, job: Job, attempt: Attempt, at_s: float | None) -> None:
    """An attempt came to or left a node of its own: another may stand for the node now."""
    node = cluster.nodes.get(attempt.allocation.node)
    if attempt.allocation.keeps is None or node is None:
        return
    where = cluster.live.where
    for uid in [uid for uid in node.live if where[uid][0] == job.id]:
        _recount(cluster, uid, at_s)


def recount_lenders(cluster: Cluster, attempt: Attempt, at_s: float | None) -> None:
    for loan in attempt.borrows:
        _recount(cluster, loan.lender, at_s)


def _recount(cluster: Cluster, uid: str, at_s: float | None) -> None:
    """What an attempt keeps from others may be something else from now on.

    What it used up to then is charged. Without a moment nothing happened: it is being loaded.
    """
    where = cluster.live.where.get(uid)
    if where is None:
        return
    accounts, job = cluster.accounts, cluster.jobs[where[0]]
    attempt = job.tasks[where[1]].attempts[-1]
    was, now = accounts.holdings.count_of(attempt), derive_count(cluster, attempt)
    if was == now:
        return
    runs = attempt.phase is Phase.RUNNING
    accounts.holdings.shift(job.spec, was, -1)
    if runs:
        accounts.running.shift(job.spec, was.used, uncharged_s(attempt), -1)
    if at_s is not None:
        charge(cluster, job, attempt, at_s)
        attempt.charged_s = max(uncharged_s(attempt), at_s)
        cluster.dirty.jobs[job.id] = job
    _keep_count(cluster, attempt, now)
    accounts.holdings.shift(job.spec, now, 1)
    if runs:
        accounts.running.shift(job.spec, now.used, uncharged_s(attempt), 1)


def _keep_count(cluster: Cluster, attempt: Attempt, count: Count) -> None:
    special = cluster.accounts.holdings.special
    if count == Count(amount_of(attempt.allocation)):
        special.pop(attempt.uid, None)
    else:
        special[attempt.uid] = count
