"""Devices that are free and of no use: how many there are, and what would mend it.

A free device, or a free part of one, is *lost* to a shape that cannot use it: the node lacks the
CPUs to go with it, too few devices are free beside it, the part is too small, it is another
model, or the shape wants no device at all. Weighed over the shapes that usually come, that is the
fragmentation of a node. The strategy ``fgd`` puts each job where this grows the least
(``gradient.py``); ``fragmentation`` sums it up for a cluster and says which moves would lower it.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.core.derived.demand import BY_RANK, Ranked, rank
from rota.scheduling.place.node_room import WHOLE, is_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.facts.resources import Request
    from rota.scheduling.place.free import Free, Total

#: Shapes count as typical from the most frequent down, until they make up this many percent.
POPULAR_PERCENT = 95
#: In a queue of very many shapes no more than these, or each loss would take long to work out.
SHAPES_MAX = 32
#: A move that gains less than this is not worth it.
LEAST_MILLI = 1


class Typical(NamedTuple):
    """A shape that usually comes, and its share of all that come."""

    share: float
    request: Request


def typical_shapes(
    counted: Iterable[tuple[Request, int]], most: int = SHAPES_MAX, percent: int = POPULAR_PERCENT
) -> tuple[Typical, ...]:
    """The most frequent shapes, with their shares of each other; ``most`` 0: however many.

    They are told apart by CPUs and devices: memory seldom is what makes a device useless.
    """
    counts: dict[Request, int] = {}
    for request, times in counted:
        if times > 0:
            bare = request
            if request.memory_mib or request.disk_mib:
                bare = msgspec.structs.replace(request, memory_mib=0, disk_mib=0)
            counts[bare] = counts.get(bare, 0) + times
    ranked = [(times, rank(request), request) for request, times in counts.items()]
    chosen, total, part = _most(sorted(ranked, key=BY_RANK, reverse=True), most, percent)
    return tuple([Typical(times / total / part, request) for times, _, request in chosen])


def _most(ranked: Sequence[Ranked], most: int, percent: int) -> tuple[Sequence[Ranked], int, float]:
    """The first ones that make up ``percent`` of all; how many all are, and their part."""
    covered = [*accumulate(map(itemgetter(0), ranked))]
    total = covered[-1] if ranked else 0
    count = bisect_left(covered, -(-percent * total // 100)) + 1
    chosen = ranked[: min(count, most) if most else count]
    # Shares in two steps, and not times / covered: published figures depend on the last digit.
    part = covered[len(chosen) - 1] / total if len(chosen) < len(ranked) else 1.0
    return chosen, total, part


def coming_shapes(ranked: Sequence[Ranked]) -> tuple[Typical, ...]:
    """The shapes of all that is unfinished, so that one job more seldom makes a difference.

    They count by their grades, and a rare shape beside many others does not count: each change
    means that all nodes are looked at anew.
    """
    chosen, total, part = _most(ranked[::-1], SHAPES_MAX, POPULAR_PERCENT)
    # There are few grades: a share for each of them, and not one by one.
    shares = {n: round(n / total / part, 6) for n in {*map(itemgetter(0), chosen)}}
    return tuple([Typical(shares[n], request) for n, _, request in chosen])


class Spare(NamedTuple):
    """What is left on a node, with every device in thousandths, most first."""

    cpu_milli: int
    memory_mib: int
    devices: tuple[int, ...]
    device_mib: int
    #: Kind and model of its devices; empty: nobody minds.
    makes: tuple[tuple[str, str], ...] = ()


def spare_of(free: Free, total: Total) -> Spare:
    return Spare(free[0], free[1], free[5], total[4], total[5])


def can_use(request: Request, makes: tuple[tuple[str, str], ...]) -> bool:
    """Whether one of these kinds and models is what a request asks for."""
    return not makes or any(
        kind == request.device and is_variant(model, request.device_type) for kind, model in makes
    )


def share_milli(request: Request, device_mib: int) -> int:
    """Thousandths of a device that a request takes on each one it gets."""
    if not request.shared or not device_mib:
        return WHOLE
    return max(1, min(WHOLE, -(-WHOLE * request.share_of(device_mib) // device_mib)))


def lost_milli(spare: Spare, request: Request) -> int:
    """Thousandths of the free devices that this request could not use."""
    free = sum(spare.devices)
    if not request.device_count or request.cpu_milli > spare.cpu_milli:
        return free
    if not can_use(request, spare.makes):
        return free
    share = share_milli(request, spare.device_mib)
    fitting = small = 0
    for left in spare.devices:
        if left >= share:
            fitting += 1
        else:
            small += left
    return small if fitting >= request.device_count else free


def weighed_loss(spare: Spare, typical: Sequence[Typical]) -> float:
    """The loss to each shape times its share: comparable among nodes for one ``typical``."""
    return sum(share * lost_milli(spare, request) for share, request in typical)


def after(spare: Spare, request: Request) -> Spare | None:
    """What is left once the request runs there, on the fullest devices; None: it does not fit."""
    cpu_milli = spare.cpu_milli - request.cpu_milli
    memory_mib = spare.memory_mib - request.memory_mib
    if cpu_milli < 0 or memory_mib < 0:
        return None
    devices = spare.devices
    if request.device_count:
        share = share_milli(request, spare.device_mib)
        fitting = [left for left in devices if left >= share]
        if len(fitting) < request.device_count:
            return None
        devices = take_from(devices, fitting[-request.device_count :], share)
    return Spare(cpu_milli, memory_mib, devices, spare.device_mib, spare.makes)


def take_from(devices: tuple[int, ...], used: Sequence[int], share: int) -> tuple[int, ...]:
    """The devices once one of each size in ``used`` has given up a share."""
    left = [*devices]
    for size in used:
        left.remove(size)
        if size > share:
            left.append(size - share)
    left.sort(reverse=True)
    return tuple(left)


class NodeUse(NamedTuple):
    """A node for the report."""

    name: str
    free: Free
    total: Total


class Movable(NamedTuple):
    """A running task that could be moved, and the free memory beside it on each shared device."""

    job: int
    node: str
    request: Request
    beside_mib: tuple[int, ...] = ()


class Move(NamedTuple):
    """Moving this job makes this many thousandths of devices useful again."""

    job: int
    source: str
    target: str
    gain_milli: int


class Fragmentation(NamedTuple):
    """How much of what is free is lost to the usual shapes, in percent, and the remedy."""

    percent: int
    free_milli: int
    lost_milli: int
    moves: tuple[Move, ...]


def fragmentation(
    nodes: Iterable[NodeUse],
    typical: Sequence[Typical],
    movable: Sequence[Movable] = (),
    *,
    moves_max: int = 5,
    allowed: Callable[[Movable, str], bool] | None = None,
) -> Fragmentation:
    """The state of a cluster and the moves that help most, one after the other.

    ``allowed`` says whether a job may go to a node for all other reasons (labels, taints, type).
    """
    spares = {use.name: spare_of(use.free, use.total) for use in nodes}
    free = sum(sum(spare.devices) for spare in spares.values())
    lost = round(sum(weighed_loss(spare, typical) for spare in spares.values()))
    moves: list[Move] = []
    left = [task for task in movable if task.node in spares and task.request.device_count]
    while left and len(moves) < moves_max:
        found = _best_move(spares, typical, left, allowed)
        if found is None or found[0] < LEAST_MILLI:
            break
        gain, task, target, here, there = found
        spares[task.node], spares[target] = here, there
        moves.append(Move(task.job, task.node, target, round(gain)))
        # What it left behind changed the devices that its neighbours sit on: their turn is over.
        left = [other for other in left if other.node not in (task.node, target)]
    return Fragmentation(100 * lost // free if free else 0, free, lost, tuple(moves))


def _best_move(
    spares: dict[str, Spare],
    typical: Sequence[Typical],
    movable: Sequence[Movable],
    allowed: Callable[[Movable, str], bool] | None,
) -> tuple[float, Movable, str, Spare, Spare] | None:
    best: tuple[float, Movable, str, Spare, Spare] | None = None
    losses = {name: weighed_loss(spare, typical) for name, spare in spares.items()}
    for task in movable:
        here = _without(spares[task.node], task)
        gain_here = losses[task.node] - weighed_loss(here, typical)
        tried: dict[Spare, float] = {}
        for name, spare in spares.items():
            if name == task.node or (allowed is not None and not allowed(task, name)):
                continue
            there = after(spare, task.request)
            if there is None:
                continue
            if spare not in tried:
                tried[spare] = gain_here + losses[name] - weighed_loss(there, typical)
            gain = tried[spare]
            if best is None or gain > best[0]:
                best = gain, task, name, here, there
    return best


def _without(spare: Spare, task: Movable) -> Spare:
    """The node once the task has left it."""
    request = task.request
    share = share_milli(request, spare.device_mib)
    devices = list(spare.devices)
    if request.shared and spare.device_mib:
        for beside_mib in task.beside_mib:
            beside = WHOLE * beside_mib // spare.device_mib
            if beside in devices:
                devices.remove(beside)
            devices.append(min(WHOLE, beside + share))
    else:
        devices.extend(WHOLE for _ in range(request.device_count))
    return spare._replace(
        cpu_milli=spare.cpu_milli + request.cpu_milli,
        memory_mib=spare.memory_mib + request.memory_mib,
        devices=tuple(sorted(devices, reverse=True)),
    )
