"""A Scheduler belongs to one Cluster and remembers what saves work between passes.

The free room by node, who leaves when, what each blocked lane waits for: all of it follows from
the Cluster, so a new Scheduler decides the same. Work follows what changed: only nodes that were
touched are taken in again, and only lanes that one of them may help are looked at. The Cluster
itself is only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill
from rota.scheduling import early
from rota.scheduling.api import PassResult
from rota.scheduling.evict.prospects import Prospects, asks_all
from rota.scheduling.guarded import Guard, no_guard
from rota.scheduling.later.departures import Leavers
from rota.scheduling.later.promises import Promises
from rota.scheduling.later.promising import MANY_PROMISES
from rota.scheduling.later.timeline import Timeline
from rota.scheduling.order.capacity import Capacity
from rota.scheduling.order.keys import MARGIN_S
from rota.scheduling.order.standing import Standing
from rota.scheduling.passes import Pass
from rota.scheduling.place.coming import Coming
from rota.scheduling.place.node_index import Space
from rota.scheduling.reading import NO_NEWS, LogReading
from rota.scheduling.rulebook import Rulebook
from rota.scheduling.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rota.core.cluster import Cluster
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Amount
    from rota.scheduling.api import Promise
    from rota.scheduling.reading import Changes
    from rota.scheduling.registry import Catalog
    from rota.scheduling.rules import Rules

#: More touched nodes than this, and all lanes that wait for room are looked at without asking.
MANY = 64
INFINITE = float("inf")


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
        self._rulebook = Rulebook(load, clock, guard)
        self._capacity = Capacity(cluster)
        self.waits = Waits()
        self.standing = Standing()
        #: A host that knows better than what waits or runs puts in its own.
        self.coming = Coming()
        #: Grows with each pass that looked at anything: a replay must make the same ones.
        self.looks = 0
        self._begin()

    def _begin(self) -> None:
        """Under this policy nothing is known yet."""
        cluster = self.cluster
        self._policy = policy = cluster.policy
        self._rulebook.read(policy)
        self._reading = LogReading(cluster)
        self.may_borrow = cluster.accounts.may_borrow()
        self.coming = self.coming.anew()
        self.prospects = Prospects()
        self.space = Space(policy, picky=bool(policy.filters))
        self.timeline = Timeline(self.space)
        self._departures = Leavers(cluster, self.timeline)
        self.promises = Promises(cluster, self.space, self.timeline)

    @property
    def total(self) -> Amount:
        """Everything that the nodes have."""
        return self._capacity.total

    @property
    def planned(self) -> Callable[[str, str], None]:
        """Tell that a pass gave room on a node to an attempt."""
        return self._reading.note

    def changed_nodes(self) -> set[str]:
        """The nodes that changed since the last pass."""
        return self._reading.unread()

    def another(self) -> Scheduler:
        """A new one for the same Cluster, which knows nothing yet but what was promised."""
        fresh = Scheduler(self.cluster, *self._rulebook.sources)
        fresh.coming = self.coming.anew()
        fresh.promises.take_over(self.promises)
        fresh.catch_up(self.timeline.now_s)
        if not (self.promises.may_be_earlier or self.changed_nodes()):
            fresh.promises.loosened = fresh.timeline.loosened
        return fresh

    def run(self, now_s: float, limit: int = 1000) -> PassResult:
        """Decide what starts. At most ``limit`` starts, so that one tick stays short."""
        if self.cluster.policy is not self._policy:
            self._begin()
        changes = self.catch_up(now_s)
        returns = early.surplus(self.cluster, changes.nodes) if changes.nodes else []
        self.waits.on_time(now_s)
        if self._policy.preempt.enabled:
            self.prospects.on_time(now_s)
            if asks_all(self.cluster, lends=self.may_borrow, told=bool(self._policy.victims)):
                self.waits.open_all()
        if not (
            self.waits.open
            or self.waits.open_shapes
            or self._promises_move(changes)
            or (self.cluster.census.elastic and (changes.everything or changes.nodes))
            or (self._policy.preempt.enabled and self.standing.next_step_s <= now_s)
            or self.prospects.pending
            or (changes.everything and self.space.engines.early)
        ):
            return PassResult(promises=self.promises.all(), returns=returns, wake_s=self.wake_s())
        self.looks += 1
        rules = self.rules()
        self.coming.tell(self.space, self.cluster)
        if rules.scorers:
            # What they say may change from pass to pass, and one that fails is left out.
            self.space.score_with(rules.plugged_score)
        if rules.watch.plugged:
            with self._rulebook.guard(rules.watch):
                plan = Pass(self, now_s, rules).run(limit)
        else:
            plan = Pass(self, now_s, rules).run(limit)
        if returns:
            plan.returns = [*{one.job: one for one in (*plan.returns, *returns)}.values()]
        plan.wake_s = self.wake_s(starts=bool(plan.starts))
        return plan

    def catch_up(self, now_s: float) -> Changes:
        """Take in what changed since the last pass, and open the lanes that it may concern."""
        self.timeline.now_s = now_s
        self._departures.follow_begun()
        for name, uid in self._departures.late(now_s):
            self._reading.note(name, uid)
        changes = self._reading.news()
        if changes is NO_NEWS:
            return changes
        for name, uids in changes.nodes.items():
            self.space.refresh(self.cluster, name)
            self._departures.follow(name, uids)
        if changes.nodes:
            self._capacity.follow(changes.nodes)
        waits, lanes = self.waits, self.cluster.lanes
        if changes.everything:
            self.may_borrow = self.cluster.accounts.may_borrow()
            waits.start_over(lanes)
            self.standing.start_over()
            self.prospects = Prospects()
            return changes
        for number in changes.lanes:
            self.standing.forget(number)
            if number in lanes.by_number:
                waits.open[number] = None
            else:
                waits.leave(number)
        if changes.counters:
            waits.on_counters(changes.counters)
        if changes.nodes:
            self._open_for_room(changes.nodes)
        return changes

    def _open_for_room(self, names: Collection[str]) -> None:
        """Open the lanes that these nodes may help: with free room, or with that of victims.

        What a pass knows of victims it counts anew by itself.
        """
        promises, many = self.promises, len(names) > MANY
        places = [
            n
            for n in self.space.engines.early.intersection(names)
            if early.left_on(self.cluster, n)
        ]

        def may_fit(shape: int) -> bool:
            return many or promises.may_fit(shape, names) or promises.may_ever_fit(shape, places)

        def may_take(shape: int) -> bool:
            return not self.prospects.is_vain(shape) and (
                many or promises.may_ever_fit(shape, names)
            )

        self.prospects.changed(names)
        particular = None if many else frozenset(names)
        preempts = self._policy.preempt.enabled
        self.waits.on_nodes(particular, may_fit, may_take if preempts else None)

    def _promises_move(self, changes: Changes) -> bool:
        """Whether a promise is due or lost, or may be better now, though no lane is open."""
        promises = self.promises
        if not promises.kept:
            return False
        if self.waits.has_claimed:
            # Where a promise goes elsewhere, the lanes that it kept out may start. Which job comes
            # first, and has the promise, may change with time alone.
            return True
        if any(map(promises.is_due, promises.kept)):
            return True
        if promises.drop_lost():
            return bool(self.standing.lines)
        rules = self._policy.backfill
        if rules.kind is not Backfill.CONSERVATIVE:
            return False
        # A job that came behind others of its lane is to have a promise, too.
        more = len(self.cluster.lanes.where) > promises.seen
        more = more and len(promises.kept) < (rules.depth or MANY_PROMISES)
        return more or promises.may_be_earlier

    def wake_s(self, *, starts: bool = False) -> float:
        """When time alone may change the answer; 0: never. ``starts``: jobs start just now."""
        wake_s = self.waits.next_s
        if self.promises.kept:
            wake_s = min(wake_s, self.promises.next_due_s())
            if self.waits.has_claimed:
                # The promise moves when an attempt outlives what it is taken to last.
                wake_s = min(wake_s, self._departures.next_s)
        if self._policy.preempt.enabled and (starts or self.cluster.live.where):
            # An older job may take room from jobs that were its equals, if any run.
            older_s = round(self.standing.next_step_s + MARGIN_S, 6)
            older_s = older_s if older_s > self.timeline.now_s else INFINITE
            wake_s = min(wake_s, self.prospects.next_s, older_s)
        return wake_s if wake_s < INFINITE else 0.0

    def promise_of(self, job_id: int) -> Promise | None:
        """When and where a waiting job is to start; None when it was promised nothing.

        What was promised on a node that is out of service is no start to expect.
        """
        job, promises = self.cluster.jobs.get(job_id), self.promises
        pledge = promises.pledge(job_id, job.spec.reservation) if job is not None else None
        found = pledge or promises.kept.get(job_id)
        return found if found is not None and promises.is_there(found) else None

    def rules(self) -> Rules:
        """What the policy names, for one pass."""
        return self._rulebook.rules(self._capacity.total, len(self.cluster.nodes))
