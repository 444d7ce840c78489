"""What may pass a job that does not fit: promises to those who wait, and claims of reservations.

One mechanism serves all kinds. A job that finds no room gets a *promise*: the earliest moment
and the nodes where it can start by what is known. Promises and reservations are claims on nodes;
whoever comes later may use a claimed node only if he is gone in time or fits beside. How many
jobs get a promise is the difference between the kinds: one with EASY, all with conservative,
where a promise once given is only ever exchanged for an earlier one.
"""

from __future__ import annotations

from functools import partial
from math import nextafter
from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill
from rota.scheduling.api import Promise
from rota.scheduling.later.grounds import Grounds, outside
from rota.scheduling.later.reserved import claims_of
from rota.scheduling.later.timeline import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.derived.lanes import Shape
    from rota.core.facts.resources import Request
    from rota.scheduling.api import Entry
    from rota.scheduling.later.timeline import Asking
    from rota.scheduling.order.heads import Head
    from rota.scheduling.passes import Pass
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.scheduler import Scheduler

#: Jobs that get a promise with conservative backfill, unless the policy names a number: planning
#: a whole deep queue anew with every job that ends early would take longer than the jobs.
MANY_PROMISES = 256
#: With more lanes than this waiting for room a site counts as large.
MANY_FULL = 2000
#: Jobs with a deadline that get a promise beside the first in line.
DEADLINES_MAX = 100
#: Jobs that could never start are passed over up to this many in one pass.
VAIN_MAX = 16
INFINITE = float("inf")


