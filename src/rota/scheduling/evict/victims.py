"""Who may be asked to give way, and what that would cost.

Rules of who is spared stand in one place, ``Candidates._spared``: guaranteed jobs, queues that are
switched off, jobs that started only just now (or did not start yet), jobs that gave way often
enough, and jobs that are being stopped already.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.core.derived.holdings import amount_of, amount_of_all
from rota.core.facts.job import ServiceClass
from rota.core.facts.resources import Amount
from rota.core.facts.states import Cause
from rota.scheduling.api import Victim
from rota.scheduling.evict.node_units import NodeUnits
from rota.scheduling.evict.unit import COST_MIN, Unit
from rota.scheduling.evict.victim_nodes import bounds
from rota.scheduling.order.share_use import capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job, JobSpec
    from rota.core.facts.node import Node
    from rota.core.facts.policy import PreemptMode
    from rota.core.facts.resources import Request
    from rota.scheduling.api import VictimRule
    from rota.scheduling.evict.claimant import Claimant
    from rota.scheduling.evict.victim_nodes import Least
    from rota.scheduling.place.node_room import Room

INFINITE = float("inf")
#: The lost work of a best-effort job counts this much: it goes before anybody with a claim.
BEST_EFFORT_WEIGHT = 1e-6
#: To stop a job, to queue it again and to start it anew takes people and machines so long, however
#: small it is: of two sets that lose as much work the one with fewer victims goes.
VICTIM_S = 60.0


class LostWork(msgspec.Struct, frozen=True):
    """What is lost when a job goes, in seconds of the whole site.

    Its work since it was last saved and its restart count by the largest share of the site that it
    holds in any dimension. One second is always lost, so that of two jobs that just saved the
    smaller one goes. Beside that each victim costs ``VICTIM_S`` of an average node, whatever its
    size, and everything counts once more for each time that it has given way before.
    """

    total: Amount
    nodes: int
    name: str = "lost-work"

    def cost(self, victim: Victim) -> float:
        seconds = 1.0 + victim.unsaved_s + victim.restart_cost_s
        once = dominant_share(victim.held, self.total) * seconds + VICTIM_S / self.nodes
        return once * (1 + victim.preemptions)


def dominant_share(held: Amount, total: Amount) -> float:
    """The largest part of any one dimension; a dimension that nobody has counts nothing."""
    return max(
        held.cpu_milli / total.cpu_milli if total.cpu_milli else 0.0,
        held.memory_mib / total.memory_mib if total.memory_mib else 0.0,
        held.disk_mib / total.disk_mib if total.disk_mib else 0.0,
        held.device_milli / total.device_milli if total.device_milli else 0.0,
    )


def mode_of(spec: JobSpec, default: PreemptMode) -> PreemptMode:
    """How a job gives way: as it says itself, else as the policy says."""
    return spec.preempt_mode or default


class ClaimantRights(NamedTuple):
    """Claimants with the same rights may have the same units."""

    #: As in ``Claimant``: the job itself, whether it is best-effort, what it may reclaim.
    job: int
    best_effort: bool
    turns: int
    #: The highest priority of a unit that the claimant is above.
    reach: float
    #: Whether single tasks of elastic jobs are units as well.
    shrinks: bool
    only: int = 0
    borrows: bool = False


class Candidates:
    """All that could give way, by node. Lives as long as one pass."""

    def __init__(
        self,
        cluster: Cluster,
        now_s: float,
        priority_of: Callable[[Job], float],
        rule: VictimRule | None = None,
        *,
        lends: bool = True,
    ) -> None:
        """``lends``: also look at jobs that only give back what their account borrowed."""
        self.cluster = cluster
        self.now_s = now_s
        self._lends = lends
        self._priority_of = priority_of
        self._rule: VictimRule = rule or LostWork(capacity(cluster), len(cluster.nodes))
        #: Attempts that were chosen in this pass: they leave, as if they had been told already.
        self.leaving: dict[str, None] = {}
        #: Jobs that were chosen in this pass to stand still: nobody else may have them now.
        self.suspended: dict[int, None] = {}
        #: When the first of those that were spared for their youth no longer is; 0: none was.
        self.ripe_s = 0.0
        self._is_elastic = False
        self._units: dict[int, tuple[Unit, ...]] = {}
        #: What the rule was last asked about of each job; of a whole one where it may go whole.
        self._victims: dict[int, Victim] = {}
        #: What each job is worth; for a pass that is settled with the first look.
        self._priorities: dict[int, float] = {}
        #: When each job that is spared for its youth no longer is.
        self._ripe_s: dict[int, float] = {}
        self._on_node: dict[str, tuple[Unit, ...]] = {}
        self._allowed: dict[ClaimantRights, Allowed] = {}

    def on(self, name: str) -> tuple[Unit, ...]:
        """The units that hold room on a node, those that leave anyway first."""
        known = self._on_node.get(name)
        if known is None:
            found = sorted(self._look(self.cluster.nodes[name]), key=lambda unit: unit.order)
            known = self._on_node[name] = tuple(found)
        return known

    @cached_property
    def _levels(self) -> list[float]:
        """What the jobs on all nodes are worth."""
        for name in self.cluster.nodes:
            self.on(name)
        return sorted(set(self._priorities.values()))

    @property
    def elastic(self) -> bool:
        """Whether a job could give up single tasks."""
        return bool(self._levels) and self._is_elastic

    def ripe_on_s(self, name: str) -> float:
        """When the first job on a node that is spared for its youth no longer is; infinite: none.

        A job that did not start yet may start at once.
        """
        where = self.cluster.live.where
        jobs = [where[uid][0] for uid in self.cluster.nodes[name].live]
        return min([self._ripe_s.get(job, INFINITE) for job in jobs], default=INFINITE)

    def rights(self, claimant: Claimant, *, shrinks: bool) -> ClaimantRights:
        """``shrinks``: it may have single tasks of elastic jobs as well."""
        levels = self._levels
        above = bisect_left(levels, True, key=lambda level: not claimant.is_above(level))
        reach = levels[above - 1] if above else -INFINITE
        rights = ClaimantRights(claimant.job, claimant.best_effort, claimant.turns, reach, shrinks)
        if claimant.only or claimant.borrows:
            return rights._replace(only=claimant.only, borrows=claimant.borrows)
        return rights

    def known_to(self, claimant: Claimant) -> list[Victim]:
        """The jobs that it may evict as a whole, as victim rules see them, by their ids."""
        units = [unit for name in self.cluster.nodes for unit in self.on(name)]
        jobs = {u.job for u in units if u.job and u.task < 0 and claimant.may_have(u)}
        return [self._victims[job] for job in sorted(jobs)]

    def allowed(self, rights: ClaimantRights, claimant: Claimant) -> Allowed:
        """What a claimant may have on each node."""
        known = self._allowed.get(rights)
        if known is None:
            known = self._allowed[rights] = Allowed(self, claimant, shrinks=rights.shrinks)
        return known

    def forget(self, units: Iterable[Unit]) -> list[str]:
        """They were chosen: from here on their attempts leave, or stand still. On which nodes."""
        names: dict[str, None] = {}
        for unit in units:
            if unit.lends:
                self.suspended[unit.job] = None
            else:
                self.leaving.update(dict.fromkeys([uid for uid, _ in unit.held]))
            for other in (unit, *self._units.pop(unit.job, ())):
                names.update(dict.fromkeys([held.node for _, held in other.held]))
        changed = [name for name in names if name in self.cluster.nodes]
        for name in changed:
            self._on_node.pop(name, None)
            for known in self._allowed.values():
                known.forget(name)
        return changed

    def _look(self, node: Node) -> Iterator[Unit]:
        seen: set[int] = set()
        # By job, not by who was placed first: after a restart nobody remembers that.
        where = self.cluster.live.where
        for uid in sorted(node.live, key=where.__getitem__):
            if uid in node.withheld:
                continue
            job_id, task = where[uid]
            job = self.cluster.jobs[job_id]
            attempt = job.tasks[task].attempts[-1]
            if uid in self.leaving or attempt.stop_cause is not None:
                held = self.cluster.live.freed_by(attempt)
                yield Unit(0, 0.0, 0.0, True, True, ((uid, held),), amount_of(held))
            elif job_id not in seen:
                seen.add(job_id)
                yield from self._here(job, node.name)

    def _here(self, job: Job, name: str) -> Iterator[Unit]:
        """The units of a job that hold something on this node."""
        units = self._units.get(job.id)
        if units is None:
            units = self._units[job.id] = tuple(self._cut(job))
        for unit in units:
            if any(allocation.node == name for _, allocation in unit.held):
                yield unit

    def _cut(self, job: Job) -> Iterator[Unit]:
        """The whole job, and each task of an elastic one while enough others stay."""
        spec, rules = job.spec, self.cluster.policy.preempt
        best_effort = spec.service is ServiceClass.BEST_EFFORT
        preemptible = spec.preemptible or best_effort or not rules.only_willing
        elastic = spec.elastic
        if not (preemptible or elastic or self._lends) or self._spared(job):
            return
        live = [
            (task.role, task.index, attempt)
            for task in job.tasks
            if (attempt := task.attempts[-1] if task.attempts else None) is not None
            and attempt.live
            and attempt.stop_cause is None
            and attempt.uid not in self.leaving
        ]
        if job.preemptions < rules.max_per_job:
            yield self._unit(job, [attempt for _, _, attempt in live], preemptible=preemptible)
        if not elastic:
            return
        for role, index, attempt in live:
            floor = spec.roles[role].min_count if role < len(spec.roles) else 0
            spare = sum(other == role for other, _, _ in live) - floor
            if 0 < floor < spec.roles[role].count and spare > 0:
                self._is_elastic = True
                # A job that names a least size has said that the rest may go.
                part = self._unit(job, [attempt], preemptible=True)
                yield part._replace(task=index, role=role, spare=spare)

    def _worth(self, job: Job) -> float:
        known = self._priorities.get(job.id)
        if known is None:
            known = self._priorities[job.id] = self._priority_of(job)
        return known

    def _spared(self, job: Job) -> bool:
        """Jobs that nobody may evict, or not now."""
        spec = job.spec
        firm = spec.service is ServiceClass.GUARANTEED or spec.promised
        if firm or job.id in self.suspended:
            return True
        queue = self.cluster.queues.get(spec.queue)
        if queue is not None and not queue.preemptible:
            return True
        # An attempt that did not start yet has nothing to give up and is about to: let it.
        started_s = job.started_s
        min_runtime_s = self.cluster.policy.preempt.min_runtime_s
        if not started_s:
            self._ripe_s[job.id] = self.now_s + max(min_runtime_s, 1)
            return True
        ripe_s = started_s + min_runtime_s
        if ripe_s > self.now_s:
            self._ripe_s[job.id] = ripe_s
            self.ripe_s = min(self.ripe_s or ripe_s, ripe_s)
            return True
        return any(a.stop_cause not in (None, Cause.SHRUNK) for a in job.live_attempts)

    def _unit(self, job: Job, attempts: list[Attempt], *, preemptible: bool) -> Unit:
        """What these attempts of a job hold, and what it costs if they go."""
        held = amount_of_all([attempt.allocation for attempt in attempts])
        started_s, worth = job.started_s, self._worth(job)
        victim = Victim(
            job.id,
            job.spec.user,
            worth,
            self.now_s - started_s,
            max(0.0, self.now_s - max(started_s, job.checkpoint_s)),
            held,
            job.preemptions,
            float(job.spec.restart_cost_s),
        )
        self._victims.setdefault(job.id, victim)
        cost = max(0.0, self._rule.cost(victim))
        best_effort = job.spec.service is ServiceClass.BEST_EFFORT
        if best_effort:
            cost *= BEST_EFFORT_WEIGHT
        held_by = self.cluster.live.held_by
        return Unit(
            job.id,
            COST_MIN + cost,
            worth,
            best_effort,
            preemptible,
            tuple([(attempt.uid, held_by(attempt)) for attempt in attempts]),
            held,
        )


class Allowed:
    """What claimants with the same rights may have, by node."""

    def __init__(self, candidates: Candidates, claimant: Claimant, *, shrinks: bool) -> None:
        self._candidates = candidates
        self._claimant = claimant
        self._shrinks = shrinks
        self._units: dict[str, NodeUnits] = {}
        #: The least that any of it costs.
        self._leasts: dict[str, Least] = {}

    def on(self, name: str) -> NodeUnits:
        known = self._units.get(name)
        if known is None:
            may_have, shrinks = self._claimant.may_have, self._shrinks
            every = self._candidates.on(name)
            mine = [unit for unit in every if (shrinks or unit.task < 0) and may_have(unit)]
            known = self._units[name] = NodeUnits(self._candidates.cluster.nodes[name], mine)
        return known

    def bounds(
        self, names: Sequence[str], request: Request, rooms: Mapping[str, Room]
    ) -> list[tuple[float, str]]:
        """What room for a request costs at the least, on each node where it may be had."""
        leasts = self._leasts
        for name in names:
            if name not in leasts:
                leasts[name] = self.on(name).least(rooms[name])
        return bounds(names, rooms, request, leasts)

    def forget(self, name: str) -> None:
        self._units.pop(name, None)
        self._leasts.pop(name, None)
