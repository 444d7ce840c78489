"""A list of jobs that come one after the other and stay: where are they put, and who finds no room?

Published work on packing fills a cluster this way, without a clock: every job is placed when it
comes or left out for good. ``place_list`` drives the same Cluster and the same passes as the live
scheduler. Arrivals share a pass, which deals with them in their order: as nobody ever leaves,
a job that finds no room in it would not have found any had it come alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.cluster import Cluster
from rota.core.facts.errors import Rejected
from rota.core.facts.job import JobSpec, Outcome, Role
from rota.core.facts.policy import Backfill, BackfillRules, Mixing, OrderRules, PlaceRules, Policy
from rota.core.facts.states import Cause, JobState
from rota.scheduling.place.coming import Coming
from rota.scheduling.place.fragments import typical_shapes, weighed_loss
from rota.scheduling.place.scores import STRATEGIES
from rota.scheduling.registry import refuse_unknown
from rota.scheduling.scheduler import Scheduler
from rota.sim.machine import as_tasks
from rota.sim.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.facts.node import Allocation, NodeSpec
    from rota.core.facts.resources import Request
    from rota.scheduling.place.fragments import Typical
    from rota.sim.trace import Trace, TraceJob

#: The one moment at which everything happens: 0 means "never" in the core.
NOW_S = 1.0
#: Arrivals that share a pass.
AT_ONCE = 256
#: The curve of what was given has a point after each step of this many percent asked for.
STEP_PERCENT = 5
NEVER_S = float("inf")
NO_ROOM = Outcome(JobState.UNSCHEDULABLE, Cause.SCHEDULING_TIMEOUT)


def place_list(
    trace: Trace,
    nodes: Sequence[NodeSpec],
    strategy: str,
    arrivals: list[str] | None = None,
    node_order: list[str] | None = None,
    progress: Callable[[int], object] | None = None,
    *,
    at_once: int = AT_ONCE,
) -> Run:
    """Put the jobs of a trace on empty nodes by one strategy of placement.

    ``arrivals`` are names of jobs in the order in which they come, where one may come several
    times; without it they come once each, in the order of their submission. Of equally good nodes
    the first in ``node_order`` is taken, else the first as listed. What the strategy ``fgd`` takes
    for typical is the whole list. Jobs that were left out never start (their times are infinite).
    ``at_once`` is how many share a pass, which changes nothing but the time it takes.
    """
    jobs = _arriving(trace, arrivals)
    names = _ordered([node.name for node in nodes], node_order)
    cpu_s = time.process_time()
    # As published; our own measure minds the rare ones, too.
    typical = typical_shapes(_counted(trace), 0, *((100,) if strategy == "score" else ()))
    stage = _Stage(nodes, names, _policy(strategy), typical)
    curve = _Curve(sum(len(node.devices) for node in nodes))
    for first in range(0, len(jobs), at_once):
        some = jobs[first : first + at_once]
        for job, given in zip(some, stage.place(some), strict=True):
            curve.add(stage.asked_milli(job), given)
        if progress is not None:
            progress(first + len(some))
    run = _result(jobs, nodes, stage, strategy)
    run.cpu_s = time.process_time() - cpu_s
    run.extra = {
        "allocated": curve.points(),
        "allocated_percent": round(curve.percent(curve.given_milli), 2),
        "unallocated_gpus": (1000 * curve.devices - curve.given_milli) / 1000,
        "fragmentation": round(stage.fragmentation(typical), 2),
        "failed": sum(not where for where in stage.nodes_of),
    }
    return run


def _policy(strategy: str) -> Policy:
    """Nothing but the strategy decides: who comes is placed or not, and devices are equal."""
    policy = Policy(
        order=OrderRules(primary="fifo", secondary="fifo", wait_max_s=0),
        backfill=BackfillRules(kind=Backfill.NONE),
        place=PlaceRules(
            strategy=strategy, cpu_jobs_on_gpu_nodes=Mixing.ALLOW, devices="sequential"
        ),
    )
    refuse_unknown("place.strategy", strategy, STRATEGIES)
    return policy


def _arriving(trace: Trace, arrivals: list[str] | None) -> list[TraceJob]:
    jobs = [as_tasks(job, trace.unit, 0) for job in trace.jobs]
    if arrivals is None:
        return sorted(jobs, key=lambda job: job.submit_s)
    by_name: dict[str, TraceJob] = {}
    twice: set[str] = set()
    for job in jobs:
        if job.name in by_name:
            twice.add(job.name)
        by_name[job.name] = job
    for name in arrivals:
        if name not in by_name:
            raise Rejected.bad("arrivals", name, f"{trace.name} has no job of this name")
        if name in twice:
            raise Rejected.bad("arrivals", name, f"{trace.name} has several jobs of this name")
    return [by_name[name] for name in arrivals]


def _ordered(names: list[str], order: list[str] | None) -> list[str]:
    if order is None:
        return names
    known, seen = set(names), set[str]()
    for name in order:
        if name not in known:
            raise Rejected.bad("node order", name, "the cluster has no node of this name")
        if name in seen:
            raise Rejected.bad("node order", name, "each node may be there once")
        seen.add(name)
    for name in names:
        if name not in seen:
            raise Rejected(f"node order: node {name!r} of the cluster is missing", field="order")
    return order


def _counted(trace: Trace) -> Iterable[tuple[Request, int]]:
    for job in trace.jobs:
        told = as_tasks(job, trace.unit, 0)
        if told.request is not None:
            yield told.request, told.tasks


class _Stage:
    """A Cluster that fills up."""

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        names: list[str],
        policy: Policy,
        typical: tuple[Typical, ...],
    ) -> None:
        self._cluster = Cluster("sim")
        apply(self._cluster, ev.PolicySet(policy=policy), NOW_S)
        # The core takes the first of equals by name, so nodes are called by their place.
        digits = len(str(len(names)))
        places = {name: f"{place:0{digits}}" for place, name in enumerate(names)}
        self._names = {place: name for name, place in places.items()}
        for node in nodes:
            spec = msgspec.structs.replace(node, name=places[node.name])
            registered = ev.NodeRegistered(spec=spec, incarnation="i", boot_id="b")
            apply(self._cluster, registered, NOW_S)
        self._scheduler = Scheduler(self._cluster)
        self._scheduler.coming = Coming(typical)
        self._specs: dict[tuple[object, int], JobSpec] = {}
        #: Where each arrival was put; empty: nowhere.
        self.nodes_of: list[str] = []

    def place(self, jobs: Sequence[TraceJob]) -> list[bool]:
        """The next arrivals and one pass: whether each of them found room."""
        cluster = self._cluster
        first = len(self.nodes_of) + 1
        for number, job in enumerate(jobs, first):
            submitted = ev.JobSubmitted(
                job=number, uid=str(number), spec=self._spec(job), eligible=True
            )
            apply(cluster, submitted, NOW_S)
        plan = self._scheduler.run(NOW_S, len(jobs) + 1)
        placed = {start.job: start.allocations for start in plan.starts}
        for number in range(first, first + len(jobs)):
            allocations = placed.get(number, ())
            self._record(number, allocations)
            held = dict.fromkeys(self._names[allocation.node] for allocation in allocations)
            self.nodes_of.append(",".join(held))
        cluster.take_dirty()
        return [number in placed for number in range(first, first + len(jobs))]

    def _record(self, number: int, allocations: Sequence[Allocation]) -> None:
        for task, allocation in enumerate(allocations):
            placed = ev.AttemptPlaced(
                job=number,
                task=task,
                uid=f"{number}.{task}.1",
                allocation=allocation,
                incarnation="i/b",
            )
            apply(self._cluster, placed, NOW_S)
        if not allocations:
            apply(self._cluster, ev.JobSettled(job=number, outcome=NO_ROOM), NOW_S)

    def asked_milli(self, job: TraceJob) -> int:
        """Thousandths of devices that all its tasks ask for."""
        return sum(role.count * role.request.device_use_milli for role in self._spec(job).roles)

    def fragmentation(self, typical: tuple[Typical, ...]) -> float:
        """Percent of what is left of the devices that is of no use to the typical shapes."""
        self._scheduler.catch_up(NOW_S)
        space = self._scheduler.space
        spares = [space.spare(name) for name in self._cluster.nodes]
        free = sum(sum(spare.devices) for spare in spares)
        return 100 * sum(weighed_loss(spare, typical) for spare in spares) / free if free else 0.0

    def _spec(self, job: TraceJob) -> JobSpec:
        """Equal jobs share one spec."""
        assert job.request is not None
        key = (job.request, job.tasks)
        known = self._specs.get(key)
        if known is None:
            role = Role(count=job.tasks, request=job.request)
            known = self._specs[key] = JobSpec(name="job", user="", roles=(role,))
        return known


class _Curve:
    """How much was given when this much had been asked for.

    A point is the mean over all arrivals after which the percentage asked for rounds to it, of
    what was given then in hundredths of a percent: the way published curves are made.
    """

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.given_milli = 0
        self._asked_milli = 0
        self._seen: dict[int, list[float]] = {}

    def percent(self, milli: int) -> float:
        return milli / self.devices / 10 if self.devices else 0.0

    def add(self, asked_milli: int, given: bool) -> None:
        self._asked_milli += asked_milli
        if given:
            self.given_milli += asked_milli
        seen = self._seen.setdefault(round(self.percent(self._asked_milli)), [])
        seen.append(round(self.percent(self.given_milli), 2))

    def points(self) -> dict[int, float]:
        """By the percentage asked for; where none rounds to it its neighbours stand in."""
        found: dict[int, float] = {}
        for at in range(0, max(self._seen, default=-1) + 1, STEP_PERCENT):
            near = [value for place in (at - 1, at, at + 1) for value in self._seen.get(place, ())]
            seen = self._seen.get(at) or near
            if seen:
                found[at] = round(sum(seen) / len(seen), 2)
        return found


def _result(jobs: list[TraceJob], nodes: Sequence[NodeSpec], stage: _Stage, strategy: str) -> Run:
    """Without a clock everything is one moment; a job that was left out never has its own."""
    devices = sum(len(node.devices) for node in nodes)
    times = [0.0 if where else NEVER_S for where in stage.nodes_of]
    return Run(
        policy=strategy,
        jobs=[msgspec.structs.replace(job, submit_s=0.0) for job in jobs],
        capacity=devices or sum(node.cpu_milli for node in nodes) // 1000,
        unit="GPUs" if devices else "processors",
        start_s=times,
        end_s=[*times],
        estimate_s=[job.estimate_s for job in jobs],
        nodes=stage.nodes_of,
    )
