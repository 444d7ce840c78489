"""Devices that are free and of no use: how many there are, and what would mend it.

A free device, or a free part of one, is *lost* to a shape that cannot use it: the node lacks the
CPUs or memory to go with it, too few devices are free beside it, or the part is too small. Weighed
over the shapes that usually come, that is the fragmentation of a node. The strategy ``fgd`` puts
each job where this grows the least; ``fragmentation`` sums it up for a cluster and says which
moves would lower it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.resources import Request
    from rota.scheduling.scores import Free, Total

#: A whole device, in the parts that are counted here.
WHOLE = 1000

#: Losses of so many different states are remembered; then the memory starts anew.
REMEMBERED_MAX = 20_000


class Typical(NamedTuple):
    """A shape that usually comes, and how often."""

    weight: int
    request: Request


def typical_shapes(counted: Iterable[tuple[Request, int]], most: int = 24) -> tuple[Typical, ...]:
    """The most frequent shapes that want devices; the others do not mind fragments."""
    weights: dict[Request, int] = {}
    for request, times in counted:
        if request.device_count:
            weights[request] = weights.get(request, 0) + times
    # A stable sort: among equals the one that came first, so no order of sets gets in.
    ranked = sorted(weights.items(), key=lambda item: -item[1])[:most]
    return tuple(Typical(weight, request) for request, weight in ranked if weight > 0)


class Spare(NamedTuple):
    """What is left on a node, with every device in thousandths, most first."""

    cpu_milli: int
    memory_mib: int
    devices: tuple[int, ...]
    device_mib: int


def spare_of(free: Free, total: Total) -> Spare:
    size = total.device_mib
    parts = [WHOLE * left // size for left in free.partly_used] if size else []
    devices = tuple(sorted((*parts, *(WHOLE for _ in range(free.idle_devices))), reverse=True))
    return Spare(free.cpu_milli, free.memory_mib, devices, size)


def share_milli(request: Request, device_mib: int) -> int:
    """Thousandths of a device that a request takes on each one it gets."""
    if not request.shared or not device_mib:
        return WHOLE
    return max(1, min(WHOLE, -(-WHOLE * request.share_of(device_mib) // device_mib)))


def lost_milli(spare: Spare, request: Request) -> int:
    """Thousandths of the free devices that this request could not use."""
    cpu_milli, memory_mib, devices, device_mib = spare
    free = sum(devices)
    if request.cpu_milli > cpu_milli or request.memory_mib > memory_mib:
        return free
    share = share_milli(request, device_mib)
    fitting = small = 0
    for left in devices:
        if left >= share:
            fitting += 1
        else:
            small += left
    return small if fitting >= request.device_count else free


def weighed_loss(spare: Spare, typical: Sequence[Typical]) -> int:
    """The loss to each shape times its weight: comparable among nodes for one ``typical``."""
    return sum(weight * lost_milli(spare, request) for weight, request in typical)


def after(spare: Spare, request: Request) -> Spare | None:
    """What is left once the request runs there, on the fullest devices; None: it does not fit."""
    cpu_milli = spare.cpu_milli - request.cpu_milli
    memory_mib = spare.memory_mib - request.memory_mib
    if cpu_milli < 0 or memory_mib < 0:
        return None
    devices = spare.devices
    if request.device_count:
        share = share_milli(request, spare.device_mib)
        fitting = sum(left >= share for left in devices)
        first = fitting - request.device_count
        if first < 0:
            return None
        changed = [left - share for left in devices[first:fitting]]
        kept = (*devices[:first], *changed, *devices[fitting:])
        devices = tuple(sorted(filter(None, kept), reverse=True))
    return Spare(cpu_milli, memory_mib, devices, spare.device_mib)


class Gradient:
    """How much the loss grows when a request is put on a node, for one set of typical shapes.

    Losses are remembered: what a node is after one placement is what it is before the next.
    """

    def __init__(self, typical: Sequence[Typical]) -> None:
        self._typical = tuple(typical)
        self._weight = sum(shape.weight for shape in typical) or 1
        self._losses: dict[Spare, int] = {}

    def of(self, request: Request, free: Free, total: Total) -> int:
        """On average over the shapes, in thousandths of a device."""
        before = spare_of(free, total)
        later = after(before, request)
        if later is None:
            return WHOLE * total.devices
        return (self._loss(later) - self._loss(before)) // self._weight

    def _loss(self, spare: Spare) -> int:
        loss = self._losses.get(spare)
        if loss is None:
            if len(self._losses) >= REMEMBERED_MAX:
                self._losses.clear()
            loss = self._losses[spare] = weighed_loss(spare, self._typical)
        return loss


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
    """Moving this job makes so many thousandths of devices useful again."""

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
    weight = sum(shape.weight for shape in typical) or 1
    free = sum(sum(spare.devices) for spare in spares.values())
    lost = sum(weighed_loss(spare, typical) for spare in spares.values()) // weight
    moves: list[Move] = []
    left = [task for task in movable if task.node in spares and task.request.device_count]
    while left and len(moves) < moves_max:
        found = _best_move(spares, typical, left, allowed)
        if found is None or found[0] < weight:
            break
        gain, task, target, here, there = found
        spares[task.node], spares[target] = here, there
        moves.append(Move(task.job, task.node, target, gain // weight))
        # What it left behind changed the devices that its neighbours sit on: their turn is over.
        left = [other for other in left if other.node not in (task.node, target)]
    return Fragmentation(100 * lost // free if free else 0, free, lost, tuple(moves))


def _best_move(
    spares: dict[str, Spare],
    typical: Sequence[Typical],
    movable: Sequence[Movable],
    allowed: Callable[[Movable, str], bool] | None,
) -> tuple[int, Movable, str, Spare, Spare] | None:
    best: tuple[int, Movable, str, Spare, Spare] | None = None
    losses = {name: weighed_loss(spare, typical) for name, spare in spares.items()}
    for task in movable:
        here = _without(spares[task.node], task)
        gain_here = losses[task.node] - weighed_loss(here, typical)
        tried: dict[Spare, int | None] = {}
        for name, spare in spares.items():
            if name == task.node or (allowed is not None and not allowed(task, name)):
                continue
            there = after(spare, task.request)
            if there is None:
                continue
            if spare not in tried:
                tried[spare] = gain_here + losses[name] - weighed_loss(there, typical)
            gain = tried[spare] or 0
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
    return Spare(
        spare.cpu_milli + request.cpu_milli,
        spare.memory_mib + request.memory_mib,
        tuple(sorted(devices, reverse=True)),
        spare.device_mib,
    )
