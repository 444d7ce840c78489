"""Giving way without leaving: a victim stands still and lends its CPUs, and nothing else.

Its memory, disk and devices stay its own, so this serves only who lacks nothing but CPUs. A lender
lends exactly what its borrower takes, and has it back in the moment in which that one goes. Who
borrows does not lend, so loans form no chains; who sends a borrower away may take its loans over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.features import Feature, can
from rota.core.facts.job import ServiceClass
from rota.core.facts.loans import Loan, without
from rota.core.facts.node import Allocation
from rota.core.facts.policy import PreemptMode
from rota.core.facts.states import Phase
from rota.scheduling.evict.unit import COST_MIN, Unit
from rota.scheduling.evict.victims import Candidates, mode_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job
    from rota.scheduling.place.node_room import Room


def suspends(cluster: Cluster) -> bool:
    """Whether victims may stand still instead of leaving."""
    mode = cluster.policy.preempt.mode
    return mode is PreemptMode.SUSPEND or bool(cluster.live.stoppable)


class Lenders(Candidates):
    """Jobs that could stand still, by node, with the CPUs they hold; and attempts that leave."""

    def _cut(self, job: Job) -> Iterator[Unit]:
        """The whole job or nothing: single tasks of a gang do not stand still."""
        spec, rules = job.spec, self.cluster.policy.preempt
        best_effort = spec.service is ServiceClass.BEST_EFFORT
        preemptible = spec.preemptible or best_effort or not rules.only_willing
        if mode_of(spec, rules.mode) is not PreemptMode.SUSPEND:
            return
        if not (preemptible or self._lends):
            return
        stands = bool(job.yields_to)
        if self._spared(job) or not self._may_lend(job):
            return
        if job.preemptions >= rules.max_per_job and not stands:
            return
        unit = self._unit(job, job.live_attempts, preemptible=preemptible)
        left = [(a.uid, _unlent(self.cluster, a)) for a in job.live_attempts]
        parts = [(uid, _cpus_of(held)) for uid, held in left if held.cpu_milli > 0]
        if parts:
            cost = COST_MIN if stands else unit.cost
            yield unit._replace(held=tuple(parts), cost=cost, lends=True)

    def _may_lend(self, job: Job) -> bool:
        """Whether all of it runs and stays, on CPUs of its own, beside others, and nobody
        suspended it."""
        return (not job.suspended_s or bool(job.yields_to)) and all(
            attempt.phase is Phase.RUNNING
            and attempt.stop_cause is None
            and attempt.uid not in self.leaving
            and not attempt.borrows
            and not attempt.allocation.exclusive
            and self._can_stand_still(attempt.allocation.node)
            for attempt in job.live_attempts
        )

    def _can_stand_still(self, name: str) -> bool:
        node = self.cluster.nodes.get(name)
        return node is None or can(node.spec, Feature.SUSPEND)


def _unlent(cluster: Cluster, attempt: Attempt) -> Allocation:
    """What nobody has of it, and nobody was promised."""
    return without(attempt.allocation, cluster.live.loans.get(attempt.uid, {}).values())


def _cpus_of(held: Allocation) -> Allocation:
    return Allocation(held.node, held.cpu_milli, 0, cpus=held.cpus)


def loans_for(
    cluster: Cluster,
    rooms: Mapping[str, Room],
    units: Sequence[Unit],
    allocations: Sequence[Allocation],
) -> tuple[tuple[Loan, ...], ...]:
    """Which CPUs of lenders each allocation takes; empty: there is none.

    Lenders are the units that stand still, and the lenders of a victim that is sent away.
    """
    lenders: dict[str, dict[str, Allocation]] = {}
    free: dict[str, int] = {}
    gone = {uid for unit in units if not unit.lends for uid, _ in unit.held}
    for unit in units:
        for uid, held in unit.held:
            here = lenders.setdefault(held.node, {})
            if unit.lends:
                here[uid] = _sum(here.get(uid), held)
                continue
            free[held.node] = free.get(held.node, 0) + held.cpu_milli
            for loan in _taken_over(cluster, unit, uid, gone):
                free[held.node] -= loan.cpu_milli
                part = Allocation(held.node, loan.cpu_milli, 0, cpus=loan.cpus)
                here[loan.lender] = _sum(here.get(loan.lender), part)
    if not any(lenders.values()):
        return ()
    found = []
    for taken in allocations:
        name = taken.node
        left = free.get(name, 0) + rooms[name].cpu_milli
        free[name] = free.get(name, 0) - taken.cpu_milli
        short = min(taken.cpu_milli, max(0, taken.cpu_milli - left))
        loans = _draw(taken, short, lenders.get(name, {}))
        # What was lent is no longer taken from what is free.
        free[name] += sum(loan.cpu_milli for loan in loans)
        found.append(loans)
    return tuple(found)


def _taken_over(cluster: Cluster, unit: Unit, uid: str, gone: set[str]) -> Iterator[Loan]:
    """The loans of a victim that its successor may have; a lender that leaves lends no more."""
    if not unit.job:
        return
    job_id, task = cluster.live.where[uid]
    for loan in cluster.jobs[job_id].tasks[task].attempts[-1].borrows:
        if loan.lender in cluster.live.where and loan.lender not in gone:
            yield loan


def _sum(one: Allocation | None, other: Allocation) -> Allocation:
    if one is None:
        return other
    cpus = tuple(sorted({*one.cpus, *other.cpus}))
    return Allocation(one.node, one.cpu_milli + other.cpu_milli, 0, cpus=cpus)


def _draw(taken: Allocation, short: int, lenders: dict[str, Allocation]) -> tuple[Loan, ...]:
    """The single CPUs that are taken, and of the amount that is missing what each one has."""
    wanted = set(taken.cpus)
    pinned = {uid: tuple(c for c in held.cpus if c in wanted) for uid, held in lenders.items()}
    milli = {uid: min(held.cpu_milli, 1000 * len(pinned[uid])) for uid, held in lenders.items()}
    missing = short - sum(milli.values())
    loans = []
    for uid, held in lenders.items():
        more = min(max(0, missing), held.cpu_milli - milli[uid])
        missing -= more
        if more or pinned[uid]:
            loan = Loan(uid, milli[uid] + more, pinned[uid])
            loans.append(loan)
            lenders[uid] = without(held, [loan])
    return tuple(loans)
