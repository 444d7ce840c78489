"""From recorded jobs to jobs of the core: their ids, their specs, and how long each one runs."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.controller.commands.possible import refuse_impossible
from rota.core.facts.errors import Rejected
from rota.core.facts.job import JobSpec, Role
from rota.core.facts.resources import Request
from rota.core.facts.states import JobState
from rota.scheduling.order.lengths import run_s_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.sim.trace import TraceJob


class Particulars(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a job beyond a line of a trace. Parents are named by their trace ids."""

    spec: JobSpec
    #: Not before this moment of the trace, whatever else.
    eligible_s: float = 0.0
    #: When somebody cancelled it, waiting or not; below 0: nobody did.
    cancel_s: float = -1.0
    #: How it ends when it is over by itself: children ask.
    ends: JobState = JobState.COMPLETED


class StagePart:
    """One job on the stage."""

    __slots__ = (
        *("began_s", "done_s", "ends", "estimate_s", "gave_way", "job", "left_s"),
        *("limited", "nodes", "number", "over_s", "pieces", "round", "start_s"),
    )

    def __init__(self, number: int, job: TraceJob) -> None:
        #: Its id in the core: its place in the order of submission.
        self.number = number
        self.job = job
        #: How long it still has to run, and whether its limit is what ends it.
        self.left_s = job.run_s
        self.limited = False
        #: How long passes take it to run.
        self.estimate_s = 0.0
        self.ends = JobState.COMPLETED
        #: When it last began from where it had been saved, and what it has done since.
        self.start_s: float | None = None
        self.done_s: float = 0
        #: Since when it runs; None: it does not.
        self.began_s: float | None = None
        #: Grows with each start, so that an end of an earlier one is known to be moot.
        self.round = 0
        self.pieces: list[tuple[float, float]] = []
        self.gave_way = 0
        self.nodes = ""
        self.over_s: float | None = None

    @property
    def ends_as_taken(self) -> bool:
        """Whether passes know when it ends: each time that it stays longer it is taken to last
        twice as long."""
        taken_s = self.estimate_s
        while 0 < taken_s < self.left_s:
            taken_s *= 2
        return taken_s == self.left_s

    def stop(self, moment_s: float) -> None:
        """It does not run any more, or for now."""
        if self.began_s is not None:
            self.pieces.append((self.began_s, moment_s))
            self.done_s += moment_s - self.began_s
            self.began_s = None


class Arrival(NamedTuple):
    """A job to be submitted. ``not_before_s`` 0: at once."""

    submit_s: float
    part: StagePart
    spec: JobSpec
    not_before_s: float = 0.0
    #: Below 0: nobody cancels it.
    cancel_s: float = -1.0


class Cast:
    """Who plays, in the order of submission."""

    def __init__(self, cluster: Cluster, *, kill: bool) -> None:
        self._cluster = cluster
        self._kill = kill
        self._specs: dict[tuple[object, ...], JobSpec] = {}
        self._possible: dict[tuple[object, ...], bool] = {}
        #: Those that fit on no set of nodes, and are left out.
        self.too_large = 0

    def arrivals(
        self, jobs: Sequence[TraceJob], particulars: Mapping[int, Particulars]
    ) -> list[Arrival]:
        jobs = sorted(jobs, key=lambda job: job.submit_s)
        numbers = {job.id: number for number, job in enumerate(jobs, start=1)}
        found: list[Arrival] = []
        for number, job in enumerate(jobs, start=1):
            part = StagePart(number, job)
            known = particulars.get(job.id)
            spec = self._spec(job) if known is None else self._known(known.spec, numbers)
            if not self._fits(spec):
                self.too_large += 1
                continue
            limit_s = job.estimate_s if known is None else spec.time_limit_s
            if self._kill and limit_s and limit_s < job.run_s:
                part.left_s, part.limited = limit_s, True
            part.estimate_s = run_s_of(self._cluster, spec, spec.roles)
            if known is None:
                found.append(Arrival(job.submit_s, part, spec))
            else:
                part.ends = known.ends
                found.append(Arrival(job.submit_s, part, spec, known.eligible_s, known.cancel_s))
        return found

    def _known(self, spec: JobSpec, numbers: Mapping[int, int]) -> JobSpec:
        """Where no job is stopped at its limit, it is only what the user said."""
        if spec.time_limit_s and not self._kill:
            said_s = spec.estimate_s or spec.time_limit_s
            spec = msgspec.structs.replace(spec, time_limit_s=0, estimate_s=said_s)
        return _with_parents(spec, numbers)

    def _fits(self, spec: JobSpec) -> bool:
        shape = (spec.roles, spec.placement.node_count, spec.placement.topology, spec.service)
        known = self._possible.get(shape)
        if known is None:
            try:
                refuse_impossible(self._cluster, spec)
                known = bool(self._cluster.nodes)
            except Rejected:
                known = False
            self._possible[shape] = known
        return known

    def _spec(self, job: TraceJob) -> JobSpec:
        """Equal jobs share one spec. A queue that the site does not have is no queue."""
        estimate_s = ceil(job.estimate_s)
        queue = job.queue if job.queue in self._cluster.queues else "default"
        asked = (job.request, job.tasks) if job.request is not None else (job.procs,)
        key = (job.user, job.group, job.name, queue, job.priority, estimate_s, *asked)
        known = self._specs.get(key)
        if known is None:
            request = job.request or Request(cpu_milli=1000 * job.procs)
            tasks = job.tasks if job.request is not None else 1
            known = self._specs[key] = JobSpec(
                name=job.name or "job",
                user=job.user,
                project=job.group,
                queue=queue,
                priority=job.priority,
                roles=(Role(count=tasks, request=request),),
                time_limit_s=estimate_s if self._kill else 0,
                estimate_s=estimate_s,
                grace_s=0,
            )
        return known


def _with_parents(spec: JobSpec, numbers: Mapping[int, int]) -> JobSpec:
    """Parents by their ids in the core; those that are not played had their say before."""
    if not spec.dependencies:
        return spec
    parents = tuple(
        msgspec.structs.replace(parent, parent=numbers[parent.parent])
        for parent in spec.dependencies
        if parent.parent in numbers
    )
    return msgspec.structs.replace(spec, dependencies=parents)
