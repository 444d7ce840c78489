"""Whether a Cluster has a timer for everything that is due later."""

from collections.abc import Iterator

from rota.core.cluster import Cluster
from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.states import ACTIVE, WAITING


def missing_timers(cluster: Cluster, now_s: float) -> list[tuple[float, str, int]]:
    """Moments to come at which something is due and no timer will ring, then or before."""
    rings: dict[tuple[str, int], float] = {}
    for timer in cluster.agenda.timers:
        known = rings.get((timer.kind, timer.id), timer.at_s)
        rings[timer.kind, timer.id] = min(known, timer.at_s)
    waiting: list[Job | Array] = [*cluster.jobs.values()]
    waiting += [array for array in cluster.arrays.values() if array.waiting]
    due = [moment for item in waiting for moment in _due(item)]
    return [
        (at_s, kind, item)
        for at_s, kind, item in due
        if at_s > now_s and rings.get((kind, item), at_s + 1) > at_s
    ]


def _due(item: Job | Array) -> Iterator[tuple[float, str, int]]:
    spec = item.spec
    waits = isinstance(item, Array) or item.state in WAITING
    if waits and item.not_before_s and not item.eligible_s and not item.held:
        yield item.not_before_s, "begin", item.id
    if waits and spec.dependency_timeout_s and spec.dependencies and not item.parents_met:
        yield item.submitted_s + spec.dependency_timeout_s, "parents", item.id
    if waits and spec.scheduling_timeout_s and item.eligible_s:
        yield item.eligible_s + spec.scheduling_timeout_s, "unschedulable", item.id
    if isinstance(item, Job) and item.state in ACTIVE and item.limit_due_s:
        stopping = any(attempt.stop_cause is not None for attempt in item.live_attempts)
        yield from () if stopping else [(item.limit_due_s, "time-limit", item.id)]
