"""A Scheduler belongs to one Cluster and remembers what saves work between passes.

The free room by node, who leaves when, which lanes found no room: all of it follows from the
Cluster, so a new Scheduler decides the same. Work follows what changed: only nodes that were
touched are taken in again, and only lanes that one of them may help are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.resources import NOTHING, Amount
from rota.scheduling.api import Plan
from rota.scheduling.evict.victims import LostWork
from rota.scheduling.guarded import Guard, no_guard
from rota.scheduling.later.departures import Leavers
from rota.scheduling.later.promises import Promises
from rota.scheduling.later.timeline import Timeline
from rota.scheduling.order.account_queues import forget_keys
from rota.scheduling.order.fairshare import capacity
from rota.scheduling.order.first_blocked import Firsts
from rota.scheduling.order.key_memo import holds, may_borrow, steps_of
from rota.scheduling.order.orderings import ORDERINGS
from rota.scheduling.passes import Pass
from rota.scheduling.place.fragments import waiting_shapes
from rota.scheduling.place.node_index import Space
from rota.scheduling.registry import NO_PLUGINS, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.core.facts.node import NodeSpec
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Promise
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.registry import Catalog, Rules

#: More touched nodes than this, and every lane is looked at again without asking which.
MANY = 64
INFINITE = float("inf")
#: Lanes that hold a job that has waited too long are found at least this often.
CHECK_S = 300.0
#: Remembered keys that are worked out again with each pass.
RENEWED = 64
BUILT_IN = frozenset(ORDERINGS)
#: Those under which two waiting jobs do not change places as time goes by, or seldom.
STEADY = frozenset(
    {
        *("fifo", "priority", "fairshare", "multifactor", "sjf", "saf"),
        *("deadline", "laxity", "limit-bonus"),
    }
)


class Scheduler:
    """Passes over one Cluster, and what they need not find out again."""

    def __init__(
        self,
        cluster: Cluster,
        load: Callable[[Policy], Catalog] | None = None,
        clock: Callable[[], float] | None = None,
        guard: Guard = no_guard,
    ) -> None:
        """``load`` brings the rules of others; a clock and a guard hold them to their time."""
        self.cluster = cluster
        self._load = load
        self._plugged = NO_PLUGINS
        self._clock = clock
        self._guard = guard
        #: Promises are made even where they bind nobody; else when somebody asks for one.
        self.eager = True
        self._policy = cluster.policy
        self.promises = Promises(self)
        self.total: Amount = capacity(cluster)
        #: Lanes that found no room, and their shapes.
        self.full: dict[int, None] = {}
        #: Shapes that nothing but want of room kept out when last tried.
        self.no_room: set[int] = set()
        #: Lanes are few: a remembered key is checked when it is used.
        self.checks_keys = False
        #: Lanes whose remembered keys are worked out again soon.
        self._turn: list[int] = []
        self._firsts = Firsts(self)
        #: Nodes that changed since the last pass; None: anything may have.
        self.changed: dict[str, None] | None = None
        #: Lanes that a claim or (true) a neighbour keeps out: worth a look when those may move.
        self.hindered: dict[int, bool] = {}
        #: Nodes changed since a pass last asked whether such lanes are worth a look.
        self.stirred = False
        #: Who had a promise when such lanes were last looked at because of it.
        self.behind: list[int] = []
        #: Jobs (and arrays) that nobody may pass: when one of them goes, all others are looked at.
        self.ahead: dict[int, None] = {}
        #: Somebody is beyond his hard share: whoever ends, all are looked at again.
        self.barred = False
        self._amounts: dict[int, Amount] = {}
        self._specs: dict[str, NodeSpec] = {}
        self._rules_version = cluster.rules_version
        self._rules: Rules | None = None
        #: Lanes that hold somebody who has waited too long, and when to look again.
        self.overdue: set[int] = set()
        self._overdue_s = 0.0
        #: The shapes that usually come, where a host knows better; None: those that wait.
        self.expected: tuple[Typical, ...] | None = None
        self._typical: tuple[Typical, ...] = ()
        #: Grows with each pass that looked at anything: a replay must make the same ones.
        self.looks = 0
        #: When time alone may help somebody, and when the next promise is due.
        self.wake_s = self.due_s = INFINITE
        self._begin()

    def _begin(self) -> None:
        cluster = self.cluster
        self._policy = cluster.policy
        #: Somebody may hold more than his soft limit: keys depend on what is held.
        self.may_borrow = may_borrow(cluster)
        self.steps = steps_of(self._policy.order)
        self._rules = None
        self._plugged = self._load(self._policy) if self._load is not None else NO_PLUGINS
        picky = bool(self._policy.filters)
        self.space = Space(self._policy, picky=picky)
        self._typical = ()
        self.timeline = Timeline(self.space)
        self._leavers = Leavers(cluster, self.timeline)
        self.promises.forget()
        forget_keys(cluster.lanes)
        self._all_changed()
        for name in cluster.nodes:
            cluster.touch(name)

    def _all_changed(self) -> None:
        """Everything is worth another look."""
        self.changed = None
        self.barred = False
        self.full.clear()
        self.no_room.clear()
        self.hindered.clear()
        self.ahead.clear()
        self.cluster.lanes.reopen()

    def another(self) -> Scheduler:
        """A new one for the same Cluster, which knows nothing yet and decides the same."""
        fresh = Scheduler(self.cluster, self._load, self._clock, self._guard)
        fresh.expected = self.expected
        return fresh

    def run(self, now_s: float, limit: int = 1000) -> Plan:
        """Decide what starts. At most ``limit`` starts, so that one tick stays short."""
        if self.cluster.policy is not self._policy:
            self._begin()
        if self.cluster.rules_version != self._rules_version:
            self._rules_version = self.cluster.rules_version
            self.changed = None
            self.may_borrow = may_borrow(self.cluster)
            forget_keys(self.cluster.lanes)
        self.catch_up(now_s)
        self._awake(now_s)
        self._find_overdue(now_s)
        news = bool(self.cluster.lanes.fresh)
        news = news or (self.stirred and bool(self.hindered)) or self.promises.may_move
        if not news and not (self.cluster.elastic and self.changed != {}):
            return Plan(promises=self.promises.all())
        self.looks += 1
        rules = self.rules()
        few = len(self.cluster.lanes.by_number) <= RENEWED
        steady = {rules.primary.name, rules.secondary.name} <= STEADY
        self.checks_keys = steady and few and not self.may_borrow
        if steady:
            if not self.checks_keys:
                self._renew_keys(now_s)
        else:
            # Who is first may be another one by now.
            forget_keys(self.cluster.lanes)
            self.open_hindered()
        self._expect()
        if rules.scorers:
            # What they say may change from pass to pass, and one that fails is left out.
            self.space.extra = rules.plugged_score
            self.space.forget_wants()
        with self._guard(rules.watch):
            return Pass(self, now_s, rules).run(limit)

    def _expect(self) -> None:
        """Tell the strategy that minds fragments which shapes come, as far as that changed."""
        if self._policy.place.strategy != "fgd":
            return
        typical = self.expected if self.expected is not None else self._waiting_shapes()
        if typical != self._typical:
            self._typical = typical
            self.space.expect(typical)

    def _waiting_shapes(self) -> tuple[Typical, ...]:
        lanes = self.cluster.lanes
        weights = [
            (role.request, role.count * sum(map(len, lanes.by_shape[number].values())))
            for number, shape in lanes.shapes.items()
            if number in lanes.by_shape
            for role in shape.roles
        ]
        return waiting_shapes(weights)

    def _renew_keys(self, now_s: float) -> None:
        """Waiting changes keys slowly: those of some lanes are worked out again in turn."""
        lanes = self.cluster.lanes.by_number
        if not self._turn:
            self._turn = list(reversed(lanes))
        for _ in range(min(RENEWED, len(self._turn))):
            lane = lanes.get(self._turn.pop())
            if lane is not None and (self.may_borrow or not holds(lane, self.cluster, now_s)):
                lane.note = None

    def promise_of(self, job_id: int, now_s: float) -> Promise | None:
        """When and where a waiting job is to start; None when it was promised nothing."""
        promises = self.promises
        if promises.owed == job_id:
            lane = self.cluster.lanes.where.get(job_id)
            family = self.cluster.array_of(job_id)
            if lane is None and family is not None:
                lane = self.cluster.lanes.where.get(family.id)
            if lane is not None:
                self.timeline.now_s = now_s
                this = Pass(self, now_s, self.rules())
                promises.begin(this)
                head = this.head(lane)
                if this.open(head) and head.entry is not None:
                    promises.make(head, head.entry)
        return promises.kept.get(job_id)

    def rules(self) -> Rules:
        """What the policy names. Built-in rules remember nothing and are kept."""
        if self._rules is not None and not self._plugged_in:
            return self._rules
        self._rules = self._resolve()
        return self._rules

    @property
    def _plugged_in(self) -> bool:
        policy = self._policy
        names = {policy.order.primary, policy.order.secondary}
        return bool(policy.filters or policy.scorers or policy.victims) or not names <= BUILT_IN

    def _resolve(self) -> Rules:
        return resolve(
            self._policy,
            self._plugged,
            victims=LostWork(self.total),
            clock=self._clock,
            strict=False,
        )

    def catch_up(self, now_s: float) -> None:
        """Take in what changed since the last pass, and open the lanes that it may concern."""
        cluster, space = self.cluster, self.space
        self.timeline.now_s = now_s
        self._leavers.prolong(now_s)
        touched, cluster.touched = cluster.touched, {}
        if not touched:
            return
        for name, uids in touched.items():
            space.refresh(cluster, name)
            self._leavers.follow(name, uids)
        self._count(touched)
        if len(touched) > MANY or self.changed is None or self.barred:
            self._all_changed()
            return
        self.changed.update(dict.fromkeys(touched))
        for shape in [*cluster.lanes.by_shape]:
            if self._may_help(shape, touched):
                cluster.lanes.open_shape(shape)
        self.stirred = True
        self._open([number for number, beside in self.hindered.items() if beside])

    def open_hindered(self) -> None:
        """Whom a claim or a neighbour kept out is worth another look."""
        self._open(self.hindered)
        self.hindered.clear()
        self.promises.withdrawn = False

    def _open(self, numbers: Iterable[int]) -> None:
        """These lanes are worth another look."""
        lanes = self.cluster.lanes
        for number in numbers:
            lane = lanes.by_number.get(number)
            if lane is not None:
                lanes.fresh[number] = lane

    def _awake(self, now_s: float) -> None:
        """Time alone may have changed answers, as passes said that it would; so may who left."""
        if self.wake_s <= now_s:
            self.wake_s = INFINITE
            self._all_changed()
        elif not self.ahead.keys() <= self.cluster.lanes.where.keys():
            self._all_changed()
        if self.due_s <= now_s or self.promises.has_lost():
            self.due_s = INFINITE
            self._open(self.promises.lanes_due(now_s))
            self.open_hindered()

    def _find_overdue(self, now_s: float) -> None:
        """Once in a while: which lanes hold somebody who has waited too long."""
        most_s = self._policy.order.wait_max_s
        if not most_s or now_s < self._overdue_s:
            return
        # At fixed moments, so that it does not matter when passes were made that found nobody.
        period_s = min(max(most_s / 16, 1.0), CHECK_S)
        self._overdue_s = (now_s // period_s + 1) * period_s
        self.looks += bool(self.cluster.lanes.by_number)
        cluster = self.cluster
        self.overdue = {
            lane.number
            for lane in cluster.lanes.by_number.values()
            if (first := lane.first) and now_s - _eligible_s(cluster, first) > most_s
        }
        for number in self.overdue:
            cluster.lanes.by_number[number].note = None
        self._open(self.overdue)

    def _count(self, touched: Iterable[str]) -> None:
        """Add up what there is, when a node came, went or is another one now."""
        nodes, specs = self.cluster.nodes, self._specs
        changed = False
        for name in touched:
            node = nodes.get(name)
            if (node.spec if node is not None else None) is not specs.get(name):
                changed = True
                if node is None:
                    del specs[name]
                else:
                    specs[name] = node.spec
        if changed:
            self.total = capacity(self.cluster)

    def _may_help(self, number: int, names: Iterable[str]) -> bool:
        """Whether one of these nodes now takes a task of this shape."""
        space, shape = self.space, self.cluster.lanes.shapes[number]
        return any(
            space.may_fit(want, name) for want in space.wants(number, shape) for name in names
        )

    def amount(self, number: int) -> Amount:
        """What a job of a shape holds when it starts; an elastic one with its fewest tasks."""
        known = self._amounts.get(number)
        if known is None:
            known = NOTHING
            for role in self.cluster.lanes.shapes[number].roles:
                request = role.request
                each = Amount(
                    request.cpu_milli,
                    request.memory_mib,
                    request.disk_mib,
                    request.device_use_milli,
                )
                known = known.plus(each, role.min_count or role.count)
            self._amounts[number] = known
        return known

    def first_of_full(self, this: Pass, count: int) -> list[Lane]:
        """Those lanes that wait for room and come first in the order of the policy."""
        return self._firsts.find(this, count)


def _eligible_s(cluster: Cluster, item: int) -> float:
    """Since when a job or array waits for nothing but room."""
    job = cluster.jobs.get(item)
    return job.eligible_s if job is not None else cluster.arrays[item].eligible_s
