"""Preemption: the cheapest set of victims whose room lets a waiting job be placed, all of it.

Small cases are searched in full, by ascending cost, so the first set that makes enough room is
the cheapest. Larger ones are taken node by node, the cheapest node for each task, and afterwards
every victim that turns out not to be needed is let off. Attempts that leave anyway cost nothing
and are waited for first. Victims are whole jobs on all their nodes; an elastic job may instead
give up tasks beyond its least size.

A ``Room`` counts an attempt that waits for others to leave beside those others, so giving back
what a leaver holds shows exactly what nobody else was promised.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.placing import ground_of
from rota.core.facts.policy import PreemptMode
from rota.scheduling.api import Eviction
from rota.scheduling.evict.cheapest_set import CheapestSet
from rota.scheduling.evict.claimant import Claimant
from rota.scheduling.evict.eviction_trial import NodeWithout, Trial, least_tasks
from rota.scheduling.evict.lending import loans_for
from rota.scheduling.evict.unit import Unit, fits_in_set
from rota.scheduling.evict.victim_nodes import NodeFront
from rota.scheduling.evict.victims import Candidates, mode_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.loans import Loan
    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.api import Entry, VictimRule
    from rota.scheduling.evict.claimant import Lent
    from rota.scheduling.place.node_room import Room

INFINITE = float("inf")
ROUNDED = 1.0 - 1e-9
#: The whole problem is searched in full up to this number of units, and of nodes.
EXACT_UNITS, EXACT_NODES = 10, 32


class Takeover(NamedTuple):
    """A decision: these give way, and then the job is placed like this.

    ``after`` are the attempts that must be gone before it is launched: of victims, and of others
    that leave anyway, on the nodes that it gets. Without ``evictions`` it only has to wait.
    """

    job: int
    evictions: tuple[Eviction, ...]
    allocations: tuple[Allocation, ...]
    after: tuple[str, ...]
    cost: float
    units: tuple[Unit, ...]
    #: Which tasks the allocations are for: not all of an elastic job.
    tasks: tuple[int, ...]
    #: For each allocation the CPUs that victims lend to it; empty: they leave.
    borrows: tuple[tuple[Loan, ...], ...] = ()


class EvictionNodes(NamedTuple):
    """The nodes that a search is about: of one group, and without those that are barred."""

    group: str
    names: Sequence[str]
    barred: frozenset[str]


class Found(NamedTuple):
    """The node where a task has its room, and whose room that is."""

    cost: float
    name: str
    units: list[Unit]


class EvictionPlan(NamedTuple):
    """Victims, and what all tasks get in their place."""

    units: list[Unit]
    allocations: Sequence[Allocation]


class Preemption:
    """The search for victims within one pass: what one job was given is gone for the next."""

    def __init__(
        self,
        cluster: Cluster,
        rooms: Mapping[str, Room],
        now_s: float,
        priority_of: Callable[[Job], float],
        rule: VictimRule | None = None,
        candidates: type[Candidates] = Candidates,
        *,
        lends: bool = True,
    ) -> None:
        self.cluster = cluster
        self.rooms = rooms
        self.candidates = candidates(cluster, now_s, priority_of, rule, lends=lends)
        self._rules = cluster.policy.preempt
        #: CPUs that jobs of this pass were promised from leavers, by node.
        self._pins: dict[str, dict[int, None]] = {}
        self._fronts: dict[tuple[object, ...], NodeFront] = {}
        #: The nodes where victims leave, as they were chosen.
        self._news: list[str] = []

    def claimant(self, entry: Entry, priority: float, lent: Lent | None = None) -> Claimant:
        """A waiting job; ``lent`` knows what it may reclaim without the gap."""
        return Claimant.of(entry, priority, self._rules.gap, self.cluster.jobs, lent)

    def find(
        self,
        entry: Entry,
        claimant: Claimant,
        names: Sequence[str],
        barred: frozenset[str] = frozenset(),
    ) -> Takeover | None:
        """The cheapest way to place all tasks of a waiting job; None when there is none.

        ``names`` are the nodes that jobs of its shape may run on by everything but room, in order
        of preference, ``barred`` those of them that are not for this very job. An elastic job gets
        its least size: nobody is evicted to let another grow. Nothing is changed: tell ``commit``
        when the answer is used.
        """
        queue = self.cluster.queues.get(entry.key.queue)
        if queue is not None and not queue.preempts:
            return None
        best: Takeover | None = None
        for group, members in self._groups(entry.shape.placement.topology, names).items():
            found = self._find_in(EvictionNodes(group, members, barred), entry, claimant)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

    def _groups(self, topology: str, names: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The nodes of one rack or switch each, where all must have the same; else all of them."""
        if not topology:
            return {"": names}
        groups: dict[str, list[str]] = {}
        for name in names:
            labels = self.cluster.nodes[name].all_labels
            if (value := ground_of(labels, topology)) is not None:
                groups.setdefault(value, []).append(name)
        return groups

    def _find_in(self, site: EvictionNodes, entry: Entry, claimant: Claimant) -> Takeover | None:
        for shrinks in (True, False) if self.candidates.elastic else (False,):
            search = VictimSearch(self, entry, claimant, site, shrinks=shrinks)
            way = search.run()
            if way is not None:
                return self._takeover(search, way)
        return None

    def commit(self, takeover: Takeover) -> None:
        """The answer is used. The owner of ``rooms`` takes its allocations from them."""
        self._news += self.candidates.forget(takeover.units)
        for allocation in takeover.allocations:
            self._pins.setdefault(allocation.node, {}).update(dict.fromkeys(allocation.cpus))

    def pins(self, name: str) -> Iterable[int]:
        """CPUs that are promised although an attempt that leaves holds them."""
        node = self.cluster.nodes[name]
        promised = [cpu for uid in node.withheld for cpu in node.live[uid].cpus]
        return [*promised, *self._pins.get(name, ())]

    def front(self, search: VictimSearch, request: Request) -> NodeFront:
        """Nodes by the least that they could cost, kept for the next job of this shape."""
        key = (search.entry.key.shape, request, search.rights, search.site.group)
        front, names = self._fronts.get(key), search.site.names
        if front is None or front.names != names:
            allowed, rooms = search.allowed, self.rooms
            front = self._fronts[key] = NodeFront(
                names, lambda some: allowed.bounds(some, request, rooms), self._news
            )
        front.catch_up()
        return front

    def _takeover(self, search: VictimSearch, way: EvictionPlan) -> Takeover:
        units, allocations = way
        used = {allocation.node for allocation in allocations}
        leavers = [unit for unit in units if not unit.lends]
        after = [uid for unit in leavers for uid, held in unit.held if held.node in used]
        return Takeover(
            search.entry.job,
            self._evictions(search.entry.job, units),
            tuple(allocations),
            tuple(after),
            sum(unit.cost for unit in units),
            tuple(units),
            tuple(task for task, _ in search.tasks),
            loans_for(self.cluster, self.rooms, units, allocations),
        )

    def _evictions(self, by: int, units: list[Unit]) -> tuple[Eviction, ...]:
        """One per job, in order of ids; the tasks of an elastic one together."""
        lenders = {unit.job for unit in units if unit.lends}
        tasks: dict[int, list[int]] = {}
        for unit in units:
            if unit.job:
                tasks.setdefault(unit.job, []).append(unit.task)
        return tuple(
            Eviction(
                job,
                PreemptMode.SUSPEND if job in lenders else self._leaves(job),
                by,
                tuple(sorted(task for task in tasks[job] if task >= 0)),
            )
            for job in sorted(tasks)
        )

    def _leaves(self, job: int) -> PreemptMode:
        """How a victim leaves: one that it does not help to stop comes back later instead."""
        mode = mode_of(self.cluster.jobs[job].spec, self._rules.mode)
        return PreemptMode.REQUEUE if mode is PreemptMode.SUSPEND else mode


