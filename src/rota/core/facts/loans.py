"""CPUs on loan: what a stopped attempt lends to another one until that is gone.

A loan stands with the attempt that got it, and counts from when that one holds its room. What a
lender holds meanwhile is derived: all that it was given, less what is lent. When the borrower goes,
the lender has its CPUs back in the same instant, before anybody else can see them free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import Allocation


class Loan(msgspec.Struct, frozen=True, omit_defaults=True):
    """So much CPU, and these single CPUs, of the attempt with this uid."""

    lender: str
    cpu_milli: int
    cpus: tuple[int, ...] = ()


def without(held: Allocation, loans: Iterable[Loan]) -> Allocation:
    """What is left of an allocation when these loans are taken off."""
    cpu_milli, lent = held.cpu_milli, set[int]()
    for loan in loans:
        cpu_milli -= loan.cpu_milli
        lent.update(loan.cpus)
    cpus = tuple(cpu for cpu in held.cpus if cpu not in lent)
    return msgspec.structs.replace(held, cpu_milli=cpu_milli, cpus=cpus)


def held_by(cluster: Cluster, attempt: Attempt) -> Allocation:
    """What a live attempt holds now: its allocation, less what it lends."""
    lent = cluster.loans.get(attempt.uid)
    if not lent:
        return attempt.allocation
    return without(attempt.allocation, counting(cluster, attempt).values())


def counting(cluster: Cluster, lender: Attempt) -> dict[str, Loan]:
    """The loans of an attempt to those who hold their room, and do not still wait for it."""
    node = cluster.nodes.get(lender.allocation.node)
    waiting = node.withheld if node is not None else {}
    return {uid: loan for uid, loan in cluster.loans[lender.uid].items() if uid not in waiting}


def freed_by(cluster: Cluster, attempt: Attempt) -> Allocation:
    """What is free when a live attempt goes: its lenders take back what is theirs."""
    held = held_by(cluster, attempt)
    if not attempt.borrows:
        return held
    return without(held, [loan for loan in attempt.borrows if loan.lender in cluster.live])


def borrow(cluster: Cluster, attempt: Attempt) -> None:
    """An attempt that got loans is placed, or loaded."""
    for loan in attempt.borrows:
        cluster.loans.setdefault(loan.lender, {})[attempt.uid] = loan
    begin_to_count(cluster, attempt)


def begin_to_count(cluster: Cluster, attempt: Attempt) -> None:
    """A borrower holds its room from now on: its lenders do not."""
    for loan in attempt.borrows:
        _show(cluster, loan.lender)


def pay_back(cluster: Cluster, attempt: Attempt) -> None:
    """A borrower has gone; its lenders may go on, or stand still for others."""
    for loan in attempt.borrows:
        lent = cluster.loans.get(loan.lender)
        if lent is None:
            continue
        lent.pop(attempt.uid, None)
        if not lent:
            del cluster.loans[loan.lender]
        cluster.repaid[cluster.live[loan.lender][0]] = None
        _show(cluster, loan.lender)


def forget_lost(cluster: Cluster) -> None:
    """After loading: a lender may have gone before, and nobody waits for it."""
    for uid in [uid for uid in cluster.loans if uid not in cluster.live]:
        del cluster.loans[uid]


def borrower_of(cluster: Cluster, job: Job) -> int:
    """A job that has CPUs of this one or will have them, the one on record first; 0: none."""
    jobs = {
        cluster.live[uid][0]: None
        for attempt in job.live_attempts
        for uid in cluster.loans.get(attempt.uid, ())
    }
    return job.yields_to if job.yields_to in jobs else next(iter(jobs), 0)


def _show(cluster: Cluster, uid: str) -> None:
    """Its node knows what a lender holds now."""
    where = cluster.live.get(uid)
    if where is None:
        return
    attempt = cluster.jobs[where[0]].tasks[where[1]].attempts[-1]
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None and uid in node.live:
        node.live[uid] = held_by(cluster, attempt)
        cluster.touch(node.name)
