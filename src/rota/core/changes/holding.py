"""How attempts take room, wait for it, lend it and give it back: the same for all events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.core.changes.charging import begin_to_charge, recount_beside, recount_lenders
from rota.core.derived.holdings import accounts_of
from rota.core.facts.states import Phase

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job


def hold(
    cluster: Cluster, job: Job, task: int, attempt: Attempt, at_s: float | None = None
) -> None:
    """A live attempt holds its room, or waits for others to leave it; without a moment: loaded."""
    live = cluster.live
    live.where[attempt.uid] = (job.id, task)
    live.note_mode(job, attempt)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None:
        node.live[attempt.uid] = live.held_by(attempt)
        if attempt.after and attempt.phase is Phase.PLACED:
            node.withheld[attempt.uid] = attempt.after
            live.wait(attempt)
        if node.spec.pool and attempt.waits_inside:
            node.inside[attempt.uid] = None
        cluster.agenda.touch(node.name, attempt.uid)
    begin_to_charge(cluster, job, attempt, at_s)
    if attempt.borrows:
        live.lend(attempt)
        _begin_to_count(cluster, attempt)
        recount_lenders(cluster, attempt, at_s)


def get_room(cluster: Cluster, attempt: Attempt) -> None:
    """Its engine has begun an attempt that was handed in early: from now on it holds its room.

    The engine may know of room that we have not heard of yet: what it starts stays.
    """
    attempt.allocation = replace(attempt.allocation, early=False)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None:
        node.live[attempt.uid] = attempt.allocation
        room = node.headroom()
        if min(room.cpu_milli, room.memory_mib, room.disk_mib) < 0:
            node.outgrown = tuple(sorted(node.live))
            cluster.dirty.nodes[node.name] = None
        cluster.agenda.touch(node.name, attempt.uid)


def let_go(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """An ended attempt gives its room back, and lets the attempts in that waited for it."""
    # Ends may be told in another order than they came: what was charged up to then stays so.
    at_s = max(attempt.ended_s, attempt.charged_s)
    live, holdings = cluster.live, cluster.accounts.holdings
    holdings.shift(job.spec, holdings.count_of(attempt), -1)
    holdings.special.pop(attempt.uid, None)
    if attempt.uid in live.loans:
        # Its peers stand still for as long as one of them lends something.
        cluster.agenda.repaid[job.id] = None
    live.drop(attempt.uid)
    for counter in accounts_of(job.spec):
        cluster.lanes.given_back.add(counter)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None:
        node.live.pop(attempt.uid, None)
        node.withheld.pop(attempt.uid, None)
        node.inside.pop(attempt.uid, None)
        if any(use.uid == attempt.uid for use in node.overuse):
            node.overuse = tuple(use for use in node.overuse if use.uid != attempt.uid)
            cluster.dirty.nodes[node.name] = None
        if node.spec.engine and not all(device.healthy for device in node.spec.devices):
            # There are fewer devices than were in use: which numbers are left has changed.
            node.spec = node.marked(node.spec)
            cluster.dirty.nodes[node.name] = None
        cluster.agenda.touch(node.name, attempt.uid)
    recount_beside(cluster, job, attempt, at_s)
    if attempt.borrows:
        _pay_back(cluster, attempt)
        recount_lenders(cluster, attempt, at_s)
    live.wait_no_more(attempt)
    for uid in live.waited_for.pop(attempt.uid, ()):
        _let_in(cluster, uid)


def let_in_all(cluster: Cluster) -> None:
    """After loading: attempts that others wait for or borrow from may have gone before."""
    live = cluster.live
    for gone in [uid for uid in live.waited_for if uid not in live.where]:
        for uid in live.waited_for.pop(gone):
            _let_in(cluster, uid)
    for gone in [uid for uid in live.loans if uid not in live.where]:
        del live.loans[gone]


def _let_in(cluster: Cluster, uid: str) -> None:
    """An attempt that waited only for attempts that have gone holds its room from now on."""
    live = cluster.live
    if uid not in live.where:
        return
    attempt = live.attempt(uid)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None and not any(other in live.where for other in attempt.after):
        node.withheld.pop(uid, None)
        cluster.agenda.touch(node.name, uid)
        _begin_to_count(cluster, attempt)


def _begin_to_count(cluster: Cluster, borrower: Attempt) -> None:
    """A borrower holds its room from now on: its lenders do not."""
    for loan in borrower.borrows:
        _show(cluster, loan.lender)


def _pay_back(cluster: Cluster, borrower: Attempt) -> None:
    """A borrower has gone; its lenders may go on, or stand still for others."""
    for lender in cluster.live.repay(borrower):
        cluster.agenda.repaid[cluster.live.where[lender][0]] = None
        _show(cluster, lender)


def _show(cluster: Cluster, uid: str) -> None:
    """Its node knows what a lender holds now."""
    if uid not in cluster.live.where:
        return
    attempt = cluster.live.attempt(uid)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None and uid in node.live:
        node.live[uid] = cluster.live.held_by(attempt)
        cluster.agenda.touch(node.name)
