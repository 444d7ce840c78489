"""What waits in which queue, for how long and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from litestar import get

from rota.api import params
from rota.api.context import Asking, actor_of, context_of
from rota.api.views.paging import Listed, ListPart
from rota.scheduling.answers.next_job import CorePolicy
from rota.scheduling.answers.queue_stats import QueueStats, QueueWord, queue_stats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.scheduling.answers.next_job import SchedulingPolicy


class QueueStatsView(msgspec.Struct):
    """``reasons`` counts the waiting jobs by the code of what keeps each of them waiting."""

    name: str
    state: QueueWord
    waiting: int
    running: int
    oldest_wait_s: float
    mean_wait_s: float
    waiting_cpus: float
    waiting_gpus: float
    running_cpus: float
    running_gpus: float
    reasons: dict[str, int]
    #: Who comes first by the rules among those that wait for room; null: nobody.
    next_job: int | None


class AllQueueStatsView(Listed):
    items: list[QueueStatsView]


def stats_view(stats: QueueStats, next_job: int | None) -> QueueStatsView:
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
        next_job=next_job,
    )


def next_in(cluster: Cluster, policy: SchedulingPolicy, name: str) -> int | None:
    """The id of the job of a queue that comes first; None where none is ready."""
    queue = cluster.queues.get(name)
    chosen = None if queue is None else policy.select_next_job(queue, _heads(cluster, name))
    return None if chosen is None else chosen.id


def _heads(cluster: Cluster, queue: str) -> Iterator[Job]:
    """The first of each lane is enough: a job behind it differs in nothing but its age."""
    for lane in cluster.lanes.lanes.values():
        if lane.key.queue == queue:
            item = next(lane.walk())[1]
            array = cluster.arrays.get(item)
            if array is None:
                yield cluster.jobs[item]
            elif pending := array.pending():
                yield array.expand(pending.first())


@get(
    "/queues:stats",
    summary="What waits in each queue, and why",
    opt={"right": "read", "errors": (429,)},
)
async def all_queue_stats(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> AllQueueStatsView:
    """Per queue: jobs, waits, what they want and hold, why they wait, and who comes next."""
    context, actor = context_of(request), actor_of(request)
    found = await context.questions.ask(actor, lambda: _looked_up(context.host))
    page, after = ListPart(limit, cursor).of(found, lambda one: one.name)
    return AllQueueStatsView(page, cursor=after)


def _looked_up(host: Host) -> list[QueueStatsView]:
    """Of every kind of job that waits it is asked why: with many of them that takes long."""
    now_s = host.clock.now_s()
    policy = CorePolicy(host.scheduler, now_s)
    found = sorted(queue_stats(host.scheduler, now_s), key=lambda one: one.name)
    return [stats_view(one, next_in(host.cluster, policy, one.name)) for one in found]


ROUTES = [all_queue_stats]
