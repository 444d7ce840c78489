"""What happens in the core, as far as the clock of a played cluster must see to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.tick.forecast import Forecast
from rota.controller.tick.scribe import Scribe
from rota.core.changes import events as ev
from rota.core.changes.apply import apply

if TYPE_CHECKING:
    from rota.core.cluster import Cluster


class SimNotes(Scribe):
    """Applies events at once and remembers what the clock must see to."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        super().__init__(cluster, now_s, 1)
        #: Something happened since the last pass.
        self.told = True
        self.placed: list[ev.AttemptPlaced] = []
        self.asked: dict[int, None] = {}
        #: Jobs that wait again, and whether it was because they gave way.
        self.back: list[tuple[int, bool]] = []
        self.settled: list[int] = []
        #: What jobs that ended teach about those that come at the same moment, and later.
        self.forecast = Forecast()
        #: Jobs that stand still (True) or go on.
        self.paused: list[tuple[int, bool]] = []

    def emit(self, event: ev.AnyEvent) -> None:
        # It is gone from the Cluster with the event.
        ended = self.cluster.jobs[event.job] if isinstance(event, ev.JobSettled) else None
        apply(self.cluster, event, self.now_s)
        if ended is not None:
            self.settled.append(ended.id)
            self.forecast.learn(ended)
        self.told = True
        if isinstance(event, ev.AttemptPlaced):
            self.placed.append(event)
        elif isinstance(event, ev.AttemptStopAsked):
            self.asked[event.job] = None
        elif isinstance(event, ev.JobPreempted | ev.JobRequeued):
            self.back.append((event.job, isinstance(event, ev.JobPreempted)))
        elif isinstance(event, ev.JobSuspended | ev.JobResumed):
            self.paused.append((event.job, isinstance(event, ev.JobSuspended)))
