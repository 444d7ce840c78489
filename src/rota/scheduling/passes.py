"""The pass: which waiting jobs start now, where, and who has to give way or wait for what.

It takes the lanes that may have a new answer in the order of the policy, starts what fits, and
gives those that do not fit a promise or a way in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.holdings import amount_of
from rota.core.facts.policy import Backfill
from rota.core.facts.resources import NOTHING
from rota.scheduling.api import Plan, Start, View
from rota.scheduling.evict.preempting import Takeovers
from rota.scheduling.known_misses import Refusals
from rota.scheduling.later.start_promised import redeem
from rota.scheduling.later.timeline import Asking, Leaving, planned_uid
from rota.scheduling.limits.quota import Quotas
from rota.scheduling.order.account_queues import NO_SHARES, Lines, key_of
from rota.scheduling.order.fairshare import FairShare
from rota.scheduling.order.heads import Head
from rota.scheduling.order.key_memo import holds, note_key
from rota.scheduling.order.orderings import UNSHARED
from rota.scheduling.place.gang import Asker, Placed, place
from rota.scheduling.place.growth import grow, within_quota
from rota.scheduling.place.node_checks import Near
from rota.scheduling.recheck import look_again, look_behind
from rota.scheduling.successors import line_up

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter, Lane, LaneKey
    from rota.core.facts.loans import Loan
    from rota.scheduling.api import Entry
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.registry import Rules
    from rota.scheduling.scheduler import Scheduler

#: Heaps of shapes that nobody waits for any more are dropped when there are this many.
WANTS_MAX = 4096
#: So many lanes that are gone are carried along before they are cleared away.
SLACK = 16


class Pass:
    """One pass: from lanes in order to decisions."""

    def __init__(self, scheduler: Scheduler, now_s: float, rules: Rules) -> None:
        self.scheduler = scheduler
        self.cluster = scheduler.cluster
        self.policy = scheduler.cluster.policy
        self.now_s = now_s
        self.rules = rules
        self.space = scheduler.space
        self.timeline = scheduler.timeline
        #: Keys stay as they are while jobs start: no rule of this policy asks for shares, and
        #: nobody may borrow.
        self.is_fixed = (
            rules.primary in UNSHARED
            and rules.secondary in UNSHARED
            and self.policy.share.soft_ratio <= 0.0
            and not scheduler.may_borrow
        )
        self.shares = FairShare(self.cluster, now_s, scheduler.total)
        self.view = View(now_s, self.policy, self.shares, scheduler.total)
        self.quotas = Quotas(self.cluster, now_s)
        self.near = Near(self.cluster, self.space, rules)
        self.promises = scheduler.promises
        self.takeovers = Takeovers(self)
        self.plan = Plan(starts=[], evictions=[], promises=[], dropped=[])
        self.refusals = Refusals(self)
        self._strict = self.policy.order.strict
        self._is_lenient = self.policy.share.hard_ratio <= 0.0
        self._closed = False
        #: Candidates are still to be put in the order of their length.
        self._shortest = self.policy.backfill.shortest
        #: Somebody waits for a neighbour.
        self._lonely = False
        #: Those that claims keep out were left out, as all claims stood.
        self.left_out = False
        self._watched = 0
        #: Lanes that wait for room, and for a place under a cap.
        self._full: dict[int, None] = {}
        self._capped: dict[int, None] = {}

    def run(self, limit: int) -> Plan:
        promised = [*self.promises.kept]
        self.promises.begin(self)
        self._lines = lines = self._line_up(promised)
        starts = self.plan.starts
        while len(starts) < limit and not self._is_over():
            head = lines.first()
            if head is None:
                break
            if self._deal_with(head) and self.open(head):
                lines.replace()
            else:
                lines.drop()
                if self._shortest and self.promises.made and not self.promises.wants_more:
                    self._shortest = False
                    lines.ask_shortest_first()
        redeem(self, limit)
        if self.policy.gang.grow and self.cluster.elastic and len(starts) < limit:
            grow(self)
        if self.scheduler.lines_up:
            line_up(self, limit)
        self._end(limit)
        look_behind(self, promised)
        # These know the pass: let go of them, or only the garbage collector could free it all.
        del self._lines, self.takeovers, self.refusals
        return self.plan

    def _line_up(self, promised: list[int]) -> Lines:
        """All lanes that may have a new answer, and those with the next promises."""
        scheduler, fresh = self.scheduler, self.cluster.lanes.fresh
        look_again(self, promised)
        for known in (scheduler.full, scheduler.hindered):
            for number in known.keys() & fresh.keys():
                del known[number]
        # Whoever waits for room and comes first keeps his promise, though nothing new helps him.
        full: list[Lane] = []
        if (self.promises.depth or self._strict) and scheduler.full:
            # In a strict order he also keeps everybody else from passing him.
            count = max(self.promises.depth, 1) + len(self.promises.hopeless)
            full = scheduler.first_of_full(self, count)
        self.refusals.begin(fresh.values())
        return Lines(self, fresh.values(), full)

    def head(self, lane: Lane) -> Head:
        return Head(self.cluster, lane, self.scheduler.amount(lane.key.shape))

    def open(self, head: Head) -> bool:
        """On to the (next) job of a lane; False when there is none."""
        return head.advance(self.cluster, self.policy.backfill) is not None

    def noted(self, lane: Lane) -> tuple[float, ...] | None:
        """The remembered key of a lane, if it may be used."""
        if self.scheduler.checks_keys and not holds(lane, self.cluster, self.now_s):
            return None
        return lane.note

    def own_key(self, lane: Lane) -> tuple[float, ...] | None:
        """What a lane's place depends on beside fair share; None when it has no job left."""
        if (noted := self.noted(lane)) is not None:
            return noted
        head = self.head(lane)
        if not self.open(head):
            return None
        own = View(self.now_s, self.policy, NO_SHARES, self.view.total)
        assert head.entry is not None
        note_key(lane, key_of(self, head, own), head.entry, self.scheduler.steps, self.now_s)
        return lane.note

    def rank_of(self, name: str) -> int:
        """The priority of a queue among queues."""
        queue = self.cluster.queues.get(name)
        return queue.priority if queue is not None else 0

    def waited_too_long(self, entry: Entry) -> bool:
        """Whether a job has waited so long that it comes before all others."""
        most_s = self.policy.order.wait_max_s
        return bool(most_s and entry.eligible_s and self.now_s - entry.eligible_s > most_s)

    def _is_over(self) -> bool:
        """Nothing passes the first that waits, or enough of those behind it were looked at."""
        ahead = self.policy.backfill.look_ahead
        return self._closed or bool(ahead and self._watched >= ahead) or self.refusals.is_hopeless()

    def _deal_with(self, head: Head) -> bool:
        """Start the head's job, or find out why not; whether the lane goes on."""
        entry = head.entry
        assert entry is not None
        if self.promises.made:
            self._watched += 1
        if self.is_capped(head.lane):
            return False
        # Behind one that does not fit only somebody can who has room promised to himself.
        waits = head.full and entry.job not in self.promises.kept
        placed = None if waits else self.find_room(entry)
        if placed is not None:
            self.start(head, entry, placed)
            return True
        if self.takeovers.try_for(head, entry):
            return True
        return self._no_room(head, entry)

    def is_capped(self, lane: Lane) -> bool:
        """Whether the jobs of a lane may not start, whatever room there is: it waits for that."""
        waits_for = self.forbidden(lane.key)
        if waits_for is None:
            return False
        self.cluster.lanes.block(lane, waits_for)
        self.scheduler.full.pop(lane.number, None)
        self._capped[lane.number] = None
        return True

    def forbidden(self, key: LaneKey) -> tuple[Counter, ...] | None:
        """What must be given back before such a job may start."""
        queue = self.cluster.queues.get(key.queue)
        if queue is not None and not queue.starts_jobs:
            return ()
        if not self._is_lenient and self.shares.barred(key.user, key.project):
            self.scheduler.barred = True
            return ()
        short = self.quotas.short(key, self.scheduler.amount(key.shape))
        if short is None:
            return None
        if short.again_s:
            self.wake_at(short.again_s)
        return short.counters

    def asking(self, entry: Entry) -> Asking:
        key = entry.key
        return Asking(entry.job, key.user, key.project, entry.shape, entry.run_s)

    def until_s(self, entry: Entry) -> float:
        """When the job will be gone. Against reservations only a limit counts."""
        if not self.promises.reserved:
            return self.now_s + entry.run_s
        limit_s = entry.key.time_limit_s
        return self.now_s + limit_s if limit_s else float("inf")

    def find_room(self, entry: Entry) -> list[Placed] | None:
        until_s = self.until_s(entry)
        if self.refusals.knows(entry, until_s):
            return None
        if not self.policy.backfill.spare and self.promises.outlasts(entry):
            return None
        placed = place(Asker(self, entry, until_s))
        if placed is None:
            self.refusals.note(entry, until_s)
            return None
        self.scheduler.no_room.discard(entry.key.shape)
        return within_quota(self, entry, placed)

    def window(self, name: str, entry: Entry) -> Room:
        """What is free on a node as long as the job may stay there."""
        return self.promises.window(name, self.asking(entry), entry)

    def start(self, head: Head, entry: Entry, placed: list[Placed]) -> None:
        window_s = self.promises.window_end_s(entry, placed)
        self.record(head, entry, placed, window_s=window_s)
        self.promises.fulfilled(entry.job)

    def record(
        self,
        head: Head,
        entry: Entry,
        placed: list[Placed],
        *,
        after: tuple[str, ...] = (),
        ahead: bool = False,
        window_s: float = 0.0,
        borrows: tuple[tuple[Loan, ...], ...] = (),
    ) -> None:
        """A job starts: everything that later jobs of this pass must know of it."""
        key = entry.key
        end_s = self.now_s + entry.run_s
        roles, count = entry.shape.roles, len(placed)
        touch, add = self.cluster.touch, self.timeline.add
        for task, allocation in placed:
            uid = planned_uid(entry.job, task)
            add(Leaving(end_s, uid, allocation.node, allocation))
            # What the events of this pass change is taken in by the next one.
            touch(allocation.node, uid)
        if len(roles) == 1:
            # All tasks hold the same.
            amount = NOTHING.plus(amount_of(placed[0].allocation), count)
        else:
            amount = NOTHING
            for _, allocation in placed:
                amount = amount.plus(amount_of(allocation))
        if not self._lines.alone and not (self.is_fixed and self._is_lenient):
            self.shares.started(key.user, key.project, amount)
        self.quotas.take(key, amount)
        self.refusals.is_known = False
        self.near.started(entry, head.array, placed)
        whole = count == (roles[0].count if len(roles) == 1 else sum([r.count for r in roles]))
        self.plan.starts.append(
            Start(
                entry.job,
                tuple([allocation for _, allocation in placed]),
                head.array,
                () if whole else tuple(task for task, _ in placed),
                after,
                ahead,
                window_s,
                borrows,
            )
        )

    def _no_room(self, head: Head, entry: Entry) -> bool:
        """The lane waits for room; its first jobs may get a promise. Whether to go on with it."""
        self._closed = self._strict
        if self._strict or self.policy.backfill.look_ahead:
            self.scheduler.ahead[head.array or entry.job] = None
        self.refusals.is_known = False
        self._note_full(head)
        if self._lines.is_last and self.promises.can_wait:
            self.promises.owe(entry.job)
            return False
        if self.promises.make(head, entry):
            head.full = True
            if self.policy.backfill.kind is not Backfill.NONE and self.promises.wants_more:
                return True
        if not self.promises.wants_more and not self.policy.preempt.enabled:
            self.refusals.give_up(entry)
        return False

    def _note_full(self, head: Head) -> None:
        lane = head.lane
        self._full[lane.number] = None
        if self.refusals.hindered(lane.key.shape, head.shape):
            self.scheduler.hindered[lane.number] = self.near.hinders(head.shape)
        self._lonely = self._lonely or head.shape.placement.needs_neighbours

    def wake_at(self, at_s: float, *, promised: bool = False) -> None:
        """Time alone may change the answer: of everybody, or when a promise is due."""
        if at_s <= self.now_s:
            return
        self.plan.wake_s = min(self.plan.wake_s or at_s, at_s)
        scheduler = self.scheduler
        if promised:
            scheduler.due_s = min(scheduler.due_s, at_s)
        else:
            scheduler.wake_s = min(scheduler.wake_s, at_s)

    def _end(self, limit: int) -> None:
        plan, scheduler, lanes = self.plan, self.scheduler, self.cluster.lanes
        plan.more = len(plan.starts) >= limit
        blocked = [lanes.by_number[number] for number in self._capped]
        self.refusals.forget_untried(blocked if plan.more else (*blocked, *lanes.fresh.values()))
        if not plan.more:
            # Whoever was passed over waits for room as well.
            capped = self._capped
            self._full.update({n: None for n in lanes.fresh if n not in capped})
            scheduler.hindered.update(self.refusals.hindered_among(lanes.fresh.values()))
            lanes.fresh.clear()
            scheduler.changed = {}
        else:
            for number in self._full:
                lanes.fresh.pop(number, None)
        if self.policy.preempt.enabled and plan.starts and self._full:
            # Who started just now was no victim yet for those who wait.
            self.wake_at(self.now_s + max(self.policy.preempt.min_runtime_s, 1))
        # The neighbour that a job waits for may have started after the job was looked at.
        lonely = self._lonely or any(scheduler.hindered.values())
        plan.more = plan.more or bool(plan.starts and lonely)
        scheduler.full.update(self._full)
        if len(scheduler.full) > 2 * len(lanes.by_number) + SLACK:
            # Lanes close without a word: those that are gone would add up for ever.
            scheduler.full = {n: None for n in scheduler.full if n in lanes.by_number}
        if self.space.want_count > WANTS_MAX:
            self.space.forget_wants()
        plan.promises = self.promises.all()
        self.promises.seen = len(lanes.where) - len(plan.starts)
        plan.dropped = list(self.rules.dropped)