class Promises:
    """The promises of a Scheduler, made and kept by its passes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.kept: dict[int, Promise] = {}
        #: When each waiting job was first told that it would start, where that bounds its delay.
        self._first_s: dict[int, float] = {}
        #: Nodes that a reservation has a claim on.
        self.reserved: dict[str, None] = {}
        self.grounds = Grounds(scheduler.cluster)
        self.made = 0
        #: The only job that waits for room; its promise was not worked out yet.
        self.owed = 0
        #: Searches of this pass that found no start at all, and the lanes that it was so for.
        self._vain = 0
        self.hopeless: dict[int, None] = {}
        self._pass: Pass | None = None
        #: When promises were last worked out, and whether this pass goes by those.
        self._planned_s = -INFINITE
        self._reused = False
        #: Something happened that may let promised jobs start earlier.
        self._loose = True
        #: A claim went since those it kept out were last looked at.
        self.withdrawn = False
        #: Whose promise this pass has looked at.
        self._settled: dict[int, None] = {}
        #: The last start that was found with no claims about, and what it was found for.
        self._found: Promise | None = None
        self._found_for: tuple[object, ...] = ()
        self._kind, self.depth = Backfill.NONE, 0
        #: How many were left waiting by the last pass.
        self.seen = 0

    def forget(self) -> None:
        self._found, self._found_for = None, ()
        self.kept.clear()
        self._first_s.clear()
        self.grounds.forget()

    def all(self) -> list[Promise]:
        return [*self.kept.values()]

    def has_lost(self) -> bool:
        """Whether somebody who was promised something waits no longer."""
        return not all(map(self._waits, self.kept))

    def _waits(self, job: int) -> bool:
        cluster = self._scheduler.cluster
        return job in cluster.lanes.where or cluster.array_of(job) is not None

    def is_due(self, job: int) -> bool:
        """Whether the job was promised to start by now."""
        promise = self.kept.get(job)
        return promise is not None and promise.start_s <= self._scheduler.timeline.now_s

    def lanes_due(self, now_s: float) -> list[int]:
        """The lanes of those who should start by now."""
        cluster = self._scheduler.cluster
        found: dict[int, None] = {}
        for promise in self.kept.values():
            if promise.start_s <= now_s:
                array = cluster.array_of(promise.job)
                lane = cluster.lanes.where.get(array.id if array is not None else promise.job)
                if lane is not None:
                    found[lane.number] = None
        return [*found]

    def _read_rules(self) -> None:
        """What the policy says, asked once per pass."""
        rules = self._scheduler.cluster.policy.backfill
        self._kind = rules.kind
        #: How many waiting jobs get a promise.
        self.depth = rules.depth
        if rules.kind is Backfill.NONE:
            self.depth = int(bool(self._scheduler.overdue))
        elif not rules.depth:
            self.depth = MANY_PROMISES if rules.kind is Backfill.CONSERVATIVE else 1

    @property
    def may_move(self) -> bool:
        """Whether somebody left, so that what was promised to many may go earlier, or came and
        stands behind others of his kind: he is to have a promise too, before they move."""
        if self._kind is not Backfill.CONSERVATIVE or not self.kept:
            return False
        waiting = len(self._scheduler.cluster.lanes.where)
        more = waiting > self.seen and len(self.kept) < self.depth
        return more or self._scheduler.timeline.loosened

    @property
    def wants_more(self) -> bool:
        return self._is_open or self._kind is Backfill.DEADLINE

    @property
    def _is_open(self) -> bool:
        depth = self.depth
        return self.made < depth and self._vain < max(depth, VAIN_MAX)

    @property
    def is_done(self) -> bool:
        """Nobody else can get a promise in this pass, or nobody ever does."""
        return self.depth == 0 or not self.wants_more

    @property
    def can_wait(self) -> bool:
        """Whether a promise would bind nobody: it is worked out when somebody asks for it."""
        cluster = self._scheduler.cluster
        few = not self.made and self.depth <= 1 and not cluster.elastic
        return few and not self._scheduler.eager

    def owe(self, job: int) -> None:
        self.owed = job

    def begin(self, this: Pass) -> None:
        """A pass starts: reservations have their claims; of promises only conservative ones do."""
        self._pass = this
        self._read_rules()
        self.made = self.owed = self._vain = 0
        self._settled.clear()
        lanes = this.cluster.lanes.by_number
        self.hopeless = dict.fromkeys(number for number in self.hopeless if number in lanes)
        timeline, cluster = self._scheduler.timeline, this.cluster
        timeline.unclaim()
        self.reserved.clear()
        self.grounds.begin(self._waits)
        for name, claim in claims_of(cluster, this.now_s, timeline):
            self.reserved[name] = None
            timeline.claim(name, claim)
        before, self.kept = self.kept, {}
        anew = this.policy.backfill.rebuild and timeline.loosened
        if (self._kind is Backfill.CONSERVATIVE and not anew) or self._are_recent(this):
            for promise in before.values():
                if self._holds(promise):
                    self._keep(promise)
        self.withdrawn = self.withdrawn or len(self.kept) < len(before)
        self._loose = timeline.loosened or len(self.kept) < len(before)
        timeline.loosened = False
        if self._first_s:
            told = self._first_s.items()
            self._first_s = {job: at_s for job, at_s in told if self._waits(job)}

    def _are_recent(self, this: Pass) -> bool:
        """On a large site promises are not worked out anew with every job that ends.

        An old one can still be kept; the new one would at best be earlier.
        """
        large = len(self._scheduler.full) > MANY_FULL
        self._reused = large and 0.0 <= this.now_s - self._planned_s < 1.0
        return self._reused

    def _holds(self, promise: Promise) -> bool:
        """Whether it can still be kept: the job waits, and its nodes are there."""
        this = self._pass
        assert this is not None
        if not self._waits(promise.job):
            return False
        # One that is due stands until its job was looked at, or others would take the room first.
        return promise.end_s > this.now_s and all(
            allocation.node in this.space.rooms for allocation in promise.allocations
        )

    def make(self, head: Head, entry: Entry) -> bool:
        """Promise the job its earliest start, or keep what it was promised; False: no more."""
        this = self._pass
        assert this is not None
        if not self._may_have_one(entry):
            return False
        kept = self.kept.get(entry.job)
        self.made += 1
        if kept is not None and kept.start_s > this.now_s and self._stands:
            self._settled[entry.job] = None
            this.wake_at(kept.start_s, promised=True)
            return True
        self._planned_s = this.now_s
        if kept is not None:
            self.withdraw(entry.job)
        good = kept is not None and kept.start_s > this.now_s
        if kept is not None and not good:
            self._drop_later()
        # Only an earlier start is of any use to who has one.
        before_s = nextafter(kept.start_s, 0.0) if kept and good else INFINITE
        found = self._earliest(head.shape, entry, before_s)
        if good:
            # A promise is only ever exchanged for an earlier one; who outstays his time breaks it.
            earlier = found is not None and kept is not None and found.start_s < kept.start_s
            self._loose = self._loose or earlier
            found = found if earlier else kept
        if found is not None:
            if self._kind is Backfill.AGGRESSIVE:
                self._first_s.setdefault(entry.job, found.start_s)
            self._keep(found)
            self._settled[entry.job] = None
            this.wake_at(found.start_s, promised=True)
            self.hopeless.pop(head.lane.number, None)
            return True
        # Who can never start by what is known must not use up the promise of whoever comes next.
        self.made -= 1
        self._vain += 1
        self.hopeless[head.lane.number] = None
        return False

    def unsettled(self) -> list[Promise]:
        """The promises that stand, of those whom this pass has neither started nor looked at."""
        return [promise for job, promise in self.kept.items() if job not in self._settled]

    def _drop_later(self) -> None:
        """Somebody outstays his time, and one who is due cannot start.

        Whoever comes after him must not stay ahead of him for that: they are planned anew.
        """
        for job in [job for job in self.kept if job not in self._settled]:
            self.withdraw(job)
        self._loose = True

    def withdraw(self, job: int) -> Promise:
        """Nobody has to make room for a job any more."""
        self._scheduler.timeline.unclaim_job(job)
        self.withdrawn = True
        return self.kept.pop(job)

    @property
    def all_stand(self) -> bool:
        """Whether all claims are those that lanes were last kept out by."""
        return self._reused and not self.withdrawn and not self.reserved

    @property
    def _stands(self) -> bool:
        """Whether nothing happened that could bring a promise forward."""
        return self._reused or (self._kind is Backfill.CONSERVATIVE and not self._loose)

    def _may_have_one(self, entry: Entry) -> bool:
        if self._kind is Backfill.NONE:
            # Whoever waited too long is not passed any more, whatever the rule.
            this = self._pass
            return self._is_open and this is not None and this.waited_too_long(entry)
        if self._is_open:
            return True
        return (
            self._kind is Backfill.DEADLINE
            and bool(entry.key.deadline_s)
            and self.made < DEADLINES_MAX
        )

    def _earliest(self, shape: Shape, entry: Entry, before_s: float) -> Promise | None:
        this = self._pass
        assert this is not None
        timeline, horizon_s = this.timeline, this.policy.backfill.horizon_s
        ground = self.grounds.of(entry.job, this.now_s)
        refuses = partial(outside, ground, partial(this.near.refuses, shape))
        asks = this.near.hinders(shape) or shape.placement.asks_nodes or ground is not None
        free = not (timeline.claims or asks or horizon_s) and before_s == INFINITE
        asked: tuple[object, ...] = (timeline.version, entry.job, entry.key.shape, entry.run_s)
        if free and asked == self._found_for and this.now_s < timeline.sure_until_s:
            # Nobody came or went since the same was asked.
            return self._found
        found = timeline.earliest(
            this.asking(entry),
            min(before_s, this.now_s + horizon_s if horizon_s else INFINITE),
            this.space.wants(entry.key.shape, shape),
            self._open_now(entry, refuses),
            refuses if asks else None,
        )
        if found is None:
            if ground is None or before_s < INFINITE:
                return None
            self.grounds.leave(entry.job)
            return self._earliest(shape, entry, before_s)
        start_s, allocations = found
        promise = Promise(entry.job, start_s, start_s + entry.run_s, tuple(allocations))
        self._found, self._found_for = promise, asked if free else ()
        return promise

    def _open_now(self, entry: Entry, refuses: Callable[[str], bool]) -> Iterator[str]:
        """Nodes that have room for some of its tasks today."""
        this = self._pass
        assert this is not None
        names: dict[str, None] = {}
        for want in this.space.wants(entry.key.shape, entry.shape):
            names.update(dict.fromkeys(this.space.open_nodes(want)))
        return (name for name in names if not refuses(name))

    def _keep(self, promise: Promise) -> None:
        self.kept[promise.job] = promise
        start_s = promise.start_s
        firm = self.grounds.keep(promise, self._scheduler.timeline.now_s)
        if self._kind is Backfill.AGGRESSIVE and not firm:
            delay_s = self._scheduler.cluster.policy.backfill.delay_max_s
            start_s = max(start_s, self._first_s.get(promise.job, start_s) + delay_s)
        end_s = start_s + promise.end_s - promise.start_s
        for allocation in promise.allocations:
            claim = Claim(start_s, end_s, allocation, promise.job)
            self._scheduler.timeline.claim(allocation.node, claim)

    def fulfilled(self, job: int) -> None:
        """The job started."""
        if job in self.kept:
            kept = self.withdraw(job)
            self._loose = self._loose or kept.start_s > self._scheduler.timeline.now_s
        self._first_s.pop(job, None)

    def is_full(self, name: str, entry: Entry, request: Request) -> bool:
        """Whether plain amounts say already that a claimed node has no room for a task."""
        this = self._pass
        assert this is not None
        course = this.timeline.course(name, this.asking(entry))
        if course is None:
            return False
        until_s = self._until_s(name, entry)
        return not course.look(request, 1, this.now_s, until_s)[0]

    def window(self, name: str, asking: Asking, entry: Entry) -> Room:
        """What is free on a node as long as the job may stay there."""
        return self._scheduler.timeline.window_now(name, self._until_s(name, entry), asking)

    def _until_s(self, name: str, entry: Entry) -> float:
        """When a job will have left a node.

        It is taken to keep to its estimate where others wait for it, and to its limit (if it has
        one at all) where a reservation begins or a job waited too long. A pass comes a little after
        a promise is due: the next in line must not keep the job from what it was promised.
        """
        now_s = self._scheduler.timeline.now_s
        until_s = now_s + entry.run_s
        if self.is_due(entry.job):
            until_s = min(until_s, self.kept[entry.job].end_s)
        if self.counts_limit(name, entry):
            limit_s = entry.key.time_limit_s
            until_s = now_s + limit_s if limit_s else INFINITE
        return until_s

    def counts_limit(self, name: str, entry: Entry) -> bool:
        """Whether a node is claimed by something that no estimate may delay."""
        now_s = self._scheduler.timeline.now_s
        return name in self.reserved or self.grounds.binds(name, entry.job, now_s)

    def outlasts(self, entry: Entry) -> bool:
        """Whether a job would still be there when somebody else was promised to start."""
        end_s = self._scheduler.timeline.now_s + entry.run_s
        return any(p.start_s < end_s for job, p in self.kept.items() if job != entry.job)

    def may_hinder(self, number: int) -> bool:
        """Whether a claim, rather than want of room, may be what keeps a shape waiting."""
        this = self._pass
        assert this is not None
        if not this.timeline.claims:
            return False
        wants = this.space.wants(number, this.cluster.lanes.shapes[number])
        return any(
            this.space.may_fit(want, name) for name in this.timeline.claims for want in wants
        )
