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

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.policy import PreemptMode
from rota.scheduling.api import Eviction
from rota.scheduling.evict.cheapest_set import CheapestSet
from rota.scheduling.evict.claimant import Claimant
from rota.scheduling.evict.eviction_trial import EvenSpread, Trial, least_tasks
from rota.scheduling.evict.lending import loans_for
from rota.scheduling.evict.unit import Unit, fits_in_set
from rota.scheduling.evict.victim_nodes import Front
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
    from rota.scheduling.evict.node_units import NodeUnits
    from rota.scheduling.place.node_room import Room

    #: Room for every task on these rooms, taken; None (and nothing taken) when there is none.
    Placer = Callable[[Sequence[Room]], Sequence[Allocation] | None]

INFINITE = float("inf")
#: The whole problem is searched in full up to so many units on so many nodes.
EXACT_UNITS, EXACT_NODES = 10, 32
#: Once a node was found, so many further ones are looked at that might be cheaper.
LOOKS_MAX = 16


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


class Site(NamedTuple):
    """The nodes that a search is about: of one group, and without those that are barred."""

    group: str
    names: Sequence[str]
    barred: frozenset[str]


class Found(NamedTuple):
    """The node where a task has its room, and whose room that is."""

    cost: float
    name: str
    units: list[Unit]


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
    ) -> None:
        self.cluster = cluster
        self.rooms = rooms
        self.candidates = candidates(cluster, now_s, priority_of, rule)
        self._rules = cluster.policy.preempt
        #: CPUs that jobs of this pass were promised from leavers, by node.
        self._pins: dict[str, dict[int, None]] = {}
        self._fronts: dict[tuple[int, Request, bool, str], Front] = {}

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
        if claimant.lent is not None:
            self.candidates.count_unwilling()
        best: Takeover | None = None
        for group, members in self._groups(entry.shape.placement.topology, names).items():
            found = self._find_in(Site(group, members, barred), entry, claimant)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

    def _groups(self, topology: str, names: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The nodes of one rack or switch each, where all must have the same; else all of them."""
        if not topology:
            return {"": names}
        groups: dict[str, list[str]] = {}
        for name in names:
            if (value := self.cluster.nodes[name].all_labels.get(topology)) is not None:
                groups.setdefault(value, []).append(name)
        return groups

    def _find_in(self, site: Site, entry: Entry, claimant: Claimant) -> Takeover | None:
        for shrinks in (True, False):
            search = Search(self, entry, claimant, site, shrinks=shrinks)
            units = search.run()
            if units is not None:
                return self._takeover(search, units)
            if not search.elastic:
                break
        return None

    def commit(self, takeover: Takeover) -> None:
        """The answer is used. The owner of ``rooms`` takes its allocations from them."""
        changed: dict[str, None] = {}
        for unit in takeover.units:
            changed |= self.candidates.forget(unit)
        for allocation in takeover.allocations:
            self._pins.setdefault(allocation.node, {}).update(dict.fromkeys(allocation.cpus))
        for front in self._fronts.values():
            for name in changed:
                front.push(0.0, name)

    def pins(self, name: str) -> Iterable[int]:
        """CPUs that are promised although an attempt that leaves holds them."""
        node = self.cluster.nodes[name]
        promised = [cpu for uid in node.withheld for cpu in node.live[uid].cpus]
        return [*promised, *self._pins.get(name, ())]

    def front(self, search: Search, request: Request) -> Front:
        """Nodes by the least that they could cost, kept for the next job of this shape."""
        key = (search.entry.key.shape, request, search.shrinks, search.site.group)
        front = self._fronts.get(key)
        if front is None or not front.serves(search):
            front = self._fronts[key] = Front(search, request)
        front.begin(search)
        return front

    def _takeover(self, search: Search, units: list[Unit]) -> Takeover | None:
        allocations = search.trial(units, search.used).place()
        if allocations is None:
            # Bounds said that it is enough, and the rooms themselves say no: nobody is evicted.
            return None
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
            search.tasks,
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


class Search:
    """The search on behalf of one job."""

    def __init__(
        self,
        preemption: Preemption,
        entry: Entry,
        claimant: Claimant,
        site: Site,
        *,
        shrinks: bool,
    ) -> None:
        self.preemption = preemption
        self.entry = entry
        self.claimant = claimant
        self.site = site
        rooms, barred = preemption.rooms, site.barred
        self.names = [name for name in site.names if name in rooms and name not in barred]
        self._placer = EvenSpread(entry.shape) if entry.shape.placement.node_count else None
        #: Whether elastic jobs may be made to give up single tasks.
        self.shrinks = shrinks
        self.tasks, self._requests = least_tasks(entry.shape)
        #: The nodes to place it on, once the search knows them.
        self.used: Sequence[str] = self.names
        #: Whether some victim could shrink: then it is worth another search without that.
        self.elastic = False

    def on(self, name: str) -> NodeUnits:
        """What this job may have on a node, cheapest first."""
        here = self.preemption.candidates.allowed_on(name, self.claimant, shrinks=self.shrinks)
        self.elastic = self.elastic or here.elastic
        return here

    def trial(self, units: Iterable[Unit] = (), names: Sequence[str] | None = None) -> Trial:
        names = self.names if names is None else names
        trial = Trial(self.preemption, names, self.entry.shape, self._requests, self._placer)
        trial.evict(units)
        return trial

    def goes_with(self, unit: Unit, chosen: list[Unit]) -> bool:
        """Whether a unit may be evicted beside others."""
        return fits_in_set(unit, chosen) and self.claimant.may_have_all([*chosen, unit])

    def run(self) -> list[Unit] | None:
        if len(self.names) <= EXACT_NODES and (len(self._requests) > 1 or self._placer is not None):
            units = self._all_units()
            if len(units) <= EXACT_UNITS:
                return self._search_all(units)
        return self._search_by_node()

    def _all_units(self) -> list[Unit]:
        found = {unit: None for name in self.names for unit in self.on(name).units}
        return sorted(found, key=lambda unit: unit.order)

    def _search_all(self, units: list[Unit]) -> list[Unit] | None:
        """Every set, by ascending cost."""
        found = CheapestSet(units, self._fits, self.goes_with).find()
        return None if found is None else self._let_off(found, self.names)

    def _fits(self, units: list[Unit]) -> bool:
        return self.trial(units).place() is not None

    def _search_by_node(self) -> list[Unit] | None:
        """Task by task: on free room if there is some, else on the cheapest node."""
        trial, chosen = self.trial(), list[Unit]()
        single = len(self._requests) == 1
        for request in self._requests:
            if not single and trial.put_free(request):
                continue
            found = self._cheapest(trial, request, chosen)
            if found is None:
                return None
            chosen += found.units
            trial.evict(found.units)
            trial.put(found.name, request)
        if self._placer is not None:
            return self._until_placed(chosen)
        self.used = [name for name in self.names if name in trial.used]
        return chosen if single else self._let_off(chosen, self.used)

    def _until_placed(self, chosen: list[Unit]) -> list[Unit] | None:
        """More victims, cheapest first and ever more of them, until the placer is content."""
        rest, portion = self._all_units(), 1
        while (placed := self.trial(chosen).place()) is None:
            if not rest:
                return None
            for unit in rest[:portion]:
                if self.goes_with(unit, chosen):
                    chosen = [*chosen, unit]
            rest, portion = rest[portion:], 2 * portion
        used = {allocation.node for allocation in placed}
        self.used = [name for name in self.names if name in used]
        near = [unit for unit in chosen if any(held.node in used for _, held in unit.held)]
        return self._let_off(near, self.used)

    def _let_off(self, chosen: list[Unit], names: Sequence[str]) -> list[Unit]:
        """Without those that are not needed, the dearest asked first."""
        for unit in sorted(chosen, key=lambda unit: unit.order, reverse=True):
            fewer = [other for other in chosen if other is not unit]
            if self.trial(fewer, names).place() is not None:
                chosen = fewer
        return chosen

    def _cheapest(self, trial: Trial, request: Request, chosen: list[Unit]) -> Found | None:
        """The node where room for one more task costs least, and whose room that is."""
        best: Found | None = None
        # Where victims leave for other tasks of the job, one more may cost less than was known.
        for name in trial.made_free():
            best = self._look(trial, name, request, chosen, _cost(best))[0] or best
        front = self.preemption.front(self, request)
        looked: dict[str, float] = {}
        looks, alone = LOOKS_MAX, len(self._requests) == 1
        while looks > 0 and front.has_below(self, None if best is None else best.cost):
            least, name = heappop(front.heap)
            if name in looked:
                continue
            looked[name] = least
            if name in self.site.barred:
                continue
            here = self.on(name)
            front.above = front.above and here.above
            bound = here.least_cost(trial.lack(name, request))
            if alone:
                # What was found out holds for the next job of this shape as well.
                looked[name] = INFINITE if bound is None else bound
            if bound is None or bound >= _cost(best):
                continue
            looks -= best is not None
            found, least = self._look(trial, name, request, chosen, _cost(best))
            best = found or best
            if alone:
                looked[name] = max(bound, least)
        for name, least in looked.items():
            if least < INFINITE:
                heappush(front.heap, (least, name))
        return best

    def _look(
        self, trial: Trial, name: str, request: Request, chosen: list[Unit], below: float
    ) -> tuple[Found | None, float]:
        """The cheapest set below a cost on one node, and what room costs there at least."""

        def fits(units: list[Unit]) -> bool:
            given = [held for unit in units for _, held in unit.held if held.node == name]
            return trial.would_fit(name, request, given)

        def goes_with(unit: Unit, units: list[Unit]) -> bool:
            return self.goes_with(unit, [*chosen, *units])

        lack = trial.lack(name, request)
        found, sure = self.on(name).cheapest(lack, fits, goes_with, below)
        # What may be reclaimed changes with what others get.
        sure = sure and self.claimant.lent is None
        if found is None:
            return None, below if sure else 0.0
        for unit in reversed(found):
            fewer = [other for other in found if other is not unit]
            if fits(fewer):
                found = fewer
        cost = sum([unit.cost for unit in found])
        return Found(cost, name, found), cost if sure else 0.0


def _cost(found: Found | None) -> float:
    return INFINITE if found is None else found.cost
