"""What one node has left: amounts, single CPUs and devices, and what a task would get there.

A ``Room`` starts from what live attempts hold, which is derived, and shrinks as a pass places
more. ``take`` and ``give_back`` undo each other exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import is_not
from typing import TYPE_CHECKING

from rota.core.facts.node import Allocation, Device, Node
from rota.core.facts.policy import PlaceRules
from rota.core.facts.site.models import is_variant as is_variant
from rota.scheduling.place.devices import choose_devices, open_devices
from rota.scheduling.place.pins import near_cpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.facts.resources import Request
    from rota.scheduling.place.devices import DeviceLike

RULES = PlaceRules()

#: A whole device, in the parts that shares are counted in.
WHOLE = 1000


class DeviceRoom:
    """One device within a pass: whole, shared with some memory left, or taken."""

    __slots__ = ("device", "foreign_mib", "foreign_pids", "shared_mib", "sharers", "taken",
                 "usable")  # fmt: skip

    def __init__(self, device: Device) -> None:
        self.device = device
        self.usable = device.usable
        #: How many hold it alone: more than one while a victim leaves for its successor.
        self.taken = 0
        self.sharers = 0
        self.shared_mib = 0
        self.foreign_mib = 0
        self.foreign_pids = 0

    def copy(self) -> DeviceRoom:
        twin = object.__new__(DeviceRoom)
        twin.device, twin.usable = self.device, self.usable
        twin.taken, twin.sharers, twin.shared_mib = self.taken, self.sharers, self.shared_mib
        twin.foreign_mib, twin.foreign_pids = self.foreign_mib, self.foreign_pids
        return twin

    @property
    def idle(self) -> bool:
        return not (self.taken or self.sharers or self.foreign_pids) and self.usable

    @property
    def free_mib(self) -> int:
        """Memory for one more sharer; 0 when there can be none."""
        if self.taken or not self.usable:
            return 0
        return max(0, self.device.memory_mib - self.shared_mib - self.foreign_mib)

    @property
    def left_milli(self) -> int:
        """Thousandths that are free; 0 when nobody can have any."""
        if self.idle:
            return WHOLE
        memory_mib = self.device.memory_mib
        return WHOLE * self.free_mib // memory_mib if memory_mib else 0

    def offers(self, request: Request) -> bool:
        """Exclusive tasks want an idle device; shared ones memory beside other shared ones."""
        if self.taken or not self.matches(request):
            return False
        if not request.shared:
            return not (self.sharers or self.foreign_pids)
        memory_mib = self.device.memory_mib
        left = memory_mib - self.shared_mib - self.foreign_mib
        return 0 < request.share_of(memory_mib) <= left

    def matches(self, request: Request) -> bool:
        """Kind, model and size: what no amount of waiting changes."""
        device = self.device
        return (
            device.kind == request.device
            and self.usable
            and is_variant(device.model, request.device_type)
            and (not request.device_indices or device.index in request.device_indices)
            and (request.device_memory_mib <= device.memory_mib or not request.device_memory_mib)
        )


#: (request, room, devices that offer what is asked for) -> those to take; empty: no opinion.
Prefer = Callable[["Request", "Room", "Sequence[DeviceLike]"], tuple[int, ...]]


class Room:
    """What is left on one node during a pass."""

    __slots__ = (
        "alone",
        "cpu_milli",
        "cpus",
        "devices",
        "disk_mib",
        "firm_cpu_milli",
        "firm_memory_mib",
        "held",
        "holders",
        "known_cpus",
        "memory_mib",
        "node",
        "prefer",
        "rules",
        "seen",
    )

    def __init__(self, node: Node, held: Iterable[Allocation], rules: PlaceRules = RULES) -> None:
        spec = node.spec
        self.node = node
        self.rules = rules
        #: How the strategy chooses a device for a share, where it has a say in that.
        self.prefer: Prefer | None = None
        self.cpu_milli = int(spec.cpu_milli * rules.overcommit_cpu)
        self.memory_mib = int(spec.memory_mib * rules.overcommit_memory)
        self.disk_mib = spec.disk_mib
        #: What guaranteed tasks may still have: never more than really exists.
        self.firm_cpu_milli, self.firm_memory_mib = spec.cpu_milli, spec.memory_mib
        #: CPU numbers to pin to, in order. Overcommitted CPUs cannot be pinned.
        self.cpus = sorted(spec.cpus) if rules.overcommit_cpu <= 1 else []
        #: All that were ever free; empty: single CPUs are not looked for.
        self.known_cpus = frozenset(self.cpus)
        #: What is taken, by identity: so that the room can follow its node. Copies do not.
        self.held: dict[int, Allocation] | None = {}
        #: What else it was made from: while these very objects stay, only attempts come and go.
        self.seen = (spec, node.foreign, node.ignored_pids, node.overuse)
        self.devices = {device.index: DeviceRoom(device) for device in spec.devices}
        self.holders = self.alone = 0
        for allocation in held:
            self.take(allocation)

    @classmethod
    def now(cls, node: Node, rules: PlaceRules = RULES) -> Room:
        """The node as it is: live attempts and foreign processes taken off.

        An attempt that waits for others to leave counts beside them: room is never promised
        twice, at the price of some that looks taken for the moment.
        """
        room = cls(node, tuple(node.live.values()), rules)
        for use in node.foreign:
            if use.device in room.devices and not node.minds_not(use):
                room.devices[use.device].foreign_mib += use.memory_mib
                room.devices[use.device].foreign_pids += 1
        for more in node.overuse:
            # What is held beyond its share is as little there for others as a stranger's.
            if more.device in room.devices and more.uid in node.live:
                room.devices[more.device].foreign_mib += node.excess_mib(more)
                given = more.device in node.live[more.uid].devices
                room.devices[more.device].foreign_pids += not given
        return room

    def follow(self, node: Node) -> bool:
        """Take in which attempts came to the node and left; False: it has to be made anew."""
        held = self.held
        seen = (node.spec, node.foreign, node.ignored_pids, node.overuse)
        if node is not self.node or any(map(is_not, seen, self.seen)) or held is None:
            return False
        pinned = sum([len(allocation.cpus) for allocation in held.values()])
        if self.known_cpus and len(self.cpus) + pinned != len(self.known_cpus):
            # Two attempts are pinned to the same CPU while one leaves for the other.
            return False
        live = {id(allocation): allocation for allocation in node.live.values()}
        if len(held) != self.holders or len(live) != len(node.live):
            return False
        for gone in [allocation for key, allocation in held.items() if key not in live]:
            self.give_back(gone)
        for key, allocation in live.items():
            if key not in held:
                self.take(allocation)
        return True

    @classmethod
    def empty(cls, node: Node, rules: PlaceRules = RULES) -> Room:
        """The node as if nothing ran there."""
        return cls(node, (), rules)

    def copy(self, *, pins: bool = True) -> Room:
        """Without ``pins``, single CPUs that are given back to the copy are not looked for."""
        twin = object.__new__(Room)
        twin.node, twin.rules, twin.prefer = self.node, self.rules, self.prefer
        twin.cpu_milli, twin.memory_mib, twin.disk_mib = (
            self.cpu_milli,
            self.memory_mib,
            self.disk_mib,
        )
        twin.firm_cpu_milli, twin.firm_memory_mib = self.firm_cpu_milli, self.firm_memory_mib
        twin.cpus, twin.known_cpus = self.cpus.copy(), self.known_cpus if pins else frozenset()
        twin.held, twin.seen = None, self.seen
        twin.devices = {index: room.copy() for index, room in self.devices.items()}
        twin.holders, twin.alone = self.holders, self.alone
        return twin

    def shortage(
        self,
        request: Request,
        *,
        firm: bool = False,
        exclusive: bool = False,
        own: bool = False,
    ) -> str:
        """The first dimension in which the request does not fit; empty when it does.

        ``own``: other tasks of the same job are there, so a node to itself is no obstacle.
        """
        if (self.alone and not own) or (exclusive and self.holders):
            return "whole node" if exclusive else "cpus"
        short = self._amount_shortage(request, firm=firm)
        if short or not request.device_count:
            return short
        return self._device_shortage(request)

    def _amount_shortage(self, request: Request, *, firm: bool) -> str:
        if request.cpu_milli > (
            min(self.firm_cpu_milli, self.cpu_milli) if firm else self.cpu_milli
        ):
            return "cpus"
        if request.memory_mib > (
            min(self.firm_memory_mib, self.memory_mib) if firm else self.memory_mib
        ):
            return "memory"
        if request.disk_mib > self.disk_mib:
            return "disk"
        return ""

    def _device_shortage(self, request: Request) -> str:
        rooms = self.devices.values()
        if len(open_devices(request, rooms)) >= request.device_count:
            return ""
        usable = sum(room.device.kind == request.device and room.usable for room in rooms)
        if usable < request.device_count:
            return f"{request.device}s"
        if sum(room.matches(request) for room in rooms) < request.device_count:
            if request.device_indices:
                return f"{request.device} indices"
            return f"{request.device} type" if request.device_type else f"{request.device} memory"
        return f"{request.device}s"

    def choose(
        self, request: Request, *, firm: bool = False, exclusive: bool = False, seed: int = 0
    ) -> Allocation:
        """What a request that fits would get: devices near each other, CPUs near the devices."""
        found: Sequence[DeviceLike] = ()
        if request.device_count:
            found = open_devices(request, self.devices.values())
        return self._allocate(request, found, firm, exclusive, seed)

    def another(self, request: Request, *, firm: bool = False, seed: int = 0) -> Allocation | None:
        """What one more task of a job that is here already would get; None: it does not fit."""
        if self._amount_shortage(request, firm=firm):
            return None
        found: Sequence[DeviceLike] = ()
        if request.device_count:
            found = open_devices(request, self.devices.values())
            if len(found) < request.device_count:
                return None
        return self._allocate(request, found, firm, False, seed)

    def _allocate(
        self,
        request: Request,
        found: Sequence[DeviceLike],
        firm: bool,
        exclusive: bool,
        seed: int,
    ) -> Allocation:
        devices: tuple[int, ...] = ()
        if found and self.prefer is not None:
            devices = self.prefer(request, self, found)
        if found and not devices:
            devices = choose_devices(request, found, self.rules.devices, seed)
        return Allocation(
            self.node.spec.name,
            request.cpu_milli,
            request.memory_mib,
            request.disk_mib,
            self._pins_for(request.cpu_milli, devices),
            devices,
            request.device_memory_mib if request.shared else 0,
            request.shared,
            request.device_milli if request.shared else 0,
            firm,
            exclusive,
            self.node.spec.kept_by(request.amount) if exclusive else None,
        )

    def _pins_for(self, cpu_milli: int, devices: tuple[int, ...]) -> tuple[int, ...]:
        """Whole CPUs are pinned: those of the devices' NUMA domain first, then low numbers."""
        whole, rest = divmod(cpu_milli, 1000)
        if rest or not whole or len(self.cpus) < whole:
            return ()
        domains = self.node.spec.numa_cpus
        if devices and len(domains) > 1:
            numa = sorted({self.devices[index].device.numa for index in devices})
            near = [domains[number] for number in numa if 0 <= number < len(domains)]
            return near_cpus(self.cpus, whole, near)
        return tuple(self.cpus[:whole])

    def take(self, allocation: Allocation) -> None:
        self.shift(allocation, 1)
        if self.held is not None:
            self.held[id(allocation)] = allocation
        pinned = allocation.cpus
        if pinned and self.cpus:
            # Most often they lie side by side among those that are left.
            at = bisect_left(self.cpus, pinned[0])
            if self.cpus[at : at + len(pinned)] == list(pinned):
                del self.cpus[at : at + len(pinned)]
            else:
                gone = set(pinned)
                self.cpus = [cpu for cpu in self.cpus if cpu not in gone]

    def give_back(self, allocation: Allocation) -> None:
        """Undo a ``take``."""
        self.shift(allocation, -1)
        if self.held is not None:
            self.held.pop(id(allocation), None)
        if self.known_cpus and allocation.cpus:
            back = self.known_cpus.intersection(allocation.cpus).difference(self.cpus)
            self.cpus += back
            self.cpus.sort()

    def shift(self, allocation: Allocation, sign: int) -> None:
        """Take (1) or give back (-1) everything but single CPUs."""
        self.cpu_milli -= sign * allocation.cpu_milli
        self.memory_mib -= sign * allocation.memory_mib
        self.disk_mib -= sign * allocation.disk_mib
        self.holders += sign
        if allocation.exclusive:
            self.alone += sign
        if allocation.firm:
            self.firm_cpu_milli -= sign * allocation.cpu_milli
            self.firm_memory_mib -= sign * allocation.memory_mib
        for index in allocation.devices:
            room = self.devices.get(index)
            if room is None:
                continue
            if allocation.shared:
                room.sharers += sign
                room.shared_mib += sign * allocation.share_of(room.device)
            else:
                room.taken += sign
