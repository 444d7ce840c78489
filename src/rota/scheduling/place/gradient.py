"""How much of the free devices a placement makes useless: what the strategy ``fgd`` keeps small.

The rule is that of Weng et al., "Beware of Fragmentation" (ATC 2023), to the last digit: the loss
to each typical shape, weighed by how often it comes, before and after. A score is a whole number
of hundredths, many nodes are equally good, and the first of them is taken.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import reduce
from math import exp
from operator import add
from typing import TYPE_CHECKING

from rota.scheduling.place.fragments import Spare, after, can_use, share_milli, spare_of, take_from
from rota.scheduling.place.node_room import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.facts.resources import Request
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.place.free import Free, Total

#: Device states that are remembered; then the memory starts anew.
REMEMBERED_MAX = 20_000

#: Why a device is lost to a shape. Losses are added up cause by cause in this order, as the
#: authors do it: the last digit of a sum depends on it, and so does the rounding of a score.
LACKS_BOTH, LACKS_DEVICES, LACKS_CPUS, WANTS_NONE, WANTS_CPUS, OTHER_MAKE = range(6)

#: Lots of shapes that want no device, and of those that may not use the ones that there are.
NO_DEVICE, NO_USE = (0, 0), (0, 1)

#: Beyond this an exponential is too large for a number, and the score is 0 anyway.
EXPONENT_MAX = 700.0


class _Make:
    """What the typical shapes want of nodes with one sort of device."""

    __slots__ = ("lots", "shapes")

    def __init__(self, typical: Sequence[Typical], steps: Sequence[int], spare: Spare) -> None:
        #: The sorts of wish: (thousandths of each device, how many); few shapes differ in these.
        self.lots: list[tuple[int, int]] = []
        #: (share of the shape, place of its CPUs, its lot)
        self.shapes: list[tuple[float, int, int]] = []
        numbers: dict[tuple[int, int], int] = {}
        for share, request in typical:
            lot = _lot(request, spare)
            number = numbers.get(lot)
            if number is None:
                number = numbers[lot] = len(self.lots)
                self.lots.append(lot)
            self.shapes.append((share, bisect_right(steps, request.cpu_milli), number))


def _lot(request: Request, spare: Spare) -> tuple[int, int]:
    if not request.device_count:
        return NO_DEVICE
    if not can_use(request, spare.makes):
        return NO_USE
    return share_milli(request, spare.device_mib), request.device_count


class _State:
    """The free devices of a node, and the loss for each amount of CPUs that makes a difference."""

    __slots__ = ("_free", "_losses", "_lots", "_shapes")

    def __init__(self, devices: tuple[int, ...], make: _Make, places: int) -> None:
        free = self._free = sum(devices)
        #: (cause and loss with enough CPUs, cause else) of each sort of wish.
        self._lots = [_loss_of(lot, devices, free) for lot in make.lots]
        self._shapes = make.shapes
        self._losses: list[float | None] = [None] * places

    def loss(self, place: int) -> float:
        known = self._losses[place]
        if known is None:
            sums = [0.0] * 6
            free, lots = self._free, self._lots
            for share, needed, number in self._shapes:
                cause, lost, else_cause = lots[number]
                if needed <= place:
                    sums[cause] += share * lost
                else:
                    sums[else_cause] += share * free
            # One after the other: a sum that makes up for what rounding loses ends in other digits.
            known = self._losses[place] = reduce(add, sums)
        return known


def _loss_of(lot: tuple[int, int], devices: tuple[int, ...], free: int) -> tuple[int, int, int]:
    """The cause and the loss where there are enough CPUs, and the cause where there are not."""
    if lot == NO_DEVICE:
        return WANTS_NONE, free, WANTS_CPUS
    if lot == NO_USE:
        return OTHER_MAKE, free, OTHER_MAKE
    share, count = lot
    small = fitting = 0
    for left in devices:
        if left < share:
            small += left
        else:
            fitting += 1
    if fitting < count:
        return LACKS_DEVICES, free, LACKS_BOTH
    return LACKS_DEVICES, small, LACKS_CPUS


class Gradient:
    """Scores of placements for one set of typical shapes.

    Losses are remembered: what a node is after one placement is what it is before the next.
    """

    def __init__(self, typical: Iterable[Typical]) -> None:
        self._typical = tuple(typical)
        self._steps = sorted({shape.request.cpu_milli for shape in self._typical})
        self._makes: dict[tuple[object, ...], _Make] = {}
        self._states: dict[tuple[object, ...], _State] = {}

    def score(self, request: Request, free: Free, total: Total) -> int:
        """Hundredths: 50 where nothing is lost or won, more where fewer devices are useless."""
        spare = spare_of(free, total)
        before = self._loss(spare)
        if not (request.shared and request.device_count == 1):
            later = after(spare, request)
            return _hundredths(before, self._loss(later)) if later is not None else 0
        share = share_milli(request, spare.device_mib)
        best = last = 0
        for left in spare.devices:
            if left < share:
                break
            if left != last:
                best = max(best, self._shared_score(before, spare, request, left, share))
                last = left
        return best

    def pick(self, request: Request, spare: Spare, lefts: Iterable[tuple[int, int]]) -> int:
        """Which device a share goes to, out of (index, thousandths left); the first of equals."""
        before = self._loss(spare)
        share = share_milli(request, spare.device_mib)
        scores: dict[int, int] = {}
        best, chosen = -1, -1
        for index, left in lefts:
            score = scores.get(left)
            if score is None:
                score = self._shared_score(before, spare, request, left, share)
                scores[left] = score
            if score > best:
                best, chosen = score, index
        return chosen

    def _shared_score(
        self, before: float, spare: Spare, request: Request, left: int, share: int
    ) -> int:
        cpu_milli, memory_mib, devices, device_mib, makes = spare
        devices = take_from(devices, (left,), share)
        later = Spare(cpu_milli - request.cpu_milli, memory_mib, devices, device_mib, makes)
        return _hundredths(before, self._loss(later))

    def _loss(self, spare: Spare) -> float:
        cpu_milli, _, devices, device_mib, makes = spare
        state = self._states.get((devices, device_mib, makes))
        if state is None:
            state = self._state(spare)
        return state.loss(bisect_right(self._steps, cpu_milli))

    def _state(self, spare: Spare) -> _State:
        sort = (spare.device_mib, spare.makes)
        make = self._makes.get(sort)
        if make is None:
            make = self._makes[sort] = _Make(self._typical, self._steps, spare)
        if len(self._states) >= REMEMBERED_MAX:
            self._states.clear()
        state = _State(spare.devices, make, len(self._steps) + 1)
        self._states[spare.devices, *sort] = state
        return state


def _hundredths(before: float, later: float) -> int:
    """A loss that shrinks by a whole device is worth 73, one that grows by one 26."""
    return int(1.0 / (1.0 + exp(min((later - before) / WHOLE, EXPONENT_MAX))) * 100)
