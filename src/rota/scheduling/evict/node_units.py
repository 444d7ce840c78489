"""What one claimant may have on one node, and the least that room would cost there.

What a node lacks for a task is a list of needs: CPU and memory, and a number of attempts that must
go. Each device that could be opened has needs of its own: its holders must go, or a part of its
memory. Once it is chosen which devices to open, all needs are plain sums over units.
"""

from __future__ import annotations

from itertools import accumulate, combinations
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.evict.cheapest_set import SETS_MAX, CheapestSet
from rota.scheduling.evict.unit import COST_MIN, fits_in_set
from rota.scheduling.evict.victim_nodes import INFINITE, Least
from rota.scheduling.place.devices import open_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rota.core.facts.node import Allocation, Device, Node
    from rota.core.facts.resources import Request
    from rota.scheduling.evict.unit import Unit
    from rota.scheduling.place.node_room import Room

ROUNDED = 1.0 - 1e-9
#: The most choices of devices that are compared on one node.
CHOICES_MAX = 128
#: Of what, of which device (-1: of the node).
Kind = tuple[str, int]
#: How much of each kind is needed.
Needs = dict[Kind, int]
#: What units give of something, each by its number; the others give nothing.
Gains = dict[int, float]
#: What units give, and how much of it is needed.
Column = tuple[Gains, int]

CPU, MEMORY, DISK = ("cpu", -1), ("memory", -1), ("disk", -1)
#: All attempts on the node, and those that have it to themselves.
ATTEMPTS, ALONE = ("attempts", -1), ("alone", -1)
#: Attempts that hold a device, those that do not share it, and memory of it.
HOLDERS, TAKERS, SHARED_MIB = "holders", "takers", "shared"


