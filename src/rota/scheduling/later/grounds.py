"""Nodes that are kept for jobs that have waited long, so that these start in bounded time.

Long is ``backfill.trust_s``, or ``order.wait_max_s`` where that is not set. Only a job that its
limit ends in time starts there, whatever it is taken to run. A job stays with
its nodes for as long as it has waited too long already: if it went to others whenever a run turns
out longer than said, no node would ever be empty; and if it stayed for ever, a run without an end
would keep it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.scheduling.api import Promise


class Grounds:
    """Which nodes are kept for which job, and up to when."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: Nodes that are promised to such a job in this pass, and the first job of each.
        self.nodes: dict[str, int] = {}
        self._of: dict[int, tuple[frozenset[str], float]] = {}

    def forget(self) -> None:
        self.nodes.clear()
        self._of.clear()

    def take_over(self, other: Grounds) -> None:
        self._of = dict(other._of)

    def begin(self, waits: Callable[[int], bool]) -> None:
        self.nodes.clear()
        if self._of:
            self._of = {job: ground for job, ground in self._of.items() if waits(job)}

    def overdue_s(self, job: int, now_s: float) -> float:
        """For how long a waiting job has waited too long to be passed on trust; 0: it has not."""
        item = self._cluster.jobs.get(job) or self._cluster.array_of(job)
        policy = self._cluster.policy
        most_s = policy.backfill.trust_s or policy.order.wait_max_s
        if item is None or not item.eligible_s or not most_s:
            return 0.0
        return max(now_s - item.eligible_s - most_s, 0.0)

    def of(self, job: int, now_s: float) -> frozenset[str] | None:
        """The nodes that a job is to start on; None: any."""
        nodes, until_s = self._of.get(job, (None, 0.0))
        if until_s <= now_s:
            self.leave(job)
            return None
        return nodes

    def binds(self, name: str, job: int) -> bool:
        """Whether a node is kept for a job that this one must not delay."""
        return self.nodes.get(name, job) != job

    def bind(self, job: int) -> bool:
        """Whether any node is kept for another job than this one."""
        return any(owner != job for owner in self.nodes.values())

    def leave(self, job: int) -> None:
        self._of.pop(job, None)

    def keep(self, promise: Promise, now_s: float) -> bool:
        """Keep the nodes of a promise, if its job has waited too long."""
        overdue_s = self.overdue_s(promise.job, now_s)
        if not overdue_s:
            return False
        names = dict.fromkeys(allocation.node for allocation in promise.allocations)
        for name in names:
            self.nodes.setdefault(name, promise.job)
        until_s = max(promise.start_s, now_s + overdue_s)
        self._of.setdefault(promise.job, (frozenset(names), until_s))
        return True
