"""What waits in which queue, for how long and for what: one walk over all that is unfinished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from rota.core.derived.holdings import least_of
from rota.core.derived.lanes import shape_of
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.states import ACTIVE, WAITING
from rota.scheduling.answers.explain import Inquiry, code_of
from rota.scheduling.limits.quota import held_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.scheduling.scheduler import Scheduler


#: A queue's state; ``unknown``: it is gone, with jobs that wait in it.
QueueWord = Literal["active", "paused", "draining", "closed", "unknown"]


class QueueStats(msgspec.Struct):
    """One queue. Waits count from when nothing but room was missing, else from the submit."""

    name: str
    state: QueueWord
    waiting: int = 0
    running: int = 0
    oldest_wait_s: float = 0.0
    mean_wait_s: float = 0.0
    #: What the waiting jobs need to start, and what the running ones hold.
    wanted: Amount = NOTHING
    held: Amount = NOTHING
    #: Code of the decisive reason -> how many jobs wait for it.
    reasons: dict[str, int] = {}


def queue_stats(scheduler: Scheduler, now_s: float) -> list[QueueStats]:
    """All queues by name. Jobs of one lane share their reason, so it costs no more than a list."""
    cluster = scheduler.cluster
    found = {
        name: QueueStats(name, queue.state.value) for name, queue in sorted(cluster.queues.items())
    }
    inquiry = Inquiry(scheduler, now_s)
    of_lane: dict[int, str] = {}
    for item, count in _waiting(cluster):
        stats = found.get(item.spec.queue)
        if stats is None:
            stats = found[item.spec.queue] = QueueStats(item.spec.queue, "unknown")
        lane = cluster.lanes.where.get(item.id)
        code = of_lane.get(lane.number) if lane is not None else None
        if code is None:
            code = code_of(inquiry.decisive(item.id))
            if lane is not None:
                of_lane[lane.number] = code
        _count(stats, item, count, code, now_s)
        shape = shape_of(item.spec, cluster.policy.gang.partial)
        stats.wanted = stats.wanted.plus(least_of(shape), count)
    for state, ids in cluster.census.by_state.items():
        for job_id in ids if state in ACTIVE else ():
            job = cluster.jobs[job_id]
            if (stats := found.get(job.spec.queue)) is not None:
                stats.running += 1
                stats.held = stats.held.plus(held_by(cluster, job))
    for stats in found.values():
        stats.mean_wait_s = stats.mean_wait_s / stats.waiting if stats.waiting else 0.0
    return list(found.values())


def _waiting(cluster: Cluster) -> Iterator[tuple[Job | Array, int]]:
    for state, ids in cluster.census.by_state.items():
        if state in WAITING:
            yield from ((cluster.jobs[job_id], 1) for job_id in ids)
    for array in cluster.arrays.values():
        if array.waiting:
            yield array, len(array.pending())


def _count(stats: QueueStats, item: Job | Array, count: int, code: str, now_s: float) -> None:
    wait_s = max(0.0, now_s - (item.eligible_s or item.submitted_s))
    stats.waiting += count
    stats.oldest_wait_s = max(stats.oldest_wait_s, wait_s)
    stats.mean_wait_s += wait_s * count
    stats.reasons[code] = stats.reasons.get(code, 0) + count
