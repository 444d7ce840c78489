"""Recorded jobs as orderings see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.lanes import LaneKey, Shape
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.placing import ANYWHERE
from rota.core.facts.resources import Request
from rota.scheduling.api import Entry

if TYPE_CHECKING:
    from rota.sim.trace import TraceJob

#: The clock of a log may begin at 0, which means "not yet" in the core.
EARLIEST_S = 1e-6


class Entries:
    """Makes entries; jobs of one size share a shape."""

    def __init__(self) -> None:
        self._shapes: dict[int, Shape] = {}

    def entry(self, number: int, job: TraceJob, run_s: float) -> Entry:
        shape = self._shapes.get(job.procs)
        if shape is None:
            role = Role(request=Request(cpu_milli=job.procs * 1000))
            shape = Shape((role,), ANYWHERE, ServiceClass.BURSTABLE)
            self._shapes[job.procs] = shape
        key = LaneKey(
            job.procs,
            job.queue,
            "",
            0,
            job.user,
            job.group,
            job.priority,
            int(job.estimate_s),
            0,
            0.0,
            "",
        )
        since_s = job.submit_s or EARLIEST_S
        return Entry(number, key, shape, since_s, since_s, run_s)
