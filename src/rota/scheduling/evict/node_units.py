"""What one claimant may have on one node, and the least that room would cost there.

What a node lacks for a task is a list of needs: so much CPU and memory, so many attempts that must
go. Each device that could be opened has needs of its own: its holders must go, or so much of its
memory. Once it is chosen which devices to open, all needs are plain sums over units.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.evict.cheapest_set import SETS_MAX, CheapestSet
from rota.scheduling.place.devices import open_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rota.core.facts.node import Allocation, Device, Node
    from rota.core.facts.resources import Request
    from rota.scheduling.evict.unit import Unit
    from rota.scheduling.place.node_room import Room

#: So many choices of devices are compared on one node.
CHOICES_MAX = 128
#: Of what, of which device (-1: of the node).
Kind = tuple[str, int]
#: How much of each kind is needed.
Needs = dict[Kind, int]
#: In the order of cost for each of a kind: sums of what is gained, sums of costs; and the cost of
#: the cheapest unit of those that are not free.
Cover = tuple[list[int], list[float], float]

CPU, MEMORY, DISK = ("cpu", -1), ("memory", -1), ("disk", -1)
#: All attempts on the node, and those that have it to themselves.
ATTEMPTS, ALONE = ("attempts", -1), ("alone", -1)
#: Attempts that hold a device, those that do not share it, and memory of it.
HOLDERS, TAKERS, SHARED_MIB = "holders", "takers", "shared"


class Wish(NamedTuple):
    """What one task asks of a node; ``own``: the job has the node to itself already."""

    request: Request
    firm: bool
    exclusive: bool
    own: bool

    def fits(self, room: Room) -> bool:
        request, alone = self.request, self.exclusive and not self.own
        return not room.shortage(request, firm=self.firm, exclusive=alone, own=self.own)

    def needs(self, room: Room) -> Needs:
        """What the node lacks, but for devices."""
        request, needs = self.request, Needs()
        cpu_milli, memory_mib = room.cpu_milli, room.memory_mib
        if self.firm:
            cpu_milli = min(cpu_milli, room.firm_cpu_milli)
            memory_mib = min(memory_mib, room.firm_memory_mib)
        if request.cpu_milli > cpu_milli:
            needs[CPU] = request.cpu_milli - cpu_milli
        if request.memory_mib > memory_mib:
            needs[MEMORY] = request.memory_mib - memory_mib
        if request.disk_mib > room.disk_mib:
            needs[DISK] = request.disk_mib - room.disk_mib
        if self.exclusive and not self.own and room.holders:
            needs[ATTEMPTS] = room.holders
        elif room.alone and not self.own:
            needs[ALONE] = room.alone
        return needs

    @property
    def devices(self) -> tuple[object, ...]:
        """All that is asked of devices."""
        r = self.request
        return (r.device_count, r.device, r.device_type, r.device_memory_mib, r.shared,
                r.device_milli, r.device_indices)  # fmt: skip

    def closed(self, room: Room) -> dict[int, Needs]:
        """What each device needs that could be opened."""
        request, found = self.request, dict[int, Needs]()
        for each in room.devices.values():
            index, memory_mib = each.device.index, each.device.memory_mib
            if not each.matches(request) or each.offers(request):
                continue
            if not request.shared:
                if not each.foreign_pids:
                    found[index] = {(HOLDERS, index): each.taken + each.sharers}
                continue
            wanted = request.share_of(memory_mib)
            left = memory_mib - each.shared_mib - each.foreign_mib
            if 0 < wanted <= memory_mib - each.foreign_mib:
                needs = found[index] = {(TAKERS, index): each.taken} if each.taken else {}
                if wanted > left:
                    needs[SHARED_MIB, index] = wanted - left
        return found


class NodeUnits:
    """Units by ascending cost, with what each would give back on this node."""

    __slots__ = ("_covers", "_devices", "_gains", "_held", "_on_device", "_openings",
                 "_parts", "units")  # fmt: skip

    def __init__(self, node: Node, units: Sequence[Unit]) -> None:
        self._devices = {each.index: each for each in node.spec.devices}
        self.units = units
        #: What is held here by which unit, all of it and by device.
        self._held: list[tuple[int, Allocation]] = []
        self._on_device: dict[int, list[tuple[int, Allocation]]] = {}
        #: How many devices each unit holds here.
        self._parts: list[int] = []
        for at, unit in enumerate(units):
            here = [(at, held) for _, held in unit.held if held.node == node.name]
            indices = {index: None for _, held in here for index in held.devices}
            self._held += here
            self._parts.append(len(indices))
            for index in indices:
                holding = [(at, held) for _, held in here if index in held.devices]
                self._on_device.setdefault(index, []).extend(holding)
        self._gains: dict[Kind, dict[int, int]] = {}
        self._covers: dict[tuple[Kind, int], Cover] = {}
        #: The least that devices cost, by what is asked of them; None: they cannot be had.
        self._openings: dict[tuple[object, ...], float | None] = {}

    def least_cost(self, wish: Wish, room: Room) -> float | None:
        """No set of these that makes enough room costs less than this; None: none does.

        While rooms only shrink, costs only grow: what devices once cost stays a lower bound.
        """
        request = wish.request
        least = self._price(wish.needs(room))
        if least is None or not request.device_count:
            return least
        key = wish.devices
        if key not in self._openings:
            self._openings[key] = self._open(wish, room)
        devices = self._openings[key]
        return None if devices is None else max(least, devices)

    def _open(self, wish: Wish, room: Room) -> float | None:
        """What so many devices cost at the least."""
        rooms, count = room.devices.values(), wish.request.device_count
        closed = count - len(open_devices(wish.request, rooms))
        if closed <= 0 or any([each.device.parent >= 0 for each in rooms]):
            # What devices with parts need shows only when it is tried.
            return 0.0
        found = [self._price(needs, closed) for needs in wish.closed(room).values()]
        prices = sorted([price for price in found if price is not None])
        return None if len(prices) < closed else sum(prices[:closed])

    def cheapest(
        self,
        wish: Wish,
        room: Room,
        fits: Callable[[list[Unit]], bool],
        goes_with: Callable[[Unit, list[Unit]], bool],
        below: float,
    ) -> tuple[list[Unit] | None, bool]:
        """The cheapest set below a cost that makes enough room, and whether that is sure."""
        best: list[Unit] | None = None
        left, choices = SETS_MAX, CHOICES_MAX
        for price, needs in self._choices(wish, room):
            if price >= below:
                continue
            choices -= 1
            if choices < 0:
                return best, False
            columns = [self._gain(kind) for kind in needs]
            # Without needs only trying tells, so every unit may be of use.
            at = sorted({n for column in columns for n in column}) or range(len(self.units))
            search = CheapestSet(
                [self.units[n] for n in at],
                fits,
                goes_with,
                [tuple([column.get(n, 0) for column in columns]) for n in at],
                tuple(needs.values()),
                left,
            )
            found = search.find(below)
            best = best if found is None else found
            below, left = search.below, search.left
        return best, left > 0

    def _choices(self, wish: Wish, room: Room) -> Iterator[tuple[float, Needs]]:
        """The needs for each choice of devices, and the least that these devices cost."""
        plain, rooms = wish.needs(room), room.devices.values()
        count = wish.request.device_count
        count -= len(open_devices(wish.request, rooms)) if count else 0
        if count <= 0:
            yield 0.0, plain
        elif any([each.device.parent >= 0 for each in rooms]):
            yield 0.0, {}
        else:
            closed = wish.closed(room)
            for chosen in combinations(self._prices(closed, count), count):
                needs = dict(plain)
                for _, index in chosen:
                    needs |= closed[index]
                yield sum([price for price, _ in chosen]), needs

    def _prices(self, closed: Mapping[int, Needs], count: int) -> list[tuple[float, int]]:
        """(the least cost, which) of each device that can be opened, cheapest first.

        So many are to be opened, and their prices may be added up. Among equals comes first the
        one whose holders come first as victims.
        """
        found: list[tuple[float, int, int]] = []
        for index, needs in closed.items():
            price = self._price(needs, count)
            if price is not None:
                first = min([at for kind in needs for at in self._gain(kind)], default=0)
                found.append((price, first, index))
        return [(price, index) for price, _, index in sorted(found)]

    def _price(self, needs: Needs, count: int = 1) -> float | None:
        """As if all units but the first could be taken in parts, and there were no other needs."""
        least = 0.0
        for kind, amount in needs.items():
            sums, costs, cheapest = self._covers.get((kind, count)) or self._cover(kind, count)
            at = bisect_left(sums, amount)
            if at == len(sums):
                return None
            if costs[at]:
                before = sums[at - 1]
                part = (amount - before) / (sums[at] - before)
                price = costs[at - 1] + part * (costs[at] - costs[at - 1])
                least = max(least, price, cheapest)
        return least

    def _cover(self, kind: Kind, count: int) -> Cover:
        """Those first that give most for their cost.

        A unit on several of ``count`` devices counts on each with its part of the cost.
        """
        pairs: list[tuple[float, int, float]] = []
        for at, gain in self._gain(kind).items():
            cost = self.units[at].cost / (1 if kind[1] < 0 else min(self._parts[at], count))
            pairs.append((cost / gain, gain, cost))
        sums, costs = [0], [0.0]
        for _, gain, cost in sorted(pairs):
            sums.append(sums[-1] + gain)
            costs.append(costs[-1] + cost)
        cheapest = min([cost for _, _, cost in pairs if cost], default=0.0)
        found = self._covers[kind, count] = sums, costs, cheapest
        return found

    def _gain(self, kind: Kind) -> dict[int, int]:
        """What units give back of a kind, each by its number; the others give nothing."""
        known = self._gains.get(kind)
        if known is None:
            name, index = kind
            held = self._held if index < 0 else self._on_device.get(index, ())
            known = self._gains[kind] = {}
            for at, each in held:
                gain = _COUNTS[name](each, self._devices, index)
                if gain:
                    known[at] = known.get(at, 0) + gain
        return known


#: Of what is held, among these devices, on this one.
_COUNTS: dict[str, Callable[[Allocation, Mapping[int, Device], int], int]] = {
    "cpu": lambda held, devices, index: held.cpu_milli,
    "memory": lambda held, devices, index: held.memory_mib,
    "disk": lambda held, devices, index: held.disk_mib,
    "attempts": lambda held, devices, index: 1,
    "alone": lambda held, devices, index: held.exclusive,
    HOLDERS: lambda held, devices, index: 1,
    TAKERS: lambda held, devices, index: not held.shared,
    SHARED_MIB: lambda held, devices, index: held.shared and held.share_of(devices[index]),
}
