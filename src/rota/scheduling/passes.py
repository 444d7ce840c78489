"""The pass: which waiting jobs start now, where, and who has to give way or wait for what.

It takes lanes in the order of the policy. The first job of each goes through four steps: *admit*
(caps, quotas, shares), *place* (room now), *take over* (room of others) and *promise* (room
later). The outcome is a start, or what the lane waits for. Two steps follow for all: promised jobs
that the pass did not come to are started if they can be, and elastic gangs grow.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rota.core.derived.holdings import amount_of, amount_of_all, least_of
from rota.core.facts.errors import Stumbled
from rota.core.facts.resources import NOTHING
from rota.scheduling.api import PassResult, Start, View
from rota.scheduling.blocked import Blocked
from rota.scheduling.early import Early
from rota.scheduling.evict.preempting import POSTPONED_S, Takeovers
from rota.scheduling.growth import grow, within_quota
from rota.scheduling.later.promising import Promising
from rota.scheduling.later.timeline import LeavingAttempt, planned_uid
from rota.scheduling.limits.quota import Quotas
from rota.scheduling.misses import Misses
from rota.scheduling.order.fairshare import FairShare
from rota.scheduling.order.heads import Heads
from rota.scheduling.order.keys import ByLength, Key, Keys
from rota.scheduling.order.lengths import stay_s_of
from rota.scheduling.order.turns import Turns
from rota.scheduling.outcomes import NO_ROOM, Barred, Behind, Capped, ClaimedRoom, Started, Vetoed
from rota.scheduling.passing import Passing
from rota.scheduling.place.gang import Asker, place
from rota.scheduling.place.node_checks import NodeChecks

if TYPE_CHECKING:
    from rota.core.derived.lanes import Lane, LaneKey
    from rota.core.facts.loans import Loan
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
        self.cluster = cluster = scheduler.cluster
        policy, promises, total = cluster.policy, scheduler.promises, scheduler.total
        self.shares = FairShare(cluster, now_s, total)
        self.view = View(now_s, policy, self.shares, total)
        self.quotas = Quotas(cluster, now_s, scheduler.space.prices(cluster))
        self.checks = NodeChecks(cluster, scheduler.space, rules, self.quotas)
        self.keys = Keys(cluster, rules, self.view, self.quotas if scheduler.may_borrow else None)
        self.promising = Promising(promises, self.checks, policy)
        self.misses = Misses(cluster, scheduler.waits, promises, self.checks)
        self._heads = Heads(cluster, scheduler.standing, self.keys)
        has_early = bool(scheduler.space.engines.early)
        self._early = Early(cluster, scheduler.space, self.checks, promises) if has_early else None
        self.plan = PassResult(returns=self._early.review(self.quotas) if self._early else [])
        self._blocked = Blocked()
        self._takeovers = Takeovers(self, scheduler.prospects) if policy.preempt.enabled else None
        asks_all = self._takeovers is not None and self._takeovers.asks_all
        self._passing = Passing(policy, asks_all=asks_all)

    @property
    def now_s(self) -> float:
        return self.view.now_s

    @property
    def space(self) -> Space:
        return self.scheduler.space

    @property
    def promises(self) -> Promises:
        return self.scheduler.promises

    def run(self, limit: int) -> PassResult:
        turns, starts, compared = self._begin(), self.plan.starts, False
        passing, promising = self._passing, self.promising
        takeovers, key = self._takeovers, Key()
        overdue = promising.only_overdue and not passing.is_bounded
        while len(starts) < limit and not passing.is_over:
            blocked = passing.is_bounded or promising.wants_more
            opens = overdue or not blocked or turns.is_resorted
            if opens and takeovers is not None and takeovers.freed:
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
        promised = self.scheduler.promises.kept or self.cluster.reservations
        given_up = self._start_promised(limit) if promised else []
        if self.cluster.policy.gang.grow and self.cluster.census.elastic and len(starts) < limit:
            grow(self)
        self._end(turns, limit)
        self._look_again([*given_up, *self.promising.let_go()])
        # They know each other: only the collector could free the two.
        self._takeovers = None
        promises = self.scheduler.promises
        self.plan.promises, self.plan.dropped = promises.all(), [*self.keys.watch.dropped]
        promises.seen = len(self.cluster.lanes.where) - len(starts)
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
        if self.cluster.policy.backfill.shortest and self.promising.made:
            turns.sort_by(ByLength(self.cluster, self.keys.rules, self.view, None))

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
        if isinstance(outcome, Started):
            return outcome
        if takeovers is not None:
            if takeovers.try_for(head, head.entry):
                return Started(head.entry.job)
            if takeovers.is_kept_off:
                self.scheduler.waits.kept_off.add(head.lane.key.shape)
        if self._early and (placed := self._early.place(head.entry)) is not None:
            self.record(head, head.entry, placed)
            outcome = Started(head.entry.job)
        return outcome

    def admit(self, key: LaneKey, amount: Amount) -> Capped | Barred | None:
        """Whether the jobs of a lane may not start, whatever room there is."""
        queue = self.cluster.queues.get(key.queue)
        if queue is not None and not queue.starts_jobs:
            return Capped()
        short = self.quotas.short(key, amount)
        if short is not None:
            return Capped(short.counters, short.again_s)
        if self.shares.is_barring and self.kept_back_by(key) is not None:
            return Barred()
        return None

    def kept_back_by(self, key: LaneKey) -> Lane | None:
        """A lane within the hard limit on shares that one beyond it has to wait for."""
        return self.shares.kept_back_by(key.user, key.project, self._lacks_room_only)

    def _lacks_room_only(self, lane: Lane) -> bool:
        queue = self.cluster.queues.get(lane.key.queue)
        if lane.number in self._heads.started or (queue is not None and not queue.starts_jobs):
            return False
        amount = least_of(self.cluster.lanes.shapes[lane.key.shape])
        return self.quotas.short(lane.key, amount) is None

    def _place(self, head: Head) -> Started | RoomWait:
        """Room for all tasks of the job now, beside everything that is claimed."""
        entry, promises = head.entry, self.scheduler.promises
        if head.full and entry.job not in promises.kept:
            # Behind a job of its lane that does not fit only a promise gives room.
            return NO_ROOM
        if not isinstance(placed := self.find_room(entry), list):
            return placed
        window_s = promises.window_end_s(entry, placed) if promises.timeline.claims else 0.0
        self.record(head, entry, placed, window_s=window_s)
        return Started(entry.job)

    def find_room(self, entry: Entry) -> list[Placed] | RoomWait:
        """Room for a job, taken; or what it waits for."""
        promises, space = self.scheduler.promises, self.scheduler.space
        if (known := self.misses.known(entry, until_s := promises.until_s(entry))) is not None:
            return known
        if not self.cluster.policy.backfill.spare and promises.outlasts(entry.job, entry.run_s):
            return ClaimedRoom()
        asker = Asker(space, self.checks, promises, entry, until_s)
        if (placed := place(asker)) is None:
            if asker.short is None:
                return self.misses.note(entry, until_s)
            # Another account may have the nodes that are too large for this one.
            self.wake_at(asker.short.again_s)
            return Vetoed()
        return within_quota(self.quotas, space, entry, placed)

    def asker(self, entry: Entry) -> Asker:
        return Asker(self.space, self.checks, self.promises, entry, self.promises.until_s(entry))

    def take(self, job: int, end_s: float, placed: list[Placed]) -> None:
        """Attempts of a job that do not exist yet have this room until then."""
        add, planned = self.scheduler.timeline.add, self.scheduler.planned
        for task, allocation in placed:
            uid = planned_uid(job, task)
            add(LeavingAttempt(end_s, allocation.node, uid, allocation))
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
        cluster, promises = self.cluster, self.scheduler.promises
        item = cluster.arrays[head.array] if head.array else cluster.jobs[entry.job]
        # Promises rest on how long it may hold its room, not on what it was measured by.
        stay_s = stay_s_of(cluster, item.spec, 0.0) if key.predicted_s else entry.run_s
        self.take(entry.job, self.view.now_s + stay_s, placed)
        if len(roles) == 1 and not entry.shape.placement.exclusive:
            amount = amount_of(placed[0].allocation)
            amount = amount if count == 1 else NOTHING.plus(amount, count)
        else:
            amount = amount_of_all([allocation for _, allocation in placed])
        if self.shares.is_barring or not (self.keys.is_fixed or self.keys.is_alone):
            self.shares.started(key.user, key.project, amount)
        self.quotas.take(key, amount)
        self.promising.started(entry, stay_s)
        if item.spec.labels:
            self.checks.started(item.spec.labels, [allocation.node for _, allocation in placed])
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
                bool(promises.kept),
            )
        )

    def _settle(self, turns: Turns, head: Head, outcome: Outcome) -> None:
        """File the outcome; on to the next job of the lane, or to the next lane."""
        lane = head.lane
        if isinstance(outcome, Started):
            if not turns.go_on(head):
                self._heads.started.add(lane.number)
                self.scheduler.waits.leave(lane.number)
            if self.shares.is_barring:
                for barred in self._blocked.unbar(self.kept_back_by):
                    turns.add(barred)
            return
        promised = False
        if not isinstance(outcome, Capped | Barred | Behind):
            self._passing.is_over |= self._passing.is_strict
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
        if wait is None or (self._early and self._early.may_help(shape)):
            return False
        if takeovers and takeovers.may_help(shape, is_open=is_open):
            return False
        if wait is NO_ROOM:
            shapes.discard(shape)
        if self._blocked.pass_over(lane, wait):
            opened.discard(lane.number)
        return True

    def _start_promised(self, limit: int) -> list[str]:
        """Start promised jobs that the pass did not come to; the nodes of those given up as late.

        Others may have come before them and used up what there is to promise. Their claims keep
        all others out: if they were not asked, the room would stay empty.
        """
        late: list[int] = []
        for job in [promise.job for promise in self.promising.unsettled()]:
            head = self._heads.head_of(job)
            if head is None or len(self.plan.starts) >= limit:
                continue
            may_start = self.admit(head.lane.key, head.amount) is None
            starts = may_start and isinstance(self._place(head), Started)
            if not starts and self.promises.is_due(job):
                late.append(job)
        # Their room is for the first in line, not for the promises behind them in this list.
        return [name for job in late for name in self.promising.give_up(job)]

    def wake_at(self, at_s: float) -> None:
        """Time alone may help the lanes that wait for room."""
        if self.now_s < at_s < INFINITE:
            self.scheduler.waits.open_at(at_s)

    def _end(self, turns: Turns, limit: int) -> None:
        plan, scheduler, waits = self.plan, self.scheduler, self.scheduler.waits
        plan.more = scheduler.promises.is_cut = len(plan.starts) >= limit
        if not plan.more:
            for lane in turns.remaining():
                self._blocked.add(lane, Behind())
            waits.open_shapes.clear()
        in_line, others = self._blocked.file(waits, self.view.now_s)
        for lane in others:
            scheduler.standing.take(lane.number)
        scheduler.standing.put(in_line)
        waits.is_cut = self._passing.is_over or self._passing.has_kept
        scheduler.space.forget_unused(self.cluster.lanes.shapes)

    def _look_again(self, free: list[str]) -> None:
        """Open lanes that this pass itself may have helped after the look."""
        plan, waits = self.plan, self.scheduler.waits
        plan.more |= self.promising.outstayed and waits.has_claimed
        plan.more |= bool(free and self._unclaimed(free))
        if not plan.starts:
            return
        # A start may have left the job in front without a place under a cap: it keeps none behind.
        plan.more |= waits.on_neighbours(self.cluster.lanes) or self._passing.has_kept
        if self._takeovers is not None:
            self._takeovers.wait_until_ripe(waits.shapes)
            plan.more |= bool(plan.evictions) and self._offer_left(self._takeovers)

    def _offer_left(self, takeovers: Takeovers) -> bool:
        """What victims leave over is offered to lanes that had their turn: now, or soon if much."""
        if len(self.plan.evictions) >= self.cluster.policy.preempt.max_per_pass:
            self.wake_at((self.now_s // POSTPONED_S + 1) * POSTPONED_S)
            return False
        jobs, waits, fits = self.cluster.jobs, self.scheduler.waits, self.promises.may_ever_fit
        gone = [one for victim in self.plan.evictions for one in jobs[victim.job].live_attempts]
        names = {attempt.allocation.node: None for attempt in gone}
        waits.wake(waits.for_room(lambda shape: takeovers.may_help(shape) and fits(shape, names)))
        return bool(waits.shapes or self.promises.kept)
