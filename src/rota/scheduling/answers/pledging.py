"""Whether a job that comes can be promised to be done by a moment: ``rota submit --by``.

The line is planned with the job in its place, as if every job stayed for as long as it may. Where
the job gets its room in time by that plan, it is kept for it as a reservation: from then on another
job may use it only if its limit ends it in time, wherever that job stands in the line. So a yes
holds as long as the nodes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rota.scheduling.answers.advice import HUGE, size_of
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.answers.waiting_line import part_of
from rota.scheduling.answers.whatif import Added, WhatIf, start_in

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec
    from rota.core.facts.node import Allocation, Node
    from rota.scheduling.answers.waiting_line import Part
    from rota.scheduling.scheduler import Scheduler

Ground = tuple[object, ...]
#: Jobs of the line that are planned; of one that stands further behind no plan tells.
DEPTH = 100
#: A start that is further away waits for a job without a limit: nobody can say when that ends.
HORIZON_S = 10 * 365 * 86400.0


class Pledge(NamedTuple):
    """When a job can start at the latest, and in which room."""

    start_s: float
    room: tuple[Allocation, ...]


class PlaceInLine(NamedTuple):
    """How many jobs stand before one that waits for room, and which nodes it may use."""

    ahead: int
    part: Part


class Weighed(NamedTuple):
    """The start that was found for a job, and what that rests on."""

    pledge: Pledge | None
    ground: Ground = ()


def weigh(scheduler: Scheduler, spec: JobSpec, now_s: float) -> Weighed:
    """What can be promised, to be held against the Cluster later on."""
    pledge = pledge_for(scheduler, spec, now_s)
    return Weighed(pledge, ground_of(scheduler.cluster, pledge.room) if pledge is not None else ())


def ground_of(cluster: Cluster, room: tuple[Allocation, ...]) -> Ground:
    """Who may stay how long on the nodes of this room, what is kept there, and the rules.

    While these are the same, nothing has come between the room and its job.
    """
    names = dict.fromkeys(held.node for held in room)
    known = [cluster.nodes[name] for name in names if name in cluster.nodes]
    return (
        cluster.agenda.rules_version,
        tuple(cluster.reservations.values()),
        *((node.takes_work, node.spec, {**node.live}, {**node.withheld}) for node in known),
        *(_limits_s(cluster, node) for node in known),
    )


def _limits_s(cluster: Cluster, node: Node) -> list[int]:
    jobs = (cluster.jobs[cluster.live.where[uid][0]] for uid in node.live)
    return [job.spec.time_limit_s for job in jobs]


def place_in_line(scheduler: Scheduler, spec: JobSpec, now_s: float) -> PlaceInLine | None:
    """Where a new job would wait for room; None: it would not wait."""
    with WhatIf(scheduler, now_s) as world:
        job = world.cluster.ids.next
        world.make(Added(spec))
        world.run()
        lane = world.cluster.lanes.where.get(job)
        ahead = Inquiry(world.scheduler, now_s).tree(job).ahead
        if ahead is None or lane is None:
            return None
        return PlaceInLine(ahead.jobs, part_of(world.scheduler, lane.key.shape))


def pledge_for(scheduler: Scheduler, spec: JobSpec, now_s: float) -> Pledge | None:
    """The start that a new job can rely on; None: there is none."""
    if size_of(scheduler.cluster) > HUGE:
        return None
    with WhatIf(scheduler, now_s) as world:
        job = world.cluster.ids.next
        # Room is needed for its whole limit, however long it will probably run.
        world.make(Added(replace(spec, estimate_s=0, predicted_s=0, predicted_most_s=0)))
        start = start_in(world.run(), job)
        if start is not None:
            return Pledge(now_s, start.allocations)
        promise = world.foretell(DEPTH, firm=True).get(job)
    if promise is None or promise.start_s > now_s + HORIZON_S:
        return None
    return Pledge(promise.start_s, promise.allocations)
