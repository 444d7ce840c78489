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
from rota.scheduling.evict.eviction_trial import EvenSpread, Trial, least_tasks
from rota.scheduling.evict.lending import loans_for
from rota.scheduling.evict.victim_nodes import Front
from rota.scheduling.evict.victims import Herd, Hunter, Unit, cheapest_first, fits_in_set, mode_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.loans import Loan
    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.api import Entry, VictimRule
    from rota.scheduling.place.node_room import Room

    #: Room for every task on these rooms, taken; None (and nothing taken) when there is none.
    Placer = Callable[[Sequence[Room]], Sequence[Allocation] | None]

#: Up to so many units every set of them is considered, by ascending cost.
EXACT_MAX = 10
INFINITE = float("inf")
#: The whole problem is searched in full up to so many nodes.
EXACT_NODES = 32
#: Once a node was found, so many further ones are looked at that might be cheaper.
LOOKS_MAX = 64


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


class Preemption:
    """The search for victims within one pass: what one job was given is gone for the next."""

    def __init__(
        self,
        cluster: Cluster,
        rooms: Mapping[str, Room],
        now_s: float,
        priority_of: Callable[[Job], float],
        rule: VictimRule | None = None,
        herd: type[Herd] = Herd,
    ) -> None:
        self.cluster = cluster
        self.rooms = rooms
        self.herd = herd(cluster, now_s, priority_of, rule)
        self.rules = cluster.policy.preempt
        #: Evictions that this pass may still decide.
        self.left = self.rules.max_per_pass
        #: CPUs that jobs of this pass were promised from leavers, by node.
        self._pins: dict[str, dict[int, None]] = {}
        self._fronts: dict[tuple[int, Request, bool], Front] = {}

    def find(
        self,
        entry: Entry,
        priority: float,
        names: Sequence[str],
        *,
        reclaims: Callable[[Job], bool] | None = None,
        placer: Placer | None = None,
    ) -> Takeover | None:
        """The cheapest way to place all tasks of a waiting job; None when there is none.

        ``names`` are the nodes that it may run on by everything but room, in order of
        preference. ``reclaims`` says whose borrowed room it may reclaim without the gap.
        ``placer`` stands in for first fit where more than room decides. An elastic job gets its
        least size: nobody is evicted to let another grow. Nothing is changed: tell ``commit``
        when the answer is used.
        """
        queue = self.cluster.queues.get(entry.key.queue)
        if queue is not None and not queue.preempts:
            return None
        hunter = Hunter.of(entry, priority, self.rules.gap, reclaims)
        if reclaims is not None:
            self.herd.count_unwilling()
        if placer is None and entry.shape.placement.node_count:
            placer = EvenSpread(entry.shape)
        best: Takeover | None = None
        for group in self._groups(entry.shape.placement.topology, names):
            found = self._find_in(group, entry, hunter, placer)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

    def _groups(self, topology: str, names: Sequence[str]) -> Iterable[Sequence[str]]:
        """The nodes of one rack or switch each, where all must have the same; else all of them."""
        if not topology:
            return [names]
        groups: dict[str, list[str]] = {}
        for name in names:
            if (value := self.cluster.nodes[name].all_labels.get(topology)) is not None:
                groups.setdefault(value, []).append(name)
        return groups.values()

    def _find_in(
        self, names: Sequence[str], entry: Entry, hunter: Hunter, placer: Placer | None
    ) -> Takeover | None:
        for shrinks in (True, False):
            hunt = Hunt(self, entry, hunter, names, placer, shrinks)
            units = hunt.search()
            if units is not None:
                return self._takeover(hunt, units)
            if not hunt.elastic:
                break
        return None

    def commit(self, takeover: Takeover) -> None:
        """The answer is used. Whoever keeps ``rooms`` takes its allocations from them."""
        self.left -= len(takeover.evictions)
        for unit in takeover.units:
            self.herd.forget(unit)
        for allocation in takeover.allocations:
            self._pins.setdefault(allocation.node, {}).update(dict.fromkeys(allocation.cpus))
        touched = dict.fromkeys(held.node for unit in takeover.units for _, held in unit.held)
        for front in self._fronts.values():
            for name in touched:
                front.push(0.0, name)

    def pins(self, name: str) -> Iterable[int]:
        """CPUs that are promised although an attempt that leaves holds them."""
        node = self.cluster.nodes[name]
        promised = [cpu for uid in node.withheld for cpu in node.live[uid].cpus]
        return [*promised, *self._pins.get(name, ())]

    def front(self, hunt: Hunt, request: Request) -> Front:
        """Nodes by the least that they could cost, kept for the next job of this shape."""
        key = (hunt.entry.key.shape, request, hunt.shrinks)
        front = self._fronts.get(key)
        if front is None or not front.serves(hunt):
            front = self._fronts[key] = Front(hunt, request)
        return front

    def _takeover(self, hunt: Hunt, units: list[Unit]) -> Takeover | None:
        allocations = hunt.trial(units, hunt.site).place()
        assert allocations is not None, "the search found room that is not there"
        used = {allocation.node for allocation in allocations}
        evictions = self._evictions(hunt.entry.job, units)
        if len(evictions) > self.left:
            return None
        leavers = [unit for unit in units if not unit.lends]
        after = [uid for unit in leavers for uid, held in unit.held if held.node in used]
        cost = sum(unit.cost for unit in units)
        return Takeover(
            hunt.entry.job,
            evictions,
            tuple(allocations),
            tuple(after),
            cost,
            tuple(units),
            hunt.tasks,
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
        """How a victim leaves: whom it does not help to stop comes back later instead."""
        mode = mode_of(self.cluster.jobs[job].spec, self.rules.mode)
        return PreemptMode.REQUEUE if mode is PreemptMode.SUSPEND else mode


class Hunt:
    """The search on behalf of one job."""

    def __init__(
        self,
        preemption: Preemption,
        entry: Entry,
        hunter: Hunter,
        names: Sequence[str],
        placer: Placer | None,
        shrinks: bool,
    ) -> None:
        self.preemption = preemption
        self.entry = entry
        self.hunter = hunter
        self.names = [name for name in names if name in preemption.rooms]
        self.placer = placer
        self.shrinks = shrinks
        self.tasks, self.requests = least_tasks(entry.shape)
        #: The nodes to place it on, once the search knows them.
        self.site: Sequence[str] = self.names
        #: Whether some victim could shrink: then it is worth another search without that.
        self.elastic = False

    def units_on(self, name: str) -> list[Unit]:
        """What this job may have on a node, cheapest first."""
        herd, found = self.preemption.herd, []
        for unit in herd.on(name):
            if unit.task >= 0:
                self.elastic = True
                if not self.shrinks:
                    continue
            if herd.may(unit, self.hunter):
                found.append(unit)
        return found

    def trial(self, units: Iterable[Unit] = (), names: Sequence[str] | None = None) -> Trial:
        names = self.names if names is None else names
        trial = Trial(self.preemption, names, self.entry.shape, self.requests, self.placer)
        trial.evict(units)
        return trial

    def search(self) -> list[Unit] | None:
        if len(self.names) <= EXACT_NODES and (len(self.requests) > 1 or self.placer is not None):
            units = self._all_units()
            if len(units) <= EXACT_MAX:
                return self._search_all(units)
        return self._search_by_node()

    def _all_units(self) -> list[Unit]:
        found = dict.fromkeys(unit for name in self.names for unit in self.units_on(name))
        return sorted(found, key=lambda unit: unit.order)

    def _search_all(self, units: list[Unit]) -> list[Unit] | None:
        """Every set, by ascending cost."""
        for chosen in cheapest_first(units):
            if self.trial(chosen).place() is not None:
                return self._let_off(chosen, self.names)
        return None

    def _search_by_node(self) -> list[Unit] | None:
        """Task by task: on free room if there is some, else on the cheapest node."""
        trial, chosen = self.trial(), list[Unit]()
        single = len(self.requests) == 1
        for request in self.requests:
            if not single and trial.put_free(request):
                continue
            found = self._cheapest(trial, request, chosen)
            if found is None:
                return None
            name, units = found
            chosen += units
            trial.evict(units)
            trial.put(name, request)
        if self.placer is not None:
            enough = self._until_placed(chosen)
            return None if enough is None else self._let_off(enough, self.names)
        self.site = [name for name in self.names if name in trial.used]
        return chosen if single else self._let_off(chosen, self.site)

    def _until_placed(self, chosen: list[Unit]) -> list[Unit] | None:
        """More victims, cheapest first, until whoever places the job is content."""
        if self.trial(chosen).place() is not None:
            return chosen
        for unit in self._all_units():
            if len(chosen) > self.preemption.left:
                return None
            if fits_in_set(unit, chosen):
                chosen = [*chosen, unit]
                if self.trial(chosen).place() is not None:
                    return chosen
        return None

    def _let_off(self, chosen: list[Unit], names: Sequence[str]) -> list[Unit]:
        """Without those that are not needed, the dearest asked first."""
        for unit in sorted(chosen, key=lambda unit: unit.order, reverse=True):
            fewer = [other for other in chosen if other is not unit]
            if self.trial(fewer, names).place() is not None:
                chosen = fewer
        return chosen

    def _cheapest(
        self, trial: Trial, request: Request, chosen: list[Unit]
    ) -> tuple[str, list[Unit]] | None:
        """The node where room for one more task costs least, and whose room that is."""
        front = self.preemption.front(self, request)
        best: tuple[float, str, list[Unit]] | None = None
        looked: dict[str, float] = {}
        looks = LOOKS_MAX
        while looks > 0 and front.has_below(self, None if best is None else best[0]):
            least, name = heappop(front.heap)
            if name in looked:
                continue
            units = [unit for unit in self.units_on(name) if fits_in_set(unit, chosen)]
            bound = trial.least_cost(name, request, units)
            if bound is None and len(self.requests) == 1:
                continue  # Nor will the next job of this shape find anything here.
            looked[name] = least
            if bound is None or (best is not None and bound >= best[0]):
                continue
            looks -= best is not None
            found = self._cheapest_on(trial, name, request, units, best[0] if best else INFINITE)
            cost = sum(unit.cost for unit in found or ())
            if found is not None and (best is None or cost < best[0]):
                best = (cost, name, found)
        for name, least in looked.items():
            heappush(front.heap, (least, name))
        return None if best is None else best[1:]

    def _cheapest_on(
        self, trial: Trial, name: str, request: Request, units: list[Unit], below: float
    ) -> list[Unit] | None:
        """The cheapest set below a cost on one node; of many units one without needless members."""
        if not trial.would_fit(name, request, units):
            return None  # Not even with all of them gone.
        if len(units) <= EXACT_MAX:
            for chosen in cheapest_first(units, trial.least_count(name, request, units)):
                if below < INFINITE and sum(unit.cost for unit in chosen) >= below:
                    return None
                if trial.would_fit(name, request, chosen):
                    return trial.let_off(name, request, chosen)
            return None
        chosen = []
        for unit in units:
            if fits_in_set(unit, chosen):
                chosen.append(unit)
                if trial.would_fit(name, request, chosen):
                    return trial.let_off(name, request, chosen)
        return None
