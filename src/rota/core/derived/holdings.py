"""Who holds how much right now: sums over live attempts by account, kept in step by ``apply``.

The invariants derive the same sums from the attempts and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.usage import device_milli_of
from rota.core.facts.loans import begin_to_count, borrow, forget_lost, held_by, pay_back
from rota.core.facts.policy import PreemptMode
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.states import Phase

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter
    from rota.core.facts.job import Attempt, Job, JobSpec
    from rota.core.facts.node import Allocation


class Holdings:
    """Amounts by ("user", name), ("project", name), ("account", both) and by type of job."""

    def __init__(self) -> None:
        self.of: dict[Counter, Amount] = {}

    def get(self, account: Counter) -> Amount:
        return self.of.get(account, NOTHING)

    def shift(self, spec: JobSpec, allocation: Allocation, sign: int) -> None:
        """An attempt of a job with this spec took (1) or gave back (-1) an allocation."""
        amount = amount_of(allocation)
        for account in accounts_of(spec):
            left = self.get(account).plus(amount, sign)
            if left == NOTHING:
                self.of.pop(account, None)
            else:
                self.of[account] = left


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
    return Amount(
        allocation.cpu_milli,
        allocation.memory_mib,
        allocation.disk_mib,
        device_milli_of(allocation),
    )


def hold(cluster: Cluster, job: Job, task: int, attempt: Attempt) -> None:
    """A live attempt holds its room, or waits for others to leave it."""
    cluster.live[attempt.uid] = (job.id, task)
    cluster.holdings.shift(job.spec, attempt.allocation, 1)
    if attempt.phase is Phase.RUNNING:
        cluster.running.shift(job.spec, attempt, 1)
    note_mode(cluster, job, attempt)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None:
        node.live[attempt.uid] = held_by(cluster, attempt)
        if attempt.after and attempt.phase is Phase.PLACED:
            node.withheld[attempt.uid] = attempt.after
            for other in attempt.after:
                cluster.waited_for.setdefault(other, {})[attempt.uid] = None
        cluster.touch(node.name, attempt.uid)
    if attempt.borrows:
        borrow(cluster, attempt)


def note_mode(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """Passes look for those who may stand still only where there is one."""
    if job.spec.preempt_mode is PreemptMode.SUSPEND:
        cluster.stoppable[attempt.uid] = None


def let_go(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """An ended attempt gives its room back, and lets those go who waited for it."""
    cluster.live.pop(attempt.uid, None)
    cluster.stoppable.pop(attempt.uid, None)
    cluster.loans.pop(attempt.uid, None)
    cluster.holdings.shift(job.spec, attempt.allocation, -1)
    for counter in accounts_of(job.spec):
        cluster.lanes.given_back.add(counter)
    node = cluster.nodes.get(attempt.allocation.node)
    if node is not None:
        node.live.pop(attempt.uid, None)
        node.withheld.pop(attempt.uid, None)
        cluster.touch(node.name, attempt.uid)
    if attempt.borrows:
        pay_back(cluster, attempt)
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
