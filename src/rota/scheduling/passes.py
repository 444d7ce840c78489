"""The pass: which waiting jobs start now, where, and who has to give way or wait for what.

It takes lanes in the order of the policy. The first job of each goes through four steps: *admit*
(caps, quotas, shares), *place* (room now), *take over* (room of others) and *promise* (room
later). The outcome is a start, or what the lane waits for. Two steps follow for all: promised jobs
that the pass did not come to are started if they can be, and elastic gangs grow.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rota.core.derived.holdings import amount_of, amount_of_all
from rota.core.facts.errors import Stumbled
from rota.core.facts.resources import NOTHING
from rota.scheduling.api import Plan, Start, View
from rota.scheduling.blocked import Blocked
from rota.scheduling.evict.preempting import POSTPONED_S, Takeovers
from rota.scheduling.growth import grow, within_quota
from rota.scheduling.later.promising import Promising
from rota.scheduling.later.timeline import Leaving, planned_uid
from rota.scheduling.limits.quota import Quotas
from rota.scheduling.misses import Misses
from rota.scheduling.order.fairshare import FairShare
from rota.scheduling.order.heads import Heads
from rota.scheduling.order.keys import ByLength, Key, Keys
from rota.scheduling.order.lengths import stay_s_of
from rota.scheduling.order.turns import Turns
from rota.scheduling.outcomes import NO_ROOM, Barred, Behind, Capped, Claimed, Refused, Started
from rota.scheduling.passing import Passing
from rota.scheduling.place.gang import Asker, place
from rota.scheduling.place.node_checks import NodeChecks

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, LaneKey
    from rota.core.facts.loans import Loan
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Amount
    from rota.scheduling.api import Entry, Promise
    from rota.scheduling.later.promises import Promises
    from rota.scheduling.memory import Memory
    from rota.scheduling.order.heads import Head
    from rota.scheduling.outcomes import Outcome, RoomWait
    from rota.scheduling.place.gang import Placed
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.rules import Rules

INFINITE = float("inf")


class Pass:
    """One pass: from lanes in order to decisions."""

    def __init__(self, scheduler: Memory, now_s: float, rules: Rules) -> None:
        self.scheduler = scheduler
        self.cluster: Cluster = scheduler.cluster
        self.rules = rules
        total = scheduler.total
        self.shares = FairShare(self.cluster, now_s, total)
        self.view = View(now_s, self.cluster.policy, self.shares, total)
        self.quotas = Quotas(self.cluster, now_s, self.space.prices(self.cluster))
        self.checks = NodeChecks(self.cluster, self.space, rules, self.quotas)
        lending = self.quotas if scheduler.may_borrow else None
        self.keys = Keys(self.cluster, rules, self.view, lending)
        self.promising = Promising(scheduler.promises, self.checks, self.policy)
        self.misses = Misses(self.cluster, scheduler.waits, scheduler.promises, self.checks)
        self._heads = Heads(self.cluster, scheduler.standing, self.keys, scheduler.amount)
        self.plan = Plan(starts=[], evictions=[], promises=[], dropped=[])
        self._blocked = Blocked()
        preempts = self.policy.preempt.enabled
        self._takeovers = Takeovers(self, scheduler.prospects) if preempts else None
        asks_all = self._takeovers is not None and self._takeovers.asks_all
        self._passing = Passing(self.policy, asks_all=asks_all)

    @property
    def now_s(self) -> float:
        return self.view.now_s

    @property
    def policy(self) -> Policy:
        return self.view.policy

    @property
    def space(self) -> Space:
        return self.scheduler.space

    @property
    def promises(self) -> Promises:
        return self.scheduler.promises

    def run(self, limit: int) -> Plan:
        turns, starts, compared = self._begin(), self.plan.starts, False
        passing, promising = self._passing, self.promising
        takeovers, key = self._takeovers, Key()
        while len(starts) < limit and not passing.is_over:
            blocked = passing.is_bounded or promising.wants_more
            overdue = promising.only_overdue and not passing.is_bounded
            part = overdue or not blocked or turns.is_resorted
            if part and takeovers is not None and takeovers.freed:
                # While all lanes that wait take their turn, none of them has to be opened.
                self._open_left(turns, takeovers, key)
            head = turns.first(blocked=blocked, overdue=overdue) if blocked or compared else None
            if head is None:
                if compared:
                    break
                compared = True
                self._open_claimed(turns)
                continue
            key, job = turns.first_key, head.entry.job
            try:
                self._settle(turns, head, self._deal_with(head))
            except Exception as error:
                raise Stumbled(job, f"the pass broke on it: {error!r}") from error
        given_up = self._start_promised(turns, limit)
        if self.policy.gang.grow and self.cluster.census.elastic and len(starts) < limit:
            grow(self)
        self._end(turns, limit)
        self._look_again([*given_up, *self.promising.let_go()])
        # They know each other: only the collector could free the two.
        self._takeovers = None
        self.plan.promises, self.plan.dropped = self.promises.all(), list(self.rules.dropped)
        self.promises.seen = len(self.cluster.lanes.where) - len(starts)
        return self.plan

    def _begin(self) -> Turns:
        """Which lanes are looked at, and in which order; claims that stand from before."""
        scheduler, lanes = self.scheduler, self.cluster.lanes
        self.promising.begin(scheduler.waits.count)
        turns = Turns(self.cluster, scheduler.standing, self.keys, self._heads)
        older = scheduler.standing.grow_older(self.keys, lanes.by_number, self._heads.opening)
        if self._takeovers is not None:
            # An older job may take room from jobs that were its equals.
            scheduler.waits.wake(older)
            scheduler.waits.open_shapes.update(dict.fromkeys(self._takeovers.reconsider()))
        turns.begin(scheduler.waits.open, scheduler.waits.open_shapes)
        return turns

    def _open_claimed(self, turns: Turns) -> None:
        """No more is promised in this pass. Lanes that other claims kept out are looked at."""
        if moved := self.promising.moved():
            turns.open(self._unclaimed(moved))
        if not self._passing.asks_all:
            turns.pass_over(partial(self._is_known, turns.shapes, turns.numbers))
        if self.policy.backfill.shortest and self.promising.made:
            turns.sort_by(ByLength(self.cluster, self.rules, self.view, None))

    def _unclaimed(self, names: list[str]) -> list[int]:
        """The shapes that these nodes may help, now that other claims are on them, or none."""
        may_fit, may_ever_fit = self.promises.may_fit, self.promises.may_ever_fit
        return self.scheduler.waits.on_claims(
            lambda shape: may_fit(shape, names), lambda shape: may_ever_fit(shape, names)
        )

    def _open_left(self, turns: Turns, takeovers: Takeovers, key: Key) -> None:
        """Victims may leave more room than was taken: lanes behind this key are looked at."""
        for number in self.scheduler.waits.for_room(takeovers.left()):
            lane = self.cluster.lanes.by_number.get(number)
            self._blocked.call_back(number)
            if lane is not None and number not in self._blocked:
                turns.add_behind(lane, key)

    def _deal_with(self, head: Head) -> Outcome:
        """Start the head's job, or find out what its lane waits for."""
        wait = self.admit(head.lane.key, head.amount)
        if wait is not None:
            return wait
        kept = self.promising.made and self._passing.keeps(head.lane.key.priority)
        if kept and head.entry.job not in self.promises.kept:
            return Behind()
        outcome, takeovers = self._place(head), self._takeovers
        if takeovers is None or isinstance(outcome, Started):
            return outcome
        if takeovers.try_for(head, head.entry):
            return Started(head.entry.job)
        if takeovers.is_kept_off:
            self.scheduler.waits.kept_off.add(head.lane.key.shape)
        return outcome

    def admit(self, key: LaneKey, amount: Amount) -> Capped | Barred | None:
        """Whether the jobs of a lane may not start, whatever room there is."""
        queue = self.cluster.queues.get(key.queue)
        if queue is not None and not queue.starts_jobs:
            return Capped()
        short = self.quotas.short(key, amount)
        if short is not None:
            return Capped(short.counters, short.again_s)
        return Barred() if self.kept_back_by(key) is not None else None

    def kept_back_by(self, key: LaneKey) -> Lane | None:
        """A lane within the hard limit on shares that one beyond it has to wait for."""
        return self.shares.kept_back_by(key.user, key.project, self._lacks_room_only)

    def _lacks_room_only(self, lane: Lane) -> bool:
        queue = self.cluster.queues.get(lane.key.queue)
        if lane.number in self._heads.started or (queue is not None and not queue.starts_jobs):
            return False
        return self.quotas.short(lane.key, self.scheduler.amount(lane.key.shape)) is None

    def _place(self, head: Head) -> Started | RoomWait:
        """Room for all tasks of the job now, beside everything that is claimed."""
        entry = head.entry
        if head.full and entry.job not in self.scheduler.promises.kept:
            # Behind a job of its lane that does not fit only a promise gives room.
            return NO_ROOM
        if not isinstance(placed := self.find_room(entry), list):
            return placed
        window_s = self.scheduler.promises.window_end_s(entry, placed)
        self.record(head, entry, placed, window_s=window_s)
        return Started(entry.job)

    def find_room(self, entry: Entry) -> list[Placed] | RoomWait:
        """Room for a job, taken; or what it waits for."""
        promises, space = self.scheduler.promises, self.scheduler.space
        known = self.misses.known(entry, until_s := promises.until_s(entry))
        if known is not None:
            return known
        if not self.policy.backfill.spare and promises.outlasts(entry.job, entry.run_s):
            return Claimed()
        asker = Asker(space, self.checks, promises, entry, until_s)
        if (placed := place(asker)) is None:
            if asker.short is None:
                return self.misses.note(entry, until_s)
            # Another account may have the nodes that are too large for this one.
            self.wake_at(asker.short.again_s)
            return Refused()
        return within_quota(self.quotas, space, entry, placed)

    def asker(self, entry: Entry) -> Asker:
        return Asker(self.space, self.checks, self.promises, entry, self.promises.until_s(entry))

    def take(self, job: int, end_s: float, placed: list[Placed]) -> None:
        """Attempts of a job that do not exist yet have this room until then."""
        add, planned = self.scheduler.timeline.add, self.scheduler.planned
        for task, allocation in placed:
            uid = planned_uid(job, task)
            add(Leaving(end_s, uid, allocation.node, allocation))
            planned(allocation.node, uid)

    def unprotected(self) -> list[int]:
        """The shapes that wait for room and that no promise keeps it free for."""
        if not self.promising.only_overdue:
            return []
        found = [lane.key.shape for lane in self._blocked.for_room()]
        return [*dict.fromkeys([*found, *self.scheduler.waits.shapes])]

    def record(
        self,
        head: Head,
        entry: Entry,
        placed: list[Placed],
        *,
        after: tuple[str, ...] = (),
        window_s: float = 0.0,
        borrows: tuple[tuple[Loan, ...], ...] = (),
    ) -> None:
        """A job starts: everything that later jobs of this pass must know of it."""
        key, roles, count = entry.key, entry.shape.roles, len(placed)
        jobs, arrays = self.cluster.jobs, self.cluster.arrays
        spec = arrays[head.array].spec if head.array else jobs[entry.job].spec
        # Promises rest on how long it may hold its room, not on what it was measured by.
        stay_s = stay_s_of(self.cluster, spec, 0.0) if key.predicted_s else entry.run_s
        self.take(entry.job, self.now_s + stay_s, placed)
        if len(roles) == 1 and not entry.shape.placement.exclusive:
            amount = NOTHING.plus(amount_of(placed[0].allocation), count)
        else:
            amount = amount_of_all([allocation for _, allocation in placed])
        if self.policy.share.hard_ratio > 0.0 or not (self.keys.is_fixed or self.keys.is_alone):
            self.shares.started(key.user, key.project, amount)
        self.quotas.take(key, amount)
        self.promising.started(entry, stay_s)
        if spec.labels:
            self.checks.started(spec.labels, [allocation.node for _, allocation in placed])
        whole = count == (roles[0].count if len(roles) == 1 else sum([r.count for r in roles]))
        self.plan.starts.append(
            Start(
                entry.job,
                tuple([allocation for _, allocation in placed]),
                head.array,
                () if whole else tuple(task for task, _ in placed),
                after,
                window_s,
                borrows,
                bool(self.scheduler.promises.kept),
            )
        )

    def _settle(self, turns: Turns, head: Head, outcome: Outcome) -> None:
        """File the outcome; on to the next job of the lane, or to the next lane."""
        lane = head.lane
        if isinstance(outcome, Started):
            if not turns.go_on(head):
                self._heads.started.add(lane.number)
                self.scheduler.waits.leave(lane.number)
            if self.policy.share.hard_ratio > 0.0:
                for barred in self._blocked.unbar(self.kept_back_by):
                    turns.add(barred)
            return
        promised = False
        if not isinstance(outcome, Capped | Barred | Behind):
            self._passing.is_closed = self._passing.is_strict
            before = self.promises.kept.get(head.entry.job)
            overdue = self.keys.waited_too_long(head.entry)
            promised = self.promising.make(head.entry, overdue=overdue)
            if promised and self._takes_over_there(head, before):
                self._settle(turns, head, Started(head.entry.job))
                return
        if self._blocked.add(lane, outcome):
            turns.note(head)
        if promised and self.promising.wants_more and not self.promising.only_overdue:
            head.full = True
            turns.go_on(head)
        else:
            turns.drop()

    def _takes_over_there(self, head: Head, before: Promise | None) -> bool:
        """A job that has a new promise: there others' promises do not keep it from victims."""
        takeovers, kept = self._takeovers, self.promises.kept
        if takeovers is None or len(kept) < 2 or kept[head.entry.job] is before:
            return False
        return takeovers.try_for(head, head.entry)

    def _is_known(self, shapes: set[int], opened: set[int], lane: Lane) -> bool:
        """Whether the answer for a lane, or for its whole shape, is known: they need no turn."""
        wait, is_open = self.misses.known_of(lane), lane.number in self.scheduler.waits.open
        takeovers, shape = self._takeovers, lane.key.shape
        if wait is None or (takeovers is not None and takeovers.may_help(shape, is_open=is_open)):
            return False
        if wait is NO_ROOM:
            shapes.discard(lane.key.shape)
        if self._blocked.pass_over(lane, wait):
            opened.discard(lane.number)
        return True

    def _start_promised(self, turns: Turns, limit: int) -> list[str]:
        """Start promised jobs that the pass did not come to; withdraw promises that are overdue,
        and name the nodes that they claimed.

        Other jobs may have come to stand before them and used up what there is to promise. Their
        claims keep all others out, so they must be asked, or the room would stay empty.
        """
        given_up: list[str] = []
        for promise in self.promising.unsettled():
            head = self._heads.head_of(promise.job)
            if head is None or len(self.plan.starts) >= limit:
                continue
            may_start = self.admit(head.lane.key, head.amount) is None
            if may_start and isinstance(self._place(head), Started):
                continue
            if self.promises.is_due(promise.job):
                given_up += self.promising.give_up(promise.job)
        return given_up

    def wake_at(self, at_s: float) -> None:
        """Time alone may help the lanes that wait for room."""
        if self.now_s < at_s < INFINITE:
            self.scheduler.waits.open_at(at_s)

    def _end(self, turns: Turns, limit: int) -> None:
        plan, scheduler, lanes = self.plan, self.scheduler, self.cluster.lanes
        waits, standing = scheduler.waits, scheduler.standing
        plan.more = self.promises.is_cut = len(plan.starts) >= limit
        if not plan.more:
            for lane in turns.remaining():
                self._blocked.add(lane, Behind())
            waits.open_shapes.clear()
        for lane in self._blocked.file(waits, self.now_s):
            standing.take(lane.number)
        standing.put(self._blocked.for_room())
        waits.is_cut = self._passing.is_over or self._passing.has_kept
        self.space.forget_unused(lanes.shapes)

    def _look_again(self, free: list[str]) -> None:
        """Open lanes that this pass itself may have helped after the look."""
        plan, waits = self.plan, self.scheduler.waits
        plan.more |= self.promising.outstayed and waits.has_claimed
        plan.more |= bool(free and self._unclaimed(free))
        plan.more |= bool(plan.starts) and waits.on_neighbours(self.cluster.lanes)
        # A start may have left the job in front without a place under a cap: it keeps none behind.
        plan.more |= bool(plan.starts) and self._passing.has_kept
        if plan.starts and self._takeovers is not None:
            self._takeovers.wait_until_ripe(waits.shapes)
            plan.more |= bool(plan.evictions) and self._offer_left(self._takeovers)

    def _offer_left(self, takeovers: Takeovers) -> bool:
        """Victims may leave more room than was taken, and for lanes that had their turn before.

        These are looked at, and promises are made anew, at once or, after many evictions, soon.
        """
        if len(self.plan.evictions) >= self.policy.preempt.max_per_pass:
            self.wake_at((self.now_s // POSTPONED_S + 1) * POSTPONED_S)
            return False
        jobs, waits, fits = self.cluster.jobs, self.scheduler.waits, self.promises.may_ever_fit
        gone = [one for victim in self.plan.evictions for one in jobs[victim.job].live_attempts]
        names = {attempt.allocation.node: None for attempt in gone}
        waits.wake(waits.for_room(lambda shape: takeovers.may_help(shape) and fits(shape, names)))
        return bool(waits.shapes or self.promises.kept)
