"""Counting what waits and runs, in one walk over what is unfinished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.policy import HIGH_MIN, LOW_MAX
from rota.core.facts.states import ACTIVE, WAITING, JobState

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec


def band_of(priority: int) -> str:
    """The word for a priority."""
    if priority >= HIGH_MIN:
        return "high"
    return "low" if priority <= LOW_MAX else "normal"


class QueueTally:
    """The counters of one queue."""

    __slots__ = ("pending", "running")

    def __init__(self) -> None:
        self.pending = 0
        self.running = 0


class Tally:
    """Counts by state, by band (of what waits) and by queue."""

    def __init__(self, cluster: Cluster) -> None:
        counts = cluster.count_states()
        self.states = {str(state): count for state, count in counts.items()}
        self.pending = sum(counts[state] for state in WAITING)
        self.active = sum(counts[state] for state in ACTIVE)
        self._cluster = cluster
        self._walked = False
        self._bands = {"high": 0, "normal": 0, "low": 0}
        self._queues: dict[str, QueueTally] = {}

    @property
    def bands(self) -> dict[str, int]:
        self._walk()
        return self._bands

    @property
    def queues(self) -> dict[str, QueueTally]:
        self._walk()
        return self._queues

    def _walk(self) -> None:
        if self._walked:
            return
        self._walked = True
        cluster = self._cluster
        for state in WAITING:
            for job_id in cluster.census.by_state[state]:
                self._add_waiting(cluster.jobs[job_id].spec, 1)
        for array in cluster.arrays.values():
            if array.waiting:
                self._add_waiting(array.spec, len(array.pending()))
        for state in (JobState.SCHEDULED, JobState.RUNNING):
            for job_id in cluster.census.by_state[state]:
                self._queue(cluster.jobs[job_id].spec).running += 1

    def _add_waiting(self, spec: JobSpec, count: int) -> None:
        self._bands[band_of(spec.priority)] += count
        self._queue(spec).pending += count

    def _queue(self, spec: JobSpec) -> QueueTally:
        found = self._queues.get(spec.queue)
        if found is None:
            found = self._queues[spec.queue] = QueueTally()
        return found
