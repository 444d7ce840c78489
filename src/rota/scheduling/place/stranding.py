"""How many devices a placement strands: free, but without the CPUs or the neighbours to be of use.

For each sort of request that comes, the measure is how much of a node's free devices would stay
idle if nothing else came any more: tasks of that sort are put on it until the CPUs, the devices or
what is left of them do not suffice for one more. Weighed over all sorts that is what the node
*strands*. A task goes where it strands the least. That a single task still fits, which is what
``fgd`` looks at, says little about a node with eight free devices and the CPUs for one.

Whole numbers only. Where two nodes strand equally much, the fuller one is better.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.place.fragments import can_use, share_milli, take_from
from rota.scheduling.place.node_room import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.facts.resources import Request
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.place.free import Free, Total

#: The weight of all sorts together, about.
SUM = 4096
#: What is stranded counts in parts of a thousandth of a device: this many of them.
PARTS = 6
#: A task that strands or frees more than four devices is not told from one that does so.
MOST = 4 * WHOLE * PARTS
#: Among nodes that strand equally much this many degrees of fullness are told apart.
DEGREES = 6
#: Fits are whole numbers from 0 to this.
FINEST = 2 * MOST * DEGREES
#: States of devices that are remembered; then the memory starts anew.
REMEMBERED_MAX = 20_000

#: How many devices a task takes, and how many thousandths of each.
Taking = tuple[int, int]
NO_DEVICE = (0, 0)
#: The same and its CPUs in thousandths: all that the fit depends on.
Asked = tuple[Taking, int]
#: Thousandths of each device left on a node, most first; the memory of one; kinds and models.
Devices = tuple[tuple[int, ...], int, tuple[tuple[str, str], ...]]
#: The numbers of a node's class and of what its devices have left, and its free CPUs.
State = tuple[int, int, int]


class Lot(NamedTuple):
    """The sorts that come and take equally much of the devices of a node."""

    #: How many devices, and how many thousandths of each.
    taking: Taking
    #: By CPUs the weight of a task times what it uses of devices; the most CPUs, and the sum.
    values: dict[int, int]
    cpus_max: int
    worth: int


def _lots_of(sorts: Sequence[tuple[int, Request]], devices: Devices) -> list[Lot]:
    _, device_mib, makes = devices
    found: dict[Taking, dict[int, int]] = {}
    for weight, request in sorts:
        if can_use(request, makes):
            count, milli = taking = request.device_count, share_milli(request, device_mib)
            values, cpus = found.setdefault(taking, {}), request.cpu_milli or 1
            values[cpus] = values.get(cpus, 0) + weight * milli * count
    return [
        Lot(taking, values, max(values), sum(values.values())) for taking, values in found.items()
    ]


class Spot:
    """The free devices of a node, and how much of them is of use with these CPUs."""

    __slots__ = ("_least", "_lots", "after", "devices", "free", "known")

    def __init__(self, devices: Devices, lots: list[Lot], total: int) -> None:
        lefts = devices[0]
        self.devices = devices
        self.free, idle = sum(lefts), lefts.count(WHOLE)
        #: What the devices are once a task has taken its own, by what it takes; None: it cannot.
        self.after: dict[Taking, Spot | None] = {NO_DEVICE: self}
        #: What is stranded if CPUs are no matter: what all sorts could use, less what they do.
        self._least = total * self.free
        #: How many tasks of each lot the devices take then, and the CPUs that suffice for these:
        #: the most first.
        self._lots: list[tuple[int, int, dict[int, int]]] = []
        for (count, milli), values, cpus_max, worth in lots:
            places = idle if milli == WHOLE else sum([left // milli for left in lefts])
            if places := places // count:
                self._least -= places * worth
                self._lots.append((places * cpus_max, places, values))
        self._lots.sort(key=itemgetter(0), reverse=True)
        #: By the CPUs that are left: thousandths of devices, times the weight of all sorts.
        self.known: dict[int, int] = {}

    def stranded(self, cpu_milli: int) -> int:
        """What is ``known`` from now on for this number of CPUs."""
        stranded = self._least
        for enough, places, values in self._lots:
            if cpu_milli >= enough:
                break
            for cpus, value in values.items():
                if (number := cpu_milli // cpus) < places:
                    stranded += value * (places - number)
        self.known[cpu_milli] = stranded
        return stranded


def asked_of(request: Request, device_mib: int) -> Asked:
    """What a request takes of a node with devices of this memory."""
    if not request.device_count:
        return NO_DEVICE, request.cpu_milli
    taking = request.device_count, share_milli(request, device_mib)
    return taking, request.cpu_milli


class Fits:
    """How good a node with such devices and this number of free CPUs is, by what a task asks."""

    __slots__ = ("free_milli", "known", "spot", "total")

    def __init__(self, spot: Spot, free_milli: int, total: Total) -> None:
        self.spot, self.free_milli, self.total = spot, free_milli, total
        self.known: dict[Asked, int] = {}


class Stranding:
    """What placements strand, for one set of sorts that come."""

    def __init__(self, typical: Iterable[Typical]) -> None:
        self._sorts = [
            (max(1, round(SUM * share)), request)
            for share, request in typical
            if request.device_count
        ]
        self._total = sum(weight for weight, _ in self._sorts)
        self._makes: dict[tuple[object, ...], list[Lot]] = {}
        self._spots: dict[Devices, Spot] = {}
        self.fits: dict[State, Fits] = {}

    def fits_in(self, state: State, devices: Devices, total: Total) -> Fits:
        """What is among the ``fits`` from now on: of nodes in this state."""
        if len(self.fits) >= REMEMBERED_MAX:
            self.fits.clear()
        fits = self.fits[state] = Fits(self.spot(devices), state[2], total)
        return fits

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

    def fit(self, asked: Asked, fits: Fits) -> int:
        """What is ``known`` from now on of a task: the more, the better."""
        fit = fits.known[asked] = self._fit(asked, fits.spot, fits.free_milli, fits.total)
        return fit

    def _fit(self, asked: Asked, spot: Spot, free_milli: int, total: Total) -> int:
        taking, cpu_milli = asked
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
        return self._fit(asked_of(request, total[4]), spot, free[0], total)

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
