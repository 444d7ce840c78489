"""How many devices a placement strands: free, but without the CPUs or the neighbours to be of use.

For each sort of request that comes, the measure is how much of a node's free devices would stay
idle if nothing else came any more: tasks of that sort are put on it until the CPUs, the devices or
what is left of them do not suffice for one more. Weighed over all sorts that is what the node
*strands*. A task goes where it strands the least. That a single task still fits, which is what
``fgd`` looks at, says little about a node with eight free devices and the CPUs for one.

Whole numbers only. Where two nodes strand equally much, the fuller one is better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.place.fragments import can_use, share_milli, take_from
from rota.scheduling.place.node_room import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.facts.resources import Request
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.place.free import Free, Total

#: The weight of all sorts together, about.
SUM = 4096
#: What is stranded counts in so many parts of a thousandth of a device.
PARTS = 6
#: A task that strands or frees more than four devices is not told from one that does so.
MOST = 4 * WHOLE * PARTS
#: Among nodes that strand equally much so many degrees of fullness are told apart.
DEGREES = 6
#: Fits are whole numbers from 0 to this.
FINEST = 2 * MOST * DEGREES
#: States of devices that are remembered; then the memory starts anew.
REMEMBERED_MAX = 20_000

#: How many devices a task takes, and how many thousandths of each.
Taking = tuple[int, int]
NO_DEVICE = (0, 0)
#: Thousandths of each device left on a node, most first; the memory of one; kinds and models.
Devices = tuple[tuple[int, ...], int, tuple[tuple[str, str], ...]]


#: What the sorts that come want of nodes with one sort of device. By thousandths of each device
#: and how many, in which few sorts differ: the weight of each task times what it uses, its CPUs.
_Lots = dict[Taking, list[tuple[int, int]]]


def _lots_of(sorts: Sequence[tuple[int, Request]], devices: Devices) -> _Lots:
    _, device_mib, makes = devices
    lots: _Lots = {}
    for weight, request in sorts:
        if can_use(request, makes):
            lot = (share_milli(request, device_mib), request.device_count)
            value = (weight * lot[0] * lot[1], request.cpu_milli or 1)
            lots.setdefault(lot, []).append(value)
    return lots


class Spot:
    """The free devices of a node, and how much of them is of use with so many CPUs."""

    __slots__ = ("_lots", "_places", "_whole", "after", "devices", "free", "known")

    def __init__(self, devices: Devices, lots: _Lots, total: int) -> None:
        lefts = devices[0]
        self.devices = devices
        self.free = sum(lefts)
        #: What all of it would be worth if all sorts could use it.
        self._whole = total * self.free
        #: What the devices are once a task has taken its own, by what it takes; None: it cannot.
        self.after: dict[Taking, Spot | None] = {NO_DEVICE: self}
        self._lots, idle = lots, lefts.count(WHOLE)
        #: How many tasks of each lot the devices take if CPUs are no matter.
        self._places = [
            (idle if share == WHOLE else sum([left // share for left in lefts])) // count
            for share, count in lots
        ]
        #: By the CPUs that are left: thousandths of devices, times the weight of all sorts.
        self.known: dict[int, int] = {}

    def stranded(self, cpu_milli: int) -> int:
        """What is ``known`` from now on for so many CPUs."""
        useful = [
            value * (number if (number := cpu_milli // cpus) < places else places)
            for places, sorts in zip(self._places, self._lots.values(), strict=True)
            if places
            for value, cpus in sorts
        ]
        stranded = self.known[cpu_milli] = self._whole - sum(useful)
        return stranded


def taking(request: Request, device_mib: int) -> Taking:
    """What a request takes of devices with so much memory."""
    if not request.device_count:
        return NO_DEVICE
    return request.device_count, share_milli(request, device_mib)


class Stranding:
    """What placements strand, for one set of sorts that come."""

    def __init__(self, typical: Iterable[Typical]) -> None:
        self._sorts = [
            (max(1, round(SUM * share)), request)
            for share, request in typical
            if request.device_count
        ]
        self._total = sum(weight for weight, _ in self._sorts)
        self._makes: dict[tuple[object, ...], _Lots] = {}
        self._spots: dict[Devices, Spot] = {}

    def spot(self, devices: Devices) -> Spot:
        known = self._spots.get(devices)
        if known is None:
            if len(self._spots) >= REMEMBERED_MAX:
                self._spots.clear()
            make = self._makes.get(devices[1:])
            if make is None:
                make = self._makes[devices[1:]] = _lots_of(self._sorts, devices)
            known = self._spots[devices] = Spot(devices, make, self._total)
        return known

    def fit(self, taking: Taking, cpu_milli: int, spot: Spot, free_milli: int, total: Total) -> int:
        """How good it is to take so much of a node with so many free CPUs: the more, the better."""
        after = spot.after[taking] if taking in spot.after else self._after(taking, spot)
        if after is None:
            return 0
        left = free_milli - cpu_milli
        known = spot.known
        before = known[free_milli] if free_milli in known else spot.stranded(free_milli)
        known = after.known
        gain = before - (known[left] if left in known else after.stranded(left))
        gain = gain * PARTS // self._total
        if gain >= MOST:
            gain = MOST - 1
        elif gain < -MOST:
            gain = -MOST
        # CPUs and devices that stay free, each as a part of what the node has.
        parts = total[3] * WHOLE
        free = (left * parts + after.free * total[0]) * (DEGREES - 1) // (2 * total[0] * parts)
        return (gain + MOST) * DEGREES + DEGREES - 1 - free

    def score(self, request: Request, free: Free, total: Total) -> int:
        """The same by what is left and what there is."""
        spot = self.spot((free[5], total[4], total[5]))
        return self.fit(taking(request, total[4]), request.cpu_milli, spot, free[0], total)

    def _after(self, taking: Taking, spot: Spot) -> Spot | None:
        """What the devices are once a task has its own, the fullest that have room."""
        lefts, device_mib, makes = spot.devices
        count, share = taking
        fitting = [left for left in lefts if left >= share]
        after = None
        if len(fitting) >= count:
            after = self.spot((take_from(lefts, fitting[-count:], share), device_mib, makes))
        spot.after[taking] = after
        return after
