"""When running attempts will be gone, as far as that is known.

Asked anew of attempts that changed, and of attempts that outlived what they were taken to last:
promises move with that, so the moment of the next one is known (``next_s``).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from rota.core.facts.loans import without
from rota.scheduling.later.timeline import LeavingAttempt
from rota.scheduling.order.lengths import stay_s_of

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node
    from rota.scheduling.later.timeline import Timeline

#: The most ends of attempts that left before they are cleared away.
SLACK = 64
INFINITE = float("inf")


class Leavers:
    """Tells a Timeline which attempt leaves which node when."""

    def __init__(self, cluster: Cluster, timeline: Timeline) -> None:
        self._cluster = cluster
        self._timeline = timeline
        #: (when, where, which attempt) is taken to leave and may stay on; some have left already.
        self._ends: list[tuple[float, str, str]] = []
        #: Attempts by node that had not begun when it was last asked when they leave.
        self._young: dict[str, dict[str, None]] = {}

    def follow(self, name: str, uids: dict[str, None] | None) -> None:
        """Single attempts came, went or changed on a node; None: any of them may have."""
        cluster = self._cluster
        node = cluster.nodes.get(name)
        young = self._young.pop(name, {})
        if node is None:
            self._timeline.set_node(name, {})
            return
        if uids is not None and not cluster.live.loans:
            # Attempts that had not begun when they were last asked may have begun since.
            asked = {**uids, **young}
            changed = {uid: self._leaver(node, uid) if uid in node.live else None for uid in asked}
            if self._timeline.change_node(name, changed):
                return
        found = {uid: self._leaver(node, uid) for uid in node.live}
        if cluster.live.loans:
            _after_loans(cluster, node, found)
        self._timeline.set_node(name, found)

    @property
    def next_s(self) -> float:
        """When the next attempt outlives what it is taken to last; infinite: none will."""
        ends, live = self._ends, self._cluster.live.where
        while ends and ends[0][2] not in live:
            heappop(ends)
        return ends[0][0] if ends else INFINITE

    def late(self, now_s: float) -> list[tuple[str, str]]:
        """Where which attempts should have left by now: they are to be asked again."""
        ends, live = self._ends, self._cluster.live.where
        found = []
        while ends and ends[0][0] <= now_s:
            _, name, uid = heappop(ends)
            if uid in live:
                found.append((name, uid))
        if len(ends) > 2 * len(live) + SLACK:
            self._ends = [end for end in dict.fromkeys(ends) if end[2] in live]
            heapify(self._ends)
        return found

    def follow_begun(self) -> None:
        """Attempts that had not begun when they were last asked are asked again once they have."""
        if not self._young:
            return
        for name, begun in [(name, self._begun(name)) for name in self._young]:
            if begun:
                self.follow(name, begun)

    def _begun(self, name: str) -> dict[str, None]:
        """The young attempts of a node that have begun by now."""
        jobs, live = self._cluster.jobs, self._cluster.live.where
        places = {uid: live[uid] for uid in self._young[name] if uid in live}
        attempts = {uid: jobs[job].tasks[task].attempts[-1] for uid, (job, task) in places.items()}
        return {uid: None for uid, attempt in attempts.items() if attempt.started_s}

    def _leaver(self, node: Node, uid: str) -> LeavingAttempt:
        job_id, task = self._cluster.live.where[uid]
        job = self._cluster.jobs[job_id]
        attempt = job.tasks[task].attempts[-1]
        if attempt.stop_cause is not None:
            end_s = attempt.stop_s + attempt.grace_s
        else:
            began_s = (attempt.started_s or attempt.placed_s) + job.paused_s
            stay_s = stay_s_of(self._cluster, job.spec, self._timeline.now_s - began_s)
            end_s = began_s + stay_s
            if stay_s != job.spec.time_limit_s and self._timeline.end_s(node.name, uid) != end_s:
                heappush(self._ends, (end_s, node.name, uid))
        if not attempt.started_s:
            self._young.setdefault(node.name, {})[uid] = None
        return LeavingAttempt(end_s, node.name, uid, node.live[uid])


def _after_loans(cluster: Cluster, node: Node, found: dict[str, LeavingAttempt]) -> None:
    """Which attempt leaves when, where CPUs are lent: a borrower frees only what is its own.

    A lender goes on when the last borrower has gone, so it leaves that much later.
    """
    for lender in [uid for uid in node.live if uid in cluster.live.loans]:
        job_id, task = cluster.live.where[lender]
        job = cluster.jobs[job_id]
        back_s = max(found[borrower].end_s for borrower in cluster.live.loans[lender])
        for borrower, loan in cluster.live.counting(job.tasks[task].attempts[-1]).items():
            leaving = found[borrower]
            found[borrower] = leaving._replace(allocation=without(leaving.allocation, [loan]))
        own = found[lender]
        late_s = max(0.0, back_s - job.suspended_s) if job.suspended_s else 0.0
        full = job.tasks[task].attempts[-1].allocation
        found[lender] = own._replace(end_s=max(back_s, own.end_s + late_s), allocation=full)
