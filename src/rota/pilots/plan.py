"""How many allocations would help, by what waits: pure, and never more than that.

Jobs are packed into allocations as they would be into empty nodes, the large ones first. Those that
have been asked for and are not there yet are filled first; what is there and busy does not count,
as jobs that fit there would not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.pilots.shapes import PilotShape


class PilotNeed(NamedTuple):
    """Equal jobs wait: what a task of them asks for, and by number who would take it."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    tasks: int
    jobs: int
    fits: tuple[int, ...]


class Offer(NamedTuple):
    """Allocations of one shape that a pilot could ask for."""

    pilot: str
    shape: PilotShape
    #: What one costs in an hour: the cheapest are asked for first.
    price: float = 0.0
    #: How many were asked for and are not there yet.
    coming: int = 0


def wanted(
    offers: Sequence[Offer], needs: Sequence[PilotNeed], allowed: dict[str, int]
) -> list[int]:
    """For each offer how many of those that come are of use, more of them included.

    ``allowed`` says how many more each pilot may ask for.
    """
    left = [need.jobs * need.tasks for need in needs]
    more = dict(allowed)
    useful = [0] * len(offers)
    for at in sorted(range(len(offers)), key=lambda at: (offers[at].price, at)):
        offer = offers[at]
        most = offer.coming + max(0, more.get(offer.pilot, 0))
        useful[at] = _pack(offer.shape, at, most, needs, left)
        more[offer.pilot] = more.get(offer.pilot, 0) - max(0, useful[at] - offer.coming)
    return useful


def _pack(
    shape: PilotShape, at: int, most: int, needs: Sequence[PilotNeed], left: list[int]
) -> int:
    """How many of one shape are filled; ``left`` are the tasks that remain."""
    bins: list[list[int]] = []
    order = sorted(
        range(len(needs)),
        key=lambda n: (-needs[n].gpus, -needs[n].cpu_milli, -needs[n].memory_mib, n),
    )
    for number in order:
        need = needs[number]
        if at not in need.fits or not left[number]:
            continue
        asked = (need.cpu_milli, need.memory_mib, need.gpus)
        free = [_fit(room, asked) for room in bins]
        whole = _fit([shape.cpu_milli, shape.memory_mib or need.memory_mib, shape.gpus], asked)
        # Of a gang all tasks start or none.
        placed = min(left[number], sum(free) + whole * (most - len(bins)))
        placed -= placed % need.tasks
        left[number] -= placed
        for room, count in zip(bins, free, strict=True):
            placed -= _take(room, asked, min(placed, count))
        while placed:
            room = [shape.cpu_milli, shape.memory_mib or need.memory_mib * whole, shape.gpus]
            bins.append(room)
            placed -= _take(room, asked, min(placed, whole))
    return len(bins)


def _fit(room: list[int], asked: tuple[int, int, int]) -> int:
    """How many tasks fit; one that asks for nothing takes an allocation like any other."""
    counts = [free // amount for free, amount in zip(room, asked, strict=True) if amount > 0]
    return min(counts, default=1)


def _take(room: list[int], asked: tuple[int, int, int], count: int) -> int:
    for at, amount in enumerate(asked):
        room[at] -= amount * count
    return count
