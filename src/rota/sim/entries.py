"""Recorded jobs as orderings see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.lanes import LaneKey, Shape
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.placing import ANYWHERE
from rota.core.facts.resources import Request
from rota.scheduling.api import Entry
from rota.sim.settings import BEGIN_S

if TYPE_CHECKING:
    from rota.sim.trace import TraceJob


class Entries:
    """Makes entries; jobs of one size share a shape."""

    def __init__(self) -> None:
        self._shapes: dict[int, Shape] = {}

    def entry(self, number: int, job: TraceJob, run_s: float, limit_s: int) -> Entry:
        """``limit_s``: its time limit; 0: none."""
        shape = self._shapes.get(job.procs)
        if shape is None:
            role = Role(request=Request(cpu_milli=job.procs * 1000))
            shape = Shape((role,), ANYWHERE, ServiceClass.BURSTABLE)
            self._shapes[job.procs] = shape
        key = LaneKey(
            job.procs,
            "",
            "",
            0,
            job.user,
            job.group,
            job.priority,
            limit_s,
            0,
            0.0,
            "",
        )
        since_s = BEGIN_S + job.submit_s
        return Entry(number, key, shape, since_s, since_s, run_s)
