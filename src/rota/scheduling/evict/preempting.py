"""Preemption as a pass does it: who may look for victims, where, and what follows from it."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rota.core.derived.holdings import least_of
from rota.scheduling.api import NamesVictim
from rota.scheduling.evict.lending import Lenders, suspends
from rota.scheduling.evict.prospects import Emptied, asks_all, state_of
from rota.scheduling.evict.search import Preemption
from rota.scheduling.evict.worth import Worth
from rota.scheduling.later.promises import asking_of
from rota.scheduling.limits.quota import GivenBack
from rota.scheduling.place.gang import Placed

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import LaneKey, Shape
    from rota.core.facts.loans import Loan
    from rota.core.facts.node import Allocation
    from rota.core.facts.policy import PreemptRules
    from rota.scheduling.api import Entry, PassResult, View
    from rota.scheduling.evict.claimant import Claimant
    from rota.scheduling.evict.prospects import Prospect, Prospects
    from rota.scheduling.evict.search import Takeover
    from rota.scheduling.later.promises import Promises
    from rota.scheduling.later.promising import Promising
    from rota.scheduling.limits.quota import Quotas
    from rota.scheduling.order.heads import Head
    from rota.scheduling.order.keys import Keys
    from rota.scheduling.place.node_checks import NodeChecks
    from rota.scheduling.place.node_index import Space

#: When a pass has evicted as many jobs as it may, the next claimants are looked at a little later,
#: at a full step of the clock: the moment must not depend on which pass looked.
POSTPONED_S = 5.0
INFINITE = float("inf")


class EvictingPass(Protocol):
    """What preemption needs of the pass that it is part of."""

    cluster: Cluster
    view: View
    quotas: Quotas
    checks: NodeChecks
    keys: Keys
    promising: Promising
    plan: PassResult

    @property
    def now_s(self) -> float: ...

    @property
    def space(self) -> Space: ...

    @property
    def promises(self) -> Promises: ...

    def wake_at(self, at_s: float) -> None: ...

    def record(
        self,
        head: Head,
        entry: Entry,
        placed: list[Placed],
        *,
        after: tuple[str, ...],
        borrows: tuple[tuple[Loan, ...], ...],
    ) -> None: ...


class Miss(NamedTuple):
    """A search that found no victims, and all that its answer depends on beside the shape."""

    claimant: Claimant
    #: Tells what could be reclaimed then; -1: nothing, by right.
    moves: int
    names: list[str]
    barred: frozenset[str]
    #: How many takeovers this pass had decided: each leaves room that others may wait for.
    takeovers: int

    def covers(self, other: Miss) -> bool:
        """Whether a claimant that may do no more than this one would search in vain, too."""
        mine, theirs = self.claimant, other.claimant
        return (
            mine.priority >= theirs.priority
            and (mine.only, mine.borrows) == (theirs.only, theirs.borrows)
            and (self.moves, self.takeovers) == (other.moves, other.takeovers)
            and self.barred <= other.barred
            and self.names == other.names
        )


class Takeovers:
    """Made for each pass in which jobs may give way; costs nothing until a job finds no room."""

    def __init__(self, this: EvictingPass, prospects: Prospects) -> None:
        self._pass = this
        self._prospects = prospects
        self._worth = Worth(this.cluster, this.view)
        #: Jobs that this pass has evicted, and how many searches led to that.
        self._evicted = self._made = 0
        #: A claim kept the last search off a node; each look says it anew.
        self.is_kept_off: bool
        self._search: Preemption | None = None
        #: The same among jobs that stand still instead of leaving.
        self._loans: Preemption | None = None
        #: The last search in vain for each shape.
        self._misses: dict[int, Miss] = {}
        self._names: dict[int, list[str]] = {}
        self._classes_of: dict[int, Container[int]] = {}
        #: Nodes that victims leave, and how many of them each shape was counted anew for.
        self.freed: list[str] = []
        self._counted: dict[int, int] = {}
        #: Nodes without all that claimants of a priority may evict.
        self._emptied: dict[tuple[float, bool, str], Emptied] = {}
        told = isinstance(this.keys.rules.victims, NamesVictim)
        #: Each lane has to be asked, as victims may be found for it at any time.
        self.asks_all = asks_all(this.cluster, lends=this.quotas.lends, told=told)

    @cached_property
    def _all_names(self) -> list[str]:
        return sorted(self._pass.space.rooms)

    def reconsider(self) -> list[int]:
        """The shapes that may take room from others since nodes changed."""
        prospects = self._prospects
        if self.asks_all:
            return prospects.forget()
        prospects.keep(self._pass.cluster.lanes.shapes)
        names = [*prospects.pending]
        prospects.pending.clear()
        return self._recount(names)

    def left(self) -> Callable[[int], bool]:
        """Which shapes may be helped by what victims leave; from here on they are no news."""
        promises, names = self._pass.promises, dict.fromkeys(self.freed)
        helped = {*self._recount(names)}
        self.freed.clear()
        self._counted.clear()
        return lambda number: (
            number in helped or (self.may_help(number) and promises.may_ever_fit(number, names))
        )

    def _recount(self, names: Iterable[str], only: int | None = None) -> list[int]:
        this, shapes = self._pass, self._pass.cluster.lanes.shapes
        rooms = this.space.rooms

        def suits(number: int, name: str) -> bool:
            shape = shapes[number]
            kind = this.space.class_of[name].id
            return kind in self._classes(number, shape) and not this.checks.refuses(shape, name)

        def look(name: str, claimant: Claimant) -> Emptied | None:
            return self._look(name, claimant) if name in rooms else None

        return self._prospects.recount(names, look, suits, only)

    def _classes(self, number: int, shape: Shape) -> Container[int]:
        """The classes of nodes that a shape may have."""
        known = self._classes_of.get(number)
        if known is None:
            space = self._pass.space
            known = self._classes_of[number] = space.classes_for(space.wants(number, shape))
        return known

    def _look(self, name: str, claimant: Claimant) -> Emptied:
        """A node without all that the claimant may evict."""
        key = (claimant.priority, claimant.best_effort, name)
        this, known = self._pass, self._emptied.get(key)
        room, top = this.space.rooms[name], INFINITE
        state = state_of(room)
        if known is None or known.state != state:
            candidates = self._searching().candidates
            gone: dict[str, Allocation] = {}
            for unit in candidates.on(name):
                if claimant.may_have(unit):
                    gone.update({uid: held for uid, held in unit.held if held.node == name})
                elif unit.preemptible:
                    top = min(top, unit.priority + claimant.gap)
            if gone:
                room = room.copy(pins=False)
                for held in gone.values():
                    room.shift(held, -1)
            known = self._emptied[key] = Emptied(room, top, state)
            self._learn_when_ripe(name, claimant)
        return known

    def _learn_when_ripe(self, name: str, claimant: Claimant) -> None:
        ripe_s = self._searching().candidates.ripe_on_s(name)
        if self._worth.by_length:
            # Each claimant has a moment of its own: the earliest of all stands.
            fades_s = self._worth.fades_on_s(name, claimant.priority - claimant.gap)
            self._prospects.ripens(name, min(ripe_s, fades_s))
        else:
            self._prospects.ripens_first(name, ripe_s)

    def may_help(self, number: int, *, is_open: bool = False) -> bool:
        """Whether victims may help a lane of a shape; an open one may be of a higher priority."""
        if is_open:
            return True
        known = self._prospect(number)
        return known is None or not known.is_vain

    def wait_until_ripe(self, shapes: Iterable[int]) -> None:
        """Jobs that start now are no victims yet for the shapes that wait."""
        this = self._pass
        # Where they are at once, then for the pass at the next full second: see ``POSTPONED_S``.
        ripe_s = this.now_s + self._rules.min_runtime_s
        ripe_s = ripe_s if ripe_s > this.now_s else this.now_s // 1.0 + 1.0
        if any(map(self.may_help, shapes)):
            this.wake_at(ripe_s)
        for allocation in [held for start in this.plan.starts for held in start.allocations]:
            self._prospects.ripens(allocation.node, ripe_s)

    def _prospect(self, number: int) -> Prospect | None:
        """What is known of a shape, as it is now."""
        known = None if self.asks_all else self._prospects.get(number)
        if known is not None and (news := self.freed[self._counted.get(number, 0) :]):
            self._counted[number] = len(self.freed)
            self._recount(dict.fromkeys(news), number)
        if known is not None and not known.is_vain:
            known.renew(self._pass.space.rooms, self._look)
        return known

    def try_for(self, head: Head, entry: Entry) -> bool:
        """Evict the cheapest victims for a job that finds no room, and start it in their place.

        It may have as many as it needs, or a large gang could never evict anybody. A pass that
        has evicted enough leaves the next claimants to a later one.
        """
        this, self.is_kept_off = self._pass, False
        priority = self._worth.of(entry)
        known = self._prospect(entry.key.shape)
        if known is not None and known.covers(priority):
            return False
        if self._evicted >= self._rules.max_per_pass:
            this.wake_at((this.now_s // POSTPONED_S + 1) * POSTPONED_S)
            return False
        takeover = self._find(head, entry, priority)
        if takeover is None:
            if not self._is_vain(head, entry, priority):
                this.wake_at(self._searching().candidates.ripe_s)
                this.wake_at(self._worth.fades_s(priority - self._rules.gap))
            return False
        self._commit(takeover)
        placed = list(map(Placed, takeover.tasks, takeover.allocations))
        this.plan.evictions += takeover.evictions
        this.record(head, entry, placed, after=takeover.after, borrows=takeover.borrows)
        return True

    def _commit(self, takeover: Takeover) -> None:
        """From here on victims leave or lend, and nobody else is given the same room."""
        this = self._pass
        self._evicted += len(takeover.evictions)
        self._made += 1
        freed = {held.node for unit in takeover.units if unit.job for _, held in unit.held}
        self.freed += sorted(freed)
        for known in [known for known in self._emptied if known[2] in freed]:
            del self._emptied[known]
        for search in (self._search, self._loans):
            if search is not None:
                search.commit(takeover)
        for allocation in takeover.allocations:
            this.space.take(allocation.node, allocation)
        this.promising.take_back({held.node for held in takeover.allocations}, self._would_borrow)
        for unit in takeover.units:
            if unit.job and not unit.lends:
                this.quotas.evict(
                    GivenBack(this.cluster.jobs[unit.job], unit.amount, unit.task < 0)
                )

    def _is_vain(self, head: Head, entry: Entry, priority: float) -> bool:
        """Remember a search in vain; whether only nodes that change may help."""
        if self.asks_all or self._pass.checks.hinders(head.shape):
            return False
        known = self._prospects.get(entry.key.shape)
        if known is not None and known.claimant.priority >= priority:
            # It was brought up to date before the search: counting all nodes again says the same.
            return known.is_vain
        claimant = self._searching().claimant(entry, priority)._replace(job=0)
        names = self._suited(head, entry)
        return self._prospects.note(entry.key.shape, head.shape, claimant, names, self._look)

    def _find(self, head: Head, entry: Entry, priority: float) -> Takeover | None:
        """A job that stands still loses nothing: such jobs come first where only CPUs lack."""
        this, full = self._pass, self._searching()
        claimant = full.claimant(entry, priority, this.quotas if this.quotas.lends else None)
        claimant = claimant._replace(borrows=self._borrows(entry.key))
        names, barred = self._open_to(head, entry), self._claimed(entry, claimant)
        self.is_kept_off = not barred.isdisjoint(names)
        rule = this.keys.rules.victims
        if isinstance(rule, NamesVictim):
            chosen = rule.should_preempt(full.candidates.known_to(claimant), entry)
            if chosen is None:
                return None
            claimant = claimant._replace(only=chosen)
        asked = Miss(claimant, claimant.moves, names, barred, self._made)
        known = self._misses.get(entry.key.shape)
        if known is not None and known.covers(asked):
            return None
        takeover = None
        if self._loans is not None and not entry.shape.placement.exclusive:
            takeover = self._loans.find(entry, claimant, names, barred)
        if takeover is None:
            takeover = full.find(entry, claimant, names, barred)
        if (
            takeover is None
            or not (takeover.after or takeover.borrows)
            or this.checks.is_over_quota(entry, takeover.allocations)
        ):
            self._misses[entry.key.shape] = asked
            return None
        return takeover

    @property
    def _rules(self) -> PreemptRules:
        return self._pass.cluster.policy.preempt

    def _searching(self) -> Preemption:
        if self._search is None:
            this, rule = self._pass, self._pass.keys.rules.victims
            cluster, rooms = this.cluster, this.space.rooms
            make = partial(
                Preemption, cluster, rooms, this.now_s, self._worth.of_running, rule,
                lends=this.quotas.lends,
            )  # fmt: skip
            self._search = make()
            if suspends(cluster):
                self._loans = make(Lenders)
        return self._search

    def _borrows(self, key: LaneKey) -> bool:
        """Whether a start would make the account of a lane hold more than its own."""
        this = self._pass
        shape = this.cluster.lanes.shapes[key.shape]
        return this.quotas.lends and this.quotas.borrowing(key, least_of(shape))

    def _claimed(self, entry: Entry, claimant: Claimant) -> frozenset[str]:
        """The nodes that others have a claim on before the job would be gone.

        Room that was promised to a job that would borrow it is reclaimed like room that is lent.
        """
        this, asking = self._pass, asking_of(entry)
        until_s = this.promises.until_s(entry)
        kept = this.promises.kept.get(entry.job)
        mine = {allocation.node for allocation in kept.allocations} if kept is not None else ()
        # Promises to others do not count where it was promised room itself.
        return frozenset(
            name
            for name, claims in this.promises.timeline.claims.items()
            for claim in claims
            if claim.start_s < until_s
            and (claim.reservation is not None or name not in mine)
            and asking.is_bound_by(claim)
            and not (claimant.reclaims and self._would_borrow(claim.job))
        )

    def _would_borrow(self, job: int) -> bool:
        """Whether a job that waits for what it was promised would borrow it."""
        cluster = self._pass.cluster
        array = cluster.array_of(job) if job else None
        lane = cluster.lanes.where.get(array.id if array is not None else job)
        return lane is not None and self._borrows(lane.key)

    def _open_to(self, head: Head, entry: Entry) -> list[str]:
        """Where neither the kind of a node, nor a neighbour, nor a quota is in the way."""
        names = self._suited(head, entry)
        if head.shape.placement.exclusive:
            # Which nodes may be had alone depends on the quotas of the account that asks.
            return [n for n in names if self._pass.checks.short_of_node(entry, n) is None]
        return names

    def _suited(self, head: Head, entry: Entry) -> list[str]:
        """Where neither the kind of a node nor a neighbour is in the way."""
        this, shape = self._pass, head.shape
        names = self._names.get(entry.key.shape)
        if names is None:
            space = this.space
            classes, class_of = self._classes(entry.key.shape, shape), space.class_of
            names = [name for name in self._all_names if class_of[name].id in classes]
            if this.checks.may_refuse(shape):
                names = [name for name in names if not this.checks.refuses(shape, name)]
            if not this.checks.hinders(shape):
                # Neighbours come with every start, and filters of others see how much is free.
                self._names[entry.key.shape] = names
        return names
