"""What waits in which queue, for how long and for what."""

from __future__ import annotations

import msgspec
from litestar import get

from rota.api.context import Asking, context_of
from rota.scheduling.queue_stats import QueueStats, queue_stats


class QueueStatsView(msgspec.Struct):
    """``reasons`` counts the waiting jobs by the code of what keeps each of them waiting."""

    name: str
    state: str
    waiting: int
    running: int
    oldest_wait_s: float
    mean_wait_s: float
    waiting_cpus: float
    waiting_gpus: float
    running_cpus: float
    running_gpus: float
    reasons: dict[str, int]


class AllQueueStatsView(msgspec.Struct):
    items: list[QueueStatsView]


def stats_view(stats: QueueStats) -> QueueStatsView:
    return QueueStatsView(
        name=stats.name,
        state=stats.state,
        waiting=stats.waiting,
        running=stats.running,
        oldest_wait_s=round(stats.oldest_wait_s, 3),
        mean_wait_s=round(stats.mean_wait_s, 3),
        waiting_cpus=stats.wanted.cpu_milli / 1000,
        waiting_gpus=stats.wanted.device_milli / 1000,
        running_cpus=stats.held.cpu_milli / 1000,
        running_gpus=stats.held.device_milli / 1000,
        reasons=stats.reasons,
    )


@get("/queues:stats", summary="What waits in each queue, and why", opt={"right": "read"})
async def stats(request: Asking) -> AllQueueStatsView:
    """Per queue: jobs, waits, what they want and hold, and the reasons why they wait."""
    host = context_of(request).host
    found = queue_stats(host.scheduler, host.clock.now_s())
    return AllQueueStatsView([stats_view(one) for one in found])


ROUTES = [stats]
