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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rota.core.facts.node import Allocation, Device, Node
    from rota.scheduling.evict.unit import Unit

#: So many choices of devices are compared on one node.
CHOICES_MAX = 128
#: Of what, of which device (-1: of the node).
Kind = tuple[str, int]
#: How much of each kind is needed.
Needs = dict[Kind, int]
#: In the order of cost for each of a kind: sums of what is gained, sums of costs.
Cover = tuple[list[int], list[float]]

CPU, MEMORY, DISK = ("cpu", -1), ("memory", -1), ("disk", -1)
#: All attempts on the node, and those that have it to themselves.
ATTEMPTS, ALONE = ("attempts", -1), ("alone", -1)
#: Attempts that hold a device, those that do not share it, and memory of it.
HOLDERS, TAKERS, SHARED_MIB = "holders", "takers", "shared"


class Lack(NamedTuple):
    """What a node lacks for one task."""

    needs: Needs
    #: So many of these devices must be opened, too; None: only trying tells which.
    devices: int
    closed: Mapping[int, Needs] | None


class NodeUnits:
    """Units by ascending cost, with what each would give back on this node."""

    __slots__ = ("_covers", "_devices", "_gains", "_held", "_parts", "above", "elastic", "units")

    def __init__(
        self, node: Node | None, units: Sequence[Unit], *, elastic: bool, above: bool
    ) -> None:
        name = node.name if node is not None else ""
        self._devices = {each.index: each for each in node.spec.devices} if node is not None else {}
        self.units = units
        #: Whether a job here could give up single tasks, be they among the units or not.
        self.elastic = elastic
        #: Whether the claimant is above all units here: a higher priority would change nothing.
        self.above = above
        self._held = [[held for _, held in unit.held if held.node == name] for unit in units]
        #: How many devices each unit holds here.
        self._parts = [len({d for each in held for d in each.devices}) for held in self._held]
        self._gains: dict[Kind, list[int]] = {}
        self._covers: dict[Kind, Cover] = {}

    def least_cost(self, lack: Lack) -> float | None:
        """No set of these that makes up for a lack costs less than this; None: none does."""
        least = self._price(lack.needs)
        if least is None or not lack.devices or lack.closed is None:
            return least
        prices = [self._price(needs) for needs in lack.closed.values()]
        cheapest = sorted([price for price in prices if price is not None])[: lack.devices]
        return max(least, sum(cheapest)) if len(cheapest) == lack.devices else None

    def cheapest(
        self,
        lack: Lack,
        fits: Callable[[list[Unit]], bool],
        goes_with: Callable[[Unit, list[Unit]], bool],
        below: float,
    ) -> tuple[list[Unit] | None, bool]:
        """The cheapest set below a cost that makes up for a lack, and whether that is sure."""
        best: list[Unit] | None = None
        left, choices = SETS_MAX, CHOICES_MAX
        for price, needs in self._choices(lack):
            if price >= below:
                continue
            choices -= 1
            if left <= 0 or choices < 0:
                return best, False
            columns = [self._gain(kind) for kind in needs]
            # Without needs only trying tells, so every unit may be of use.
            rows = [*zip(*columns, strict=True)] if columns else [()] * len(self.units)
            at = [n for n, row in enumerate(rows) if any(row) or not needs]
            search = CheapestSet(
                [self.units[n] for n in at],
                fits,
                goes_with,
                [rows[n] for n in at],
                tuple(needs.values()),
                left,
            )
            found = search.find(below)
            best = best if found is None else found
            below, left = search.below, search.left
        return best, left > 0

    def _choices(self, lack: Lack) -> Iterator[tuple[float, Needs]]:
        """The needs for each choice of devices, and the least that these devices cost."""
        if not lack.devices or lack.closed is None:
            # What devices with parts need shows only when it is tried.
            yield 0.0, lack.needs if not lack.devices else {}
            return
        for chosen in combinations(self._prices(lack.closed), lack.devices):
            needs = dict(lack.needs)
            for _, index in chosen:
                needs |= lack.closed[index]
            yield sum([price for price, _ in chosen]), needs

    def _prices(self, closed: Mapping[int, Needs]) -> list[tuple[float, int]]:
        """(the least cost, which) of each device that can be opened, cheapest first.

        Among equals the one whose holders come first as victims.
        """
        found: list[tuple[float, int, int]] = []
        for index, needs in closed.items():
            price = self._price(needs)
            if price is not None:
                first = min([self._first(kind) for kind in needs], default=0)
                found.append((price, first, index))
        return [(price, index) for price, _, index in sorted(found)]

    def _first(self, kind: Kind) -> int:
        """Which unit is the first that gives something of a kind."""
        return next((at for at, gain in enumerate(self._gain(kind)) if gain), 0)

    def _price(self, needs: Needs) -> float | None:
        """As if units could be taken in parts, and there were no other needs."""
        least = 0.0
        for kind, amount in needs.items():
            sums, costs = self._covers.get(kind) or self._cover(kind)
            at = bisect_left(sums, amount)
            if at == len(sums):
                return None
            before = sums[at - 1]
            part = (amount - before) / (sums[at] - before)
            least = max(least, costs[at - 1] + part * (costs[at] - costs[at - 1]))
        return least

    def _cover(self, kind: Kind) -> Cover:
        """Those first that give most for their cost.

        A unit on several devices counts on each with its part, so that prices may be added up.
        """
        pairs: list[tuple[float, int, float]] = []
        for at, gain in enumerate(self._gain(kind)):
            if gain > 0:
                cost = self.units[at].cost / (1 if kind[1] < 0 else self._parts[at])
                pairs.append((cost / gain, gain, cost))
        sums, costs = [0], [0.0]
        for _, gain, cost in sorted(pairs):
            sums.append(sums[-1] + gain)
            costs.append(costs[-1] + cost)
        self._covers[kind] = sums, costs
        return sums, costs

    def _gain(self, kind: Kind) -> list[int]:
        """What each unit gives back of a kind."""
        known = self._gains.get(kind)
        if known is None:
            name, index = kind
            count = _COUNTS.get(name)
            if count is None:
                device = self._devices[index]
                known = [
                    sum([_on_device(name, each, device) for each in held]) for held in self._held
                ]
            else:
                known = [sum([count(each) for each in held]) for held in self._held]
            self._gains[kind] = known
        return known


_COUNTS: dict[str, Callable[[Allocation], int]] = {
    "cpu": lambda held: held.cpu_milli,
    "memory": lambda held: held.memory_mib,
    "disk": lambda held: held.disk_mib,
    "attempts": lambda held: 1,
    "alone": lambda held: held.exclusive,
}


def _on_device(name: str, held: Allocation, device: Device) -> int:
    """What an allocation gives back of one device."""
    if device.index not in held.devices:
        return 0
    if name == SHARED_MIB:
        return held.share_of(device) if held.shared else 0
    return name == HOLDERS or not held.shared
