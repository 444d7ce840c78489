"""What waits for room, and which of it a node that does not exist yet would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.outcomes import is_for_room
from rota.scheduling.place.filters import Case, first_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.derived.lanes import Lane, Shape
    from rota.core.facts.job import Role
    from rota.core.facts.node import NodeSpec
    from rota.scheduling.scheduler import Scheduler


class RoomNeed(NamedTuple):
    """A number of equal jobs wait for room: what a task of them asks for, and who would take it."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    #: Tasks that start together.
    tasks: int
    jobs: int
    #: By the number of the offer.
    fits: tuple[int, ...]


def needs(scheduler: Scheduler, offers: Sequence[NodeSpec], jobs_max: int) -> list[RoomNeed]:
    """What waits for room and for nothing else. ``ends_s`` of an offer is how long it is there.

    More than ``jobs_max`` equal jobs are told as that number.
    """
    found: dict[RoomNeed, int] = {}
    cluster, waits = scheduler.cluster, scheduler.waits
    for number, lane in cluster.lanes.by_number.items():
        wait = waits.of(number)
        if wait is None or number in waits.open or not is_for_room(wait):
            continue
        shape = cluster.lanes.shapes[lane.key.shape]
        jobs = _jobs(scheduler, lane)
        for role in shape.roles:
            request = role.request
            fits = tuple(
                at for at, spec in enumerate(offers) if _takes(scheduler, lane, shape, role, spec)
            )
            tasks = shape.least_tasks(role)
            need = RoomNeed(
                request.cpu_milli, request.memory_mib, request.device_count, tasks, 0, fits
            )
            found[need] = min(jobs_max, found.get(need, 0) + jobs)
    return [need._replace(jobs=jobs) for need, jobs in found.items()]


def _jobs(scheduler: Scheduler, lane: Lane) -> int:
    """An array stands in its lane once, for all of its elements that may start."""
    count, arrays = 0, scheduler.cluster.arrays
    for item in lane.members:
        array = arrays.get(item)
        waiting = len(array.pending()) if array is not None else 1
        count += min(waiting, array.cap) if array is not None and array.cap else waiting
    return count


def _takes(scheduler: Scheduler, lane: Lane, shape: Shape, role: Role, spec: NodeSpec) -> bool:
    key = lane.key
    if key.reservation or shape.placement.nodes:
        return False
    if spec.ends_s and not 0 < key.time_limit_s <= spec.ends_s:
        stays = not key.time_limit_s and (spec.unlimited or key.saves)
        if not stays:
            return False
    if spec.user and key.user != spec.user:
        return False
    policy = scheduler.cluster.policy
    case = Case(shape._replace(user=key.user), role.request, spec, spec.labels, spec.taints, policy)
    return not first_problem(case).filter