class VictimSearch:
    """The search on behalf of one job."""

    def __init__(
        self,
        preemption: Preemption,
        entry: Entry,
        claimant: Claimant,
        site: EvictionNodes,
        *,
        shrinks: bool,
    ) -> None:
        self.preemption = preemption
        self.entry = entry
        self.claimant = claimant
        self.site = site
        self.rights = preemption.candidates.rights(claimant, shrinks=shrinks)
        #: What this job may have on each node.
        self.allowed = preemption.candidates.allowed(self.rights, claimant)
        self.tasks = [*least_tasks(entry.shape)]
        self._spread = entry.shape.placement.node_count > 0

    @cached_property
    def names(self) -> list[str]:
        """The nodes that it may have."""
        barred = self.site.barred
        return [name for name in self.site.names if name not in barred]

    def trial(self, units: Iterable[Unit] = ()) -> Trial:
        preemption = self.preemption
        return Trial(preemption.rooms, preemption.pins, self.entry.shape, units)

    def goes_with(self, unit: Unit, chosen: list[Unit]) -> bool:
        """Whether a unit may be evicted beside others."""
        return fits_in_set(unit, chosen) and self.claimant.may_have_all([*chosen, unit])

    def run(self) -> EvictionPlan | None:
        if (len(self.tasks) > 1 or self._spread) and len(self.names) <= EXACT_NODES:
            units = self._all_units()
            if len(units) <= EXACT_UNITS:
                return self._search_all(units)
        return self._search_by_node()

    def _all_units(self) -> list[Unit]:
        found = {unit: None for name in self.names for unit in self.allowed.on(name).units}
        return sorted(found, key=lambda unit: unit.order)

    def _place(self, units: list[Unit], names: Sequence[str]) -> EvictionPlan | None:
        """The way without these units, on these nodes."""
        placed = self.trial(units).place(names)
        return None if placed is None else EvictionPlan(units, placed)

    def _search_all(self, units: list[Unit]) -> EvictionPlan | None:
        """Every set, by ascending cost."""
        ways: list[EvictionPlan] = []

        def fits(chosen: list[Unit]) -> bool:
            way = self._place(chosen, self.names)
            ways.extend([way] if way is not None else ())
            return way is not None

        CheapestSet(units, fits, self.goes_with).find()
        return self._let_off(ways[-1], self.names) if ways else None

    def _search_by_node(self) -> EvictionPlan | None:
        """Task by task: on free room if there is some, else on the cheapest node."""
        trial, chosen, single = self.trial(), list[Unit](), len(self.tasks) == 1
        allocations: list[Allocation] = []
        for _, request in self.tasks:
            freed = [name for name in trial.freed if name in self._allowed] if chosen else []
            name = None if single else trial.free_for(request, self.names, freed)
            if name is None:
                found = self._cheapest(trial, request, chosen, freed)
                if found is None:
                    return None
                chosen += found.units
                trial.evict(found.units)
                name = found.name
            allocations.append(trial.put(name, request))
        if self._spread:
            return self._until_placed(chosen)
        way = EvictionPlan(chosen, allocations)
        return way if single else self._let_off(way, sorted(trial.used))

    @cached_property
    def _allowed(self) -> frozenset[str]:
        return frozenset(self.names)

    def _until_placed(self, chosen: list[Unit]) -> EvictionPlan | None:
        """More victims, cheapest first and ever more of them, until all tasks are spread."""
        rest, portion = self._all_units(), 1
        while (way := self._place(chosen, self.names)) is None:
            if not rest:
                return None
            for unit in rest[:portion]:
                if self.goes_with(unit, chosen):
                    chosen = [*chosen, unit]
            rest, portion = rest[portion:], 2 * portion
        used = {allocation.node for allocation in way.allocations}
        near = [unit for unit in chosen if any(held.node in used for _, held in unit.held)]
        return self._let_off(EvictionPlan(near, way.allocations), sorted(used))

    def _let_off(self, way: EvictionPlan, names: Sequence[str]) -> EvictionPlan:
        """Without those that are not needed, the dearest asked first."""
        shape, trial = self.entry.shape, self.trial(way.units)
        most = {name: trial.most(name) for name in names}
        for unit in sorted(way.units, key=lambda unit: unit.order, reverse=True):
            fewer = [other for other in way.units if other is not unit]
            here = {held.node for _, held in unit.held if held.node in most}
            near = [other for other in fewer if any(held.node in here for _, held in other.held)]
            trial = self.trial(near)
            # Most are needed, which is seen on their own nodes: no room for the first role.
            left = most | {name: trial.most(name) for name in here}
            if sum(left.values()) < shape.least_tasks(shape.roles[0]):
                continue
            if (without := self._place(fewer, names)) is not None:
                way, most = without, left
        return way

    def _cheapest(
        self, trial: Trial, request: Request, chosen: list[Unit], freed: Sequence[str]
    ) -> Found | None:
        """The node where room for one more task costs least, and whose room that is."""
        best: Found | None = None
        # Where victims leave for other tasks of the job, one more may cost less than was known.
        for name in freed:
            best = self._look(trial, name, request, chosen, _cost(best))[0] or best
        rooms, allowed, wish = self.preemption.rooms, self.allowed, trial.wish("", request)
        nodes = self.preemption.front(self, request).search(
            self.site.barred,
            lambda name: allowed.on(name).least_cost(wish, rooms[name]),
            lambda: _cost(best),
        )
        for name, learnt in nodes:
            if name in freed:
                continue
            found, least = self._look(trial, name, request, chosen, _cost(best))
            best = found or best
            touched = name in trial.freed or name in trial.used
            if not (touched or (chosen and self.rights.shrinks)):
                # What was found out holds for the next task, and the next job of this shape.
                learnt[name] = max(learnt[name], least)
        return best

    def _look(
        self, trial: Trial, name: str, request: Request, chosen: list[Unit], below: float
    ) -> tuple[Found | None, float]:
        """The cheapest set below a cost on one node, and what room costs there at least."""

        def goes_with(unit: Unit, units: list[Unit]) -> bool:
            return self.goes_with(unit, [*chosen, *units])

        # Whole jobs on one node do not get in each other's way.
        is_plain = not (self.rights.shrinks or self.claimant.lent is not None)
        wish, room = trial.wish(name, request), trial.room(name)
        left, without = self.allowed.on(name).beside(chosen), NodeWithout(trial, name, request)
        fits, together = without.fits_without, None if is_plain else goes_with
        found, sure = left.cheapest(wish, room, fits, together, below)
        without.fill()
        # What may be reclaimed changes with what others get.
        sure = sure and self.claimant.lent is None
        if found is None:
            return None, below if sure else 0.0
        found = trial.needed(name, request, found)
        cost = sum([unit.cost for unit in found])
        return Found(cost, name, found), cost if sure else 0.0


def _cost(found: Found | None) -> float:
    """What another one must cost less than; sums of equal costs differ in the last digits."""
    return INFINITE if found is None else found.cost * ROUNDED
