"""Promises to jobs that wait, and the claims that keep their room free.

A promise is the earliest moment, and the nodes, at which a job can start by what is known.
Promises and reservations are claims on nodes: a job that comes later may use a claimed node only
if it is gone in time or fits beside. How many jobs get a promise is the difference between the
kinds of backfill (``promising.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill
from rota.scheduling.api import Promise
from rota.scheduling.later.grounds import Grounds
from rota.scheduling.later.reserved import claims_of
from rota.scheduling.later.start_search import earliest
from rota.scheduling.later.timeline import Asking, Claim
from rota.scheduling.order.lengths import FOREVER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.api import Entry
    from rota.scheduling.later.timeline import Timeline
    from rota.scheduling.place.node_checks import NodeChecks
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.wants import Want

INFINITE = float("inf")


def asking_of(entry: Entry) -> Asking:
    """A waiting job as the search for a start sees it."""
    key = entry.key
    limit_s = float(key.time_limit_s)
    return Asking(entry.job, key.user, key.project, entry.shape, entry.run_s, limit_s, key.saves)


class Promises:
    """The promises that stand, and what they mean for all other jobs."""

    def __init__(self, cluster: Cluster, space: Space, timeline: Timeline) -> None:
        self._cluster = cluster
        self._space = space
        self.timeline = timeline
        #: Nodes that a reservation has a claim on.
        self.reserved = timeline.reserved
        self.kept: dict[int, Promise] = {}
        #: Nodes kept for jobs that have waited long.
        self.grounds = Grounds(cluster)
        #: When each waiting job was first told that it would start, where that bounds its delay.
        self._first_s: dict[int, float] = {}
        #: When promises were last worked out.
        self.planned_s = -INFINITE
        #: What the timeline said when promises were last brought forward.
        self.loosened = 0
        #: The last pass ended at its limit of starts: the next one goes on with it.
        self.is_cut = False
        #: How many jobs were left waiting by the last pass.
        self.seen = 0

    def take_over(self, other: Promises) -> None:
        """What another Scheduler of the same Cluster promised stands."""
        self.kept, self._first_s = dict(other.kept), dict(other._first_s)
        self.planned_s, self.seen, self.is_cut = other.planned_s, other.seen, other.is_cut
        self.grounds.take_over(other.grounds)

    def forget(self) -> None:
        self.kept.clear()
        self.grounds.forget()
        self._first_s.clear()
        self.loosened = 0

    @property
    def may_be_earlier(self) -> bool:
        """Whether something happened that may bring promises forward."""
        return self.timeline.loosened != self.loosened

    def all(self) -> list[Promise]:
        return [*self.kept.values()]

    def drop_lost(self) -> bool:
        """Jobs that wait no longer need no room, and a node out of service has none to keep.

        Whether there were any such promises.
        """
        kept = self.kept.values()
        lost = [one.job for one in kept if not self.waits(one.job) or not self.is_there(one)]
        for job in lost:
            self.withdraw(job)
        return bool(lost)

    def waits(self, job: int) -> bool:
        cluster = self._cluster
        return job in cluster.lanes.where or cluster.array_of(job) is not None

    def next_due_s(self) -> float:
        """When the next promise is due; infinite: there is none."""
        now_s = self.timeline.now_s
        return min([p.start_s for p in self.kept.values() if p.start_s > now_s], default=INFINITE)

    def is_due(self, job: int) -> bool:
        """Whether the job was promised to start by now."""
        promise = self.kept.get(job)
        return promise is not None and promise.start_s <= self.timeline.now_s

    def pledge(self, job: int, number: int) -> Promise | None:
        """The start that a waiting job was promised at its submit, under this reservation."""
        made = self._cluster.reservations.get(number)
        if made is None or not made.room or made.job != job or made.end_s <= self.timeline.now_s:
            return None
        return Promise(job, made.start_s, made.end_s, made.room)

    def due_pledges(self) -> list[Promise]:
        """To jobs that were promised at their submit to have started by now."""
        now_s, made = self.timeline.now_s, self._cluster.reservations
        if not made:
            return []
        due = [one for one in made.values() if one.room and one.start_s <= now_s]
        found = [self.pledge(one.job, one.id) for one in sorted(due, key=lambda r: r.id)]
        return [promise for promise in found if promise is not None]

    def claim_reservations(self) -> None:
        """Nothing is claimed but by the reservations that stand now."""
        timeline = self.timeline
        if timeline.claims:
            timeline.unclaim()
        self.grounds.begin(self.waits)
        if self._cluster.reservations or self._cluster.live.ending:
            for name, claim in claims_of(self._cluster, timeline.now_s, timeline):
                timeline.claim(name, claim)

    def still_holds(self, promise: Promise) -> bool:
        """Whether it can be kept: the job waits, and its nodes are there.

        One that is due stands until its job was looked at, or others would take the room first.
        """
        return (
            self.waits(promise.job)
            and promise.end_s > self.timeline.now_s
            and self.is_there(promise)
        )

    def is_there(self, promise: Promise) -> bool:
        """Whether all of its nodes are in service."""
        rooms = self._space.rooms
        return all([allocation.node in rooms for allocation in promise.allocations])

    def keep(self, promise: Promise) -> None:
        """The promise stands, and its room is claimed."""
        self.kept[promise.job] = promise
        start_s, rules = promise.start_s, self._cluster.policy.backfill
        firm = self.grounds.keep(promise, self.timeline.now_s)
        if rules.kind is Backfill.AGGRESSIVE and not firm:
            first_s = self._first_s.setdefault(promise.job, promise.start_s)
            start_s = max(start_s, first_s + rules.delay_max_s)
        end_s = start_s + promise.end_s - promise.start_s
        for allocation in promise.allocations:
            claim = Claim(start_s, end_s, allocation, promise.job)
            self.timeline.claim(allocation.node, claim)

    def withdraw(self, job: int) -> Promise:
        """No room is kept free for a job any more."""
        self.timeline.unclaim_job(job)
        return self.kept.pop(job)

    def fulfilled(self, job: int) -> Promise | None:
        """The job started; what it was promised, if anything."""
        self._first_s.pop(job, None)
        return self.withdraw(job) if job in self.kept else None

    def forget_gone(self) -> None:
        """Jobs that wait no longer were never told anything."""
        if self._first_s:
            told = self._first_s.items()
            self._first_s = {job: at_s for job, at_s in told if self.waits(job)}

    def earliest(self, entry: Entry, checks: NodeChecks, before_s: float) -> Promise | None:
        """When and where a job can start at the earliest, before a moment; None: never."""
        timeline, shape = self.timeline, entry.shape
        horizon_s = self._cluster.policy.backfill.horizon_s
        ground = self.grounds.of(entry.job, timeline.now_s)

        def refuses(name: str) -> bool:
            return (ground is not None and name not in ground) or checks.keeps_off(entry, name)

        asks = checks.hinders(shape) or shape.placement.asks_nodes or shape.placement.exclusive
        found = earliest(
            timeline,
            self._asking(entry),
            min(before_s, timeline.now_s + horizon_s if horizon_s else INFINITE),
            self._space.wants(entry.key.shape, shape),
            self._open_now(entry, refuses),
            refuses if asks or ground is not None else None,
        )
        if found is None and ground is not None and before_s == INFINITE:
            self.grounds.leave(entry.job)
            return self.earliest(entry, checks, before_s)
        if found is None or checks.is_over_quota(entry, found[1]):
            return None
        start_s, allocations = found
        return Promise(entry.job, start_s, start_s + self._length_s(entry), tuple(allocations))

    def _length_s(self, entry: Entry) -> float:
        """How long a job that is promised a start holds its room then."""
        if self._cluster.policy.backfill.limits_only:
            return float(entry.key.time_limit_s or FOREVER_S)
        return entry.run_s

    def _asking(self, entry: Entry) -> Asking:
        """The same job, where others have waited long: then only its limit counts."""
        asking = asking_of(entry)._replace(run_s=self._length_s(entry))
        if self.grounds.bind(entry.job):
            return asking._replace(run_s=asking.limit_s or INFINITE)
        return asking

    def _open_now(self, entry: Entry, refuses: Callable[[str], bool]) -> Iterator[str]:
        """Nodes that have room for some of its tasks today."""
        names: dict[str, None] = {}
        for want in self._space.wants(entry.key.shape, entry.shape):
            names.update(dict.fromkeys(self._space.open_nodes(want)))
        return (name for name in names if not refuses(name))

    def until_s(self, entry: Entry) -> float:
        """When the job will be gone. Against reservations of others only a limit counts."""
        now_s = self.timeline.now_s
        if not (self.reserved or self.grounds.nodes):
            return now_s + entry.run_s
        asking = asking_of(entry)
        bound = any(self.timeline.must_leave(name, asking) for name in self.reserved)
        if not bound and not self.grounds.bind(entry.job):
            return now_s + entry.run_s
        limit_s = entry.key.time_limit_s
        return now_s + limit_s if limit_s else INFINITE

    def is_full(self, name: str, entry: Entry, request: Request) -> bool:
        """Whether plain amounts say already that a claimed node has no room for a task."""
        asking = asking_of(entry)
        return self.timeline.lacks(name, self._until_s(name, asking), asking, request)

    def window(self, name: str, entry: Entry) -> Room:
        """What is free on a node as long as the job may stay there."""
        asking, timeline = asking_of(entry), self.timeline
        return timeline.window(name, timeline.now_s, self._until_s(name, asking), asking)

    def _until_s(self, name: str, asking: Asking) -> float:
        """When a job that starts now will have left a node.

        A pass comes a little after a promise is due: the next promise must not keep the job from
        what it was promised for that.
        """
        timeline = self.timeline
        until_s = timeline.until_s(name, timeline.now_s, asking)
        if self.grounds.binds(name, asking.job):
            return timeline.now_s + asking.limit_s if asking.limit_s else INFINITE
        if self.is_due(asking.job) and not timeline.is_bound(name, asking):
            until_s = min(until_s, self.kept[asking.job].end_s)
        return until_s

    def outlasts(self, job: int, stay_s: float) -> bool:
        """Whether a job would still be there when another was promised to start."""
        end_s = self.timeline.now_s + stay_s
        return any(p.start_s < end_s for other, p in self.kept.items() if other != job)

    def window_end_s(self, entry: Entry, placed: Iterable[tuple[int, Allocation]]) -> float:
        """When the room that the job was lent is due, if it could stay longer; 0: it was not."""
        limit_s = entry.key.time_limit_s
        claims = self.timeline.claims
        if limit_s and limit_s <= entry.run_s:
            return 0.0
        end_s = self.timeline.now_s + entry.run_s
        due = [
            claim.start_s
            for _, allocation in placed
            for claim in claims.get(allocation.node, ())
            if claim.job and claim.job != entry.job and claim.start_s >= end_s
        ]
        return min(due, default=0.0)

    def may_fit(self, number: int, names: Iterable[str]) -> bool:
        """Whether one of these nodes takes a task of this shape as it is now."""
        may_fit = self._space.may_fit
        for want in self._wants(number):
            for name in names:
                if may_fit(want, name):
                    return True
        return False

    def may_ever_fit(self, number: int, names: Iterable[str]) -> bool:
        """Whether one of these nodes takes a task of this shape when nothing else is there."""
        known, may_ever_fit = self._space.class_of, self._space.may_ever_fit
        found = [name for name in names if name in known]
        return any(may_ever_fit(want, name) for want in self._wants(number) for name in found)

    def _wants(self, number: int) -> tuple[Want, ...]:
        shape = self._cluster.lanes.shapes.get(number)
        return self._space.wants(number, shape) if shape is not None else ()
