"""Who keeps how much from others right now: sums over live attempts by account, kept by ``apply``.

An attempt counts with what it was given; where it has a node to itself, with all of the node, once
for all tasks of its job there. CPUs that an attempt lends stay with it for quotas, as they come
back unasked, but the borrower is charged for them. The invariants derive the same sums from the
attempts and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.usage import Spent, Usage, rate_of, usage_key
from rota.core.facts.loans import (
    begin_to_count,
    borrow,
    forget_lost,
    held_by,
    pay_back,
)
from rota.core.facts.policy import PreemptMode
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.states import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter
    from rota.core.facts.job import Attempt, Job, JobSpec
    from rota.core.facts.node import Allocation


class Count(NamedTuple):
    """What one live attempt counts with."""

    #: For quotas.
    kept: Amount
    #: Of it: CPUs on loan, which it is not charged for.
    lent: Amount = NOTHING

    @property
    def used(self) -> Amount:
        return self.kept.plus(self.lent, -1) if self.lent != NOTHING else self.kept


class Holdings:
    """Amounts by ("user", name), ("project", name), ("account", both) and by type of job."""

    def __init__(self) -> None:
        self.of: dict[Counter, Amount] = {}
        #: Of that: CPUs on loan.
        self.lent: dict[Counter, Amount] = {}
        #: Live attempts that count with something else than they were given.
        self.special: dict[str, Count] = {}

    def twin(self) -> Holdings:
        """A copy to try things on."""
        twin = Holdings()
        twin.of, twin.lent, twin.special = self.of.copy(), self.lent.copy(), self.special.copy()
        return twin

    def get(self, account: Counter) -> Amount:
        return self.of.get(account, NOTHING)

    def used(self, account: Counter) -> Amount:
        """What is held and not on loan."""
        lent = self.lent.get(account)
        return self.get(account) if lent is None else self.get(account).plus(lent, -1)

    def count_of(self, attempt: Attempt) -> Count:
        """What a live attempt counts with."""
        return self.special.get(attempt.uid) or Count(amount_of(attempt.allocation))

    def shift(self, spec: JobSpec, count: Count, sign: int) -> None:
        """An attempt of a job with this spec counts with this (1), or does so no longer (-1)."""
        for account in accounts_of(spec):
            _shift(self.of, account, count.kept, sign)
            if count.lent != NOTHING:
                _shift(self.lent, account, count.lent, sign)


def _shift(sums: dict[Counter, Amount], account: Counter, amount: Amount, sign: int) -> None:
    left = sums.get(account, NOTHING).plus(amount, sign)
    if left == NOTHING:
        sums.pop(account, None)
    else:
        sums[account] = left


def accounts_of(spec: JobSpec) -> list[Counter]:
    """Whose sums an attempt of this job counts in."""
    user, project = spec.user, spec.project
    accounts: list[Counter] = [
        ("user", user),
        ("project", project),
        ("account", f"{user}\n{project}"),
    ]
    if spec.type:
        accounts += [("user type", f"{user}\n{spec.type}"), ("type", f"{project}\n{spec.type}")]
    return accounts


def amount_of(allocation: Allocation) -> Amount:
    """What a task keeps from others, if it is the only one of its job on the node."""
    if allocation.keeps is not None:
        return allocation.keeps
    each = allocation.device_milli if allocation.shared and allocation.device_milli else 1000
    return Amount(
        allocation.cpu_milli,
        allocation.memory_mib,
        allocation.disk_mib,
        len(allocation.devices) * each,
    )


def amount_of_all(allocations: Iterable[Allocation]) -> Amount:
    """What tasks of one job keep from others together: a node of their own counts once."""
    total, own = NOTHING, set[str]()
    for allocation in allocations:
        if allocation.keeps is None or allocation.node not in own:
            total = total.plus(amount_of(allocation))
        if allocation.keeps is not None:
            own.add(allocation.node)
    return total


def uncharged_s(attempt: Attempt) -> float:
    """Since when the use of an attempt that ran is still to be charged."""
    return max(attempt.charged_s, attempt.started_s)


def derive_count(cluster: Cluster, attempt: Attempt) -> Count:
    """What a live attempt counts with, by the facts alone."""
    kept, lent = amount_of(attempt.allocation), NOTHING
    if attempt.allocation.keeps is not None:
        first = min(_beside(cluster, attempt), key=lambda peer: (peer[1].placed_s, peer[0]))
        if first[1] is not attempt:
            kept = NOTHING
    for uid, loan in cluster.loans.get(attempt.uid, {}).items():
        job_id, task = cluster.live[uid]
        if cluster.jobs[job_id].tasks[task].attempts[-1].phase is Phase.RUNNING:
            lent = lent.plus(Amount(loan.cpu_milli))
    return Count(kept, lent)


def _beside(cluster: Cluster, attempt: Attempt) -> Iterator[tuple[int, Attempt]]:
    """Live attempts of the same job on the same node of its own, with their tasks."""
    job_id, own_task = cluster.live[attempt.uid]
    node = cluster.nodes.get(attempt.allocation.node)
    if node is None:
        yield own_task, attempt
        return
    for uid in node.live:
        other, task = cluster.live[uid]
        if other == job_id:
            peer = cluster.jobs[job_id].tasks[task].attempts[-1]
            if peer.allocation.keeps is not None:
                yield task, peer


def _recount(cluster: Cluster, uid: str, at_s: float | None) -> None:
    """What an attempt keeps from others may be something else from now on.

    What it used up to then is charged. Without a moment nothing happened: it is being loaded.
    """
    where = cluster.live.get(uid)
    if where is None:
        return
    job = cluster.jobs[where[0]]
    attempt = job.tasks[where[1]].attempts[-1]
    was, now = cluster.holdings.count_of(attempt), derive_count(cluster, attempt)
    if was == now:
        return
    runs = attempt.phase is Phase.RUNNING
    cluster.holdings.shift(job.spec, was, -1)
    if runs:
        cluster.running.shift(job.spec, was.used, uncharged_s(attempt), -1)
    if at_s is not None:
        charge(cluster, job, attempt, at_s)
        attempt.charged_s = max(uncharged_s(attempt), at_s)
        cluster.dirty.jobs[job.id] = job
    _keep_count(cluster, attempt, now)
    cluster.holdings.shift(job.spec, now, 1)
    if runs:
        cluster.running.shift(job.spec, now.used, uncharged_s(attempt), 1)


def _keep_count(cluster: Cluster, attempt: Attempt, count: Count) -> None:
    if count == Count(amount_of(attempt.allocation)):
        cluster.holdings.special.pop(attempt.uid, None)
    else:
        cluster.holdings.special[attempt.uid] = count


def charge(cluster: Cluster, job: Job, attempt: Attempt, until_s: float) -> None:
    """What ran is charged to its user and project: by what it kept from others, for so long."""
    since_s = uncharged_s(attempt)
    if not attempt.started_s or until_s <= since_s:
        return
    key = usage_key(job.spec.user, job.spec.project)
    usage = cluster.usage.get(key)
    if usage is None:
        usage = cluster.usage[key] = Usage(job.spec.user, job.spec.project, Spent(), until_s, {})
    used = cluster.holdings.count_of(attempt).used
    usage.charge(rate_of(used), since_s, until_s, cluster.policy.share.half_life_s)
    cluster.dirty.usage[key] = None


def hold(
    cluster: Cluster, job: Job, task: int, attempt: Attempt, at_s: float | None = None
) -> None:
    """A live attempt holds its room, or waits for others to leave it; without a moment: loaded."""
    cluster.live[attempt.uid] = (job.id, task)
    note_mode(cluster, job, attempt)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None:
        node.live[attempt.uid] = held_by(cluster, attempt)
        if attempt.after and attempt.phase is Phase.PLACED:
            node.withheld[attempt.uid] = attempt.after
            for other in attempt.after:
                cluster.waited_for.setdefault(other, {})[attempt.uid] = None
        cluster.touch(node.name, attempt.uid)
    if attempt.allocation.keeps is not None or attempt.uid in cluster.loans:
        _keep_count(cluster, attempt, derive_count(cluster, attempt))
    count = cluster.holdings.count_of(attempt)
    cluster.holdings.shift(job.spec, count, 1)
    if attempt.phase is Phase.RUNNING:
        cluster.running.shift(job.spec, count.used, uncharged_s(attempt), 1)
    _recount_beside(cluster, job, attempt, at_s)
    if attempt.borrows:
        borrow(cluster, attempt)
        _recount_lenders(cluster, attempt, at_s)


def begin(cluster: Cluster, job: Job, attempt: Attempt, started_s: float) -> None:
    """A live attempt runs from then on, and its lenders are charged no longer for what it has."""
    attempt.phase, attempt.started_s = Phase.RUNNING, started_s
    used = cluster.holdings.count_of(attempt).used
    cluster.running.shift(job.spec, used, uncharged_s(attempt), 1)
    _recount_lenders(cluster, attempt, started_s)


def stop_clock(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """Its use so far is no longer that of a running attempt: charged, or counted anew."""
    if attempt.phase is Phase.RUNNING:
        used = cluster.holdings.count_of(attempt).used
        cluster.running.shift(job.spec, used, uncharged_s(attempt), -1)


def _recount_beside(cluster: Cluster, job: Job, attempt: Attempt, at_s: float | None) -> None:
    """Who came to or left a node of its own: another of its job may stand for the node now."""
    node = cluster.nodes.get(attempt.allocation.node)
    if attempt.allocation.keeps is None or node is None:
        return
    for uid in [uid for uid in node.live if cluster.live[uid][0] == job.id]:
        _recount(cluster, uid, at_s)


def _recount_lenders(cluster: Cluster, attempt: Attempt, at_s: float | None) -> None:
    for loan in attempt.borrows:
        _recount(cluster, loan.lender, at_s)


def note_mode(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """Passes look for those who may stand still only where there is one."""
    if job.spec.preempt_mode is PreemptMode.SUSPEND:
        cluster.stoppable[attempt.uid] = None


def let_go(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """An ended attempt gives its room back, and lets those go who waited for it."""
    # Ends may be told in another order than they came: what was charged up to then stays so.
    at_s = max(attempt.ended_s, attempt.charged_s)
    cluster.holdings.shift(job.spec, cluster.holdings.count_of(attempt), -1)
    cluster.holdings.special.pop(attempt.uid, None)
    cluster.live.pop(attempt.uid, None)
    cluster.stoppable.pop(attempt.uid, None)
    cluster.loans.pop(attempt.uid, None)
    for counter in accounts_of(job.spec):
        cluster.lanes.open_counter(counter)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None:
        node.live.pop(attempt.uid, None)
        node.withheld.pop(attempt.uid, None)
        cluster.touch(node.name, attempt.uid)
    _recount_beside(cluster, job, attempt, at_s)
    if attempt.borrows:
        pay_back(cluster, attempt)
        _recount_lenders(cluster, attempt, at_s)
    for other in attempt.after:
        waiting = cluster.waited_for.get(other, {})
        if waiting.pop(attempt.uid, 0) is None and not waiting:
            del cluster.waited_for[other]
    for uid in cluster.waited_for.pop(attempt.uid, ()):
        _let_in(cluster, uid)


def _let_in(cluster: Cluster, uid: str) -> None:
    """Whoever waited only for attempts that have gone holds his room from now on."""
    where = cluster.live.get(uid)
    if where is None:
        return
    attempt = cluster.jobs[where[0]].tasks[where[1]].attempts[-1]
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None and not any(other in cluster.live for other in attempt.after):
        node.withheld.pop(uid, None)
        cluster.touch(node.name, uid)
        begin_to_count(cluster, attempt)


def let_in_all(cluster: Cluster) -> None:
    """After loading: those whom somebody waits for may have gone before."""
    for gone in [uid for uid in cluster.waited_for if uid not in cluster.live]:
        for uid in cluster.waited_for.pop(gone):
            _let_in(cluster, uid)
    forget_lost(cluster)