class TaskWish(NamedTuple):
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

    __slots__ = ("_devices", "_gains", "_held", "_on_device", "_openings", "_parts",
                 "_prices_of", "node", "units")  # fmt: skip

    def __init__(self, node: Node, units: Sequence[Unit]) -> None:
        self.node = node
        self._devices = {each.index: each for each in node.spec.devices}
        self.units = units
        #: What is held here by which unit, all of it and by device.
        self._held: list[tuple[int, Allocation]] = []
        self._on_device: dict[int, list[tuple[int, Allocation]]] = {}
        #: How many devices each unit holds here.
        self._parts: list[int] = []
        name, on_device = node.name, self._on_device
        for at, unit in enumerate(units):
            indices: set[int] = set()
            for _, held in unit.held:
                if held.node == name:
                    here = (at, held)
                    self._held.append(here)
                    indices.update(held.devices)
                    for index in held.devices:
                        on_device.setdefault(index, []).append(here)
            self._parts.append(len(indices))
        self._gains: dict[Kind, Gains] = {}
        #: The least that devices cost, by what is asked of them; None: they cannot be had.
        self._openings: dict[tuple[object, ...], float | None] = {}
        #: The least that an amount of a kind costs, by how many devices are opened; None: too much.
        self._prices_of: dict[tuple[Kind, int, int], float | None] = {}

    def beside(self, chosen: Sequence[Unit]) -> NodeUnits:
        """Without what does not go with a set."""
        if not chosen:
            return self
        jobs = {unit.job for unit in chosen}
        left = [
            unit
            for unit in self.units
            if (unit.job and unit.job not in jobs) or fits_in_set(unit, chosen)
        ]
        return self if len(left) == len(self.units) else NodeUnits(self.node, left)

    def least(self, room: Room) -> Least:
        """The least that any room costs here, whatever is asked for."""
        cpus, memories = self._gain(CPU), self._gain(MEMORY)
        free = [at for at, unit in enumerate(self.units) if not unit.cost]
        costs = [(at, unit.cost) for at, unit in enumerate(self.units) if unit.cost]
        return Least(
            costs[0][1] if costs else INFINITE,
            min([cost / cpus[at] for at, cost in costs if at in cpus], default=INFINITE),
            min([cost / memories[at] for at, cost in costs if at in memories], default=INFINITE),
            sum([cpus.get(at, 0) for at in free]),
            sum([memories.get(at, 0) for at in free]),
            *self._least_of_devices(room),
        )

    def _least_of_devices(self, room: Room) -> tuple[tuple[float, ...], float, int]:
        """What this number of whole devices costs, and a share beyond the largest free one."""
        rooms = [each for each in room.devices.values() if each.device.usable]
        if any([each.device.parent >= 0 for each in rooms]):
            return (0.0,) * len(rooms), 0.0, 0
        wholes: list[float] = []
        share, free_share = INFINITE, 0
        for each in rooms:
            holding = self._on_device.get(each.device.index, ())
            costs = [self.units[at].cost / self._parts[at] for at, _ in holding]
            if not each.foreign_pids and len(costs) >= each.taken + each.sharers:
                wholes.append(sum(costs))
            if not each.taken:
                free_share = max(free_share, each.free_mib)
            share = min([share, *costs])
        # A sum of parts must not be above the whole for its last digits.
        return (
            tuple([ROUNDED * cost for cost in accumulate(sorted(wholes))]),
            ROUNDED * share,
            free_share,
        )

    def least_cost(self, wish: TaskWish, room: Room) -> float | None:
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

    def _open(self, wish: TaskWish, room: Room) -> float | None:
        """What this number of devices costs at the least."""
        rooms, count = room.devices.values(), wish.request.device_count
        lack = count - len(open_devices(wish.request, rooms))
        if lack <= 0 or any([each.device.parent >= 0 for each in rooms]):
            # What devices with parts need shows only when it is tried.
            return 0.0
        found = [self._device_price(i, needs, lack) for i, needs in wish.closed(room).items()]
        prices = sorted([price for price in found if price is not None])
        return None if len(prices) < lack else sum(prices[:lack])

    def cheapest(
        self,
        wish: TaskWish,
        room: Room,
        fits: Callable[[list[Unit]], bool],
        goes_with: Callable[[Unit, list[Unit]], bool] | None,
        below: float,
    ) -> tuple[list[Unit] | None, bool]:
        """The cheapest set below a cost that makes enough room, and whether that is sure."""
        best: list[Unit] | None = None
        left, choices = SETS_MAX, CHOICES_MAX
        for price, columns in self._choices(wish, room):
            if price >= below:
                continue
            choices -= 1
            if choices < 0:
                return best, False
            # Without needs only trying tells, so every unit may be of use.
            at = sorted({n for gains, _ in columns for n in gains}) or range(len(self.units))
            search = CheapestSet(
                [self.units[n] for n in at],
                fits,
                goes_with,
                [tuple([gains.get(n, 0) for gains, _ in columns]) for n in at],
                tuple([amount for _, amount in columns]),
                left,
            )
            found = search.find(below)
            best = best if found is None else found
            below, left = search.below, search.left
        return best, left > 0

    def _choices(self, wish: TaskWish, room: Room) -> Iterator[tuple[float, list[Column]]]:
        """What units give and how much of it is needed, for each choice of devices to share; and
        the least that these devices cost."""
        needs, rooms = wish.needs(room), room.devices.values()
        plain = [(self._gain(kind), amount) for kind, amount in needs.items()]
        lack = wish.request.device_count
        lack -= len(open_devices(wish.request, rooms)) if lack else 0
        if lack <= 0:
            yield 0.0, plain
        elif any([each.device.parent >= 0 for each in rooms]):
            yield 0.0, []
        elif not wish.request.shared:
            yield 0.0, [*plain, (self._openers(wish.closed(room)), lack)]
        else:
            closed = wish.closed(room)
            for chosen in combinations(self._prices(closed, lack), lack):
                own = [item for _, index in chosen for item in closed[index].items()]
                more = [(self._gain(kind), amount) for kind, amount in own]
                yield sum([price for price, _ in chosen]), [*plain, *more]

    def _openers(self, closed: Mapping[int, Needs]) -> Gains:
        """How many whole devices units open at the most.

        All holders of a device must go. Each of them opens a part of it, by its part of the costs,
        so that no set opens more devices than its parts add up to.
        """
        gains: Gains = {}
        for index, needs in closed.items():
            holding = self._on_device.get(index, ())
            if len(holding) < needs[HOLDERS, index]:
                continue
            costs = [(at, self.units[at].cost + COST_MIN) for at, _ in holding]
            whole = sum([cost for _, cost in costs])
            for at, cost in costs:
                gains[at] = gains.get(at, 0) + (cost / whole if len(costs) > 1 else 1)
        return gains

    def _prices(self, closed: Mapping[int, Needs], count: int) -> list[tuple[float, int]]:
        """(the least cost, which) of each device that can be opened, cheapest first.

        ``count`` are to be opened, and their prices may be added up. Among equals comes first the
        one whose holders come first as victims.
        """
        found: list[tuple[float, int, int]] = []
        for index, needs in closed.items():
            price = self._device_price(index, needs, count)
            if price is not None:
                first = min([at for kind in needs for at in self._gain(kind)], default=0)
                found.append((price, first, index))
        return [(price, index) for price, _, index in sorted(found)]

    def _device_price(self, index: int, needs: Needs, count: int) -> float | None:
        """The least that it costs to open a device, one of ``count``; None: it cannot be had.

        A unit on several of them counts on each with its part of the cost.
        """
        holders = needs.get((HOLDERS, index))
        if holders is None:
            return self._price(needs, count)
        holding, units, parts = self._on_device.get(index, ()), self.units, self._parts
        if len(holding) < holders:
            return None
        return sum([units[at].cost / min(parts[at], count) for at, _ in holding])

    def _price(self, needs: Needs, count: int = 1) -> float | None:
        """As if units could be taken in parts, and each need were the only one."""
        least = 0.0
        for kind, amount in needs.items():
            key = (kind, amount, count)
            if key not in self._prices_of:
                self._prices_of[key] = self._price_of(kind, amount, count)
            price = self._prices_of[key]
            if price is None:
                return None
            least = max(least, price)
        return least

    def _price_of(self, kind: Kind, amount: int, count: int) -> float | None:
        """No unit gives more than what is needed."""
        gains, units = self._gain(kind), self.units
        if sum(gains.values()) < amount:
            return None
        parts: list[tuple[float, float, float]] = []
        of_node = kind[1] < 0
        for at, gain in gains.items():
            cost = units[at].cost
            if not of_node and count > 1:
                cost /= min(self._parts[at], count)
            if gain > amount:
                gain = amount
            parts.append((cost / gain, gain, cost))
        parts.sort()
        price, lack = 0.0, float(amount)
        for rate, gain, cost in parts:
            if gain >= lack:
                # At least one of those that cost something goes as a whole.
                price += rate * lack
                break
            price += cost
            lack -= gain
        return max(price, min([cost for _, _, cost in parts if cost])) if price else price

    def _gain(self, kind: Kind) -> Gains:
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
