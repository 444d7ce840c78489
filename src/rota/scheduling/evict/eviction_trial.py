"""Rooms as they would be without some victims: copies, so that trying changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.scheduling.evict.node_units import (
    ALONE,
    ATTEMPTS,
    CPU,
    DISK,
    HOLDERS,
    MEMORY,
    SHARED_MIB,
    TAKERS,
    Lack,
)
from rota.scheduling.place.devices import open_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.derived.lanes import Shape
    from rota.core.facts.job import Role
    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.evict.node_units import Needs
    from rota.scheduling.evict.search import Placer, Preemption
    from rota.scheduling.evict.unit import Unit
    from rota.scheduling.place.node_room import DeviceRoom, Room


class Trial:
    """One attempt at placing a job, on copies of the rooms that it changes."""

    def __init__(
        self,
        preemption: Preemption,
        names: Sequence[str],
        shape: Shape,
        requests: Sequence[Request],
        placer: Placer | None,
    ) -> None:
        self._preemption = preemption
        self._names = names
        self._allowed: frozenset[str] = frozenset()
        self._requests = requests
        self._firm = shape.service is ServiceClass.GUARANTEED
        self._exclusive = shape.placement.exclusive
        self._placer = placer
        self._copies: dict[str, Room] = {}
        #: Nodes that something was given back on.
        self.freed: dict[str, None] = {}
        #: Nodes before this one have no room left for a request.
        self._full_before: dict[Request, int] = {}
        #: Nodes that tasks were put on.
        self.used: dict[str, None] = {}

    def evict(self, units: Iterable[Unit]) -> None:
        """Give back everything that these units hold."""
        unpinned: dict[str, None] = {}
        for _, allocation in {pair[0]: pair for unit in units for pair in unit.held}.values():
            name = allocation.node
            if name in self._preemption.rooms:
                self._own(name).give_back(allocation)
                self.freed[name] = None
                unpinned.update(dict.fromkeys([name] if allocation.cpus else ()))
        for name in unpinned:
            self._keep_pins(name)

    def _keep_pins(self, name: str) -> None:
        """CPUs are no counters: those that another job was promised stay with it."""
        room = self._copies[name]
        promised = set(self._preemption.pins(name))
        if promised:
            room.cpus = [cpu for cpu in room.cpus if cpu not in promised]

    def _own(self, name: str) -> Room:
        room = self._copies.get(name)
        if room is None:
            room = self._copies[name] = self._preemption.rooms[name].copy()
        return room

    def _room(self, name: str) -> Room:
        return self._copies.get(name) or self._preemption.rooms[name]

    def _short(self, name: str, request: Request) -> str:
        own = self._exclusive and name in self.used
        return self._room(name).shortage(
            request, firm=self._firm, exclusive=self._exclusive and not own, own=own
        )

    def _take(self, name: str, request: Request) -> Allocation:
        room = self._own(name)
        allocation = room.choose(request, firm=self._firm, exclusive=self._exclusive)
        room.take(allocation)
        self.used[name] = None
        return allocation

    def put(self, name: str, request: Request) -> None:
        self._take(name, request)

    def made_free(self) -> list[str]:
        """Nodes for the job that something was given back on."""
        if self.freed and not self._allowed:
            self._allowed = frozenset(self._names)
        return [name for name in self.freed if name in self._allowed]

    def put_free(self, request: Request) -> bool:
        """Place one task where there is room, on a node that was made free if possible."""
        for name in self.made_free():
            if not self._short(name, request):
                self._take(name, request)
                return True
        return self._put_next(request) is not None

    def _put_next(self, request: Request) -> Allocation | None:
        """First fit. A node that has no room for a request does not get any in this trial."""
        at, names = self._full_before.get(request, 0), self._names
        while at < len(names) and self._short(names[at], request):
            at += 1
        self._full_before[request] = at
        return self._take(names[at], request) if at < len(names) else None

    def place(self) -> Sequence[Allocation] | None:
        """Room for every task, or None. Changes the trial: ask once."""
        if self._placer is not None:
            return self._placer([self._own(name) for name in self._names])
        placed: list[Allocation] = []
        for request in self._requests:
            allocation = self._put_next(request)
            if allocation is None:
                return None
            placed.append(allocation)
        return placed

    def lack(self, name: str, request: Request) -> Lack:
        """What a node lacks for one task."""
        room, own = self._room(name), name in self.used
        cpu_milli, memory_mib = room.cpu_milli, room.memory_mib
        if self._firm:
            cpu_milli = min(cpu_milli, room.firm_cpu_milli)
            memory_mib = min(memory_mib, room.firm_memory_mib)
        needs: Needs = {}
        if request.cpu_milli > cpu_milli:
            needs[CPU] = request.cpu_milli - cpu_milli
        if request.memory_mib > memory_mib:
            needs[MEMORY] = request.memory_mib - memory_mib
        if request.disk_mib > room.disk_mib:
            needs[DISK] = request.disk_mib - room.disk_mib
        if self._exclusive and not own and room.holders:
            needs[ATTEMPTS] = room.holders
        elif room.alone and not (self._exclusive and own):
            needs[ALONE] = room.alone
        if not request.device_count:
            return Lack(needs, 0, None)
        rooms = room.devices.values()
        count = request.device_count - len(open_devices(request, rooms))
        if count <= 0 or any([each.device.parent >= 0 for each in rooms]):
            return Lack(needs, max(0, count), None)
        return Lack(needs, count, _closed(request, rooms))

    def would_fit(self, name: str, request: Request, held: Iterable[Allocation]) -> bool:
        """Whether one task fits on a node when this is given back."""
        # Single CPUs do not decide whether it fits, and moving them costs most.
        room, given = self._room(name), [*held]
        for allocation in given:
            room.shift(allocation, -1)
        short = self._short(name, request)
        for allocation in given:
            room.shift(allocation, 1)
        return not short


def _closed(request: Request, rooms: Iterable[DeviceRoom]) -> dict[int, Needs]:
    """What each device needs that could be opened for a request."""
    found: dict[int, Needs] = {}
    for room in rooms:
        index, memory_mib = room.device.index, room.device.memory_mib
        if room.offers(request) or not room.matches(request):
            continue
        if not request.shared:
            if not room.foreign_pids:
                found[index] = {(HOLDERS, index): room.taken + room.sharers}
            continue
        wanted = request.share_of(memory_mib)
        left = memory_mib - room.shared_mib - room.foreign_mib
        if 0 < wanted <= memory_mib - room.foreign_mib:
            needs = found[index] = {(TAKERS, index): room.taken} if room.taken else {}
            if wanted > left:
                needs[SHARED_MIB, index] = wanted - left
    return found


def least_tasks(shape: Shape) -> tuple[tuple[int, ...], tuple[Request, ...]]:
    """The tasks that a job cannot do without, and what each of them asks for."""
    tasks: list[int] = []
    requests: list[Request] = []
    first = 0
    for role in shape.roles:
        count = _least_count(role)
        tasks += range(first, first + count)
        requests += [role.request] * count
        first += role.count
    return tuple(tasks), tuple(requests)


def _least_count(role: Role) -> int:
    return role.min_count if 0 < role.min_count < role.count else role.count


class EvenSpread:
    """Places each role on so many nodes as the job says, with equally many tasks on each."""

    def __init__(self, shape: Shape) -> None:
        self._nodes = shape.placement.node_count
        self._firm = shape.service is ServiceClass.GUARANTEED
        self._exclusive = shape.placement.exclusive
        self._roles = [(role.request, _least_count(role)) for role in shape.roles]

    def __call__(self, rooms: Sequence[Room]) -> Sequence[Allocation] | None:
        placed: list[tuple[Room, Allocation]] = []
        for request, count in self._roles:
            barred: set[str] = set()
            for number in range(min(self._nodes, count)):
                share = count // self._nodes + (number < count % self._nodes)
                taken = self._fill_one(rooms, request, share, barred, placed)
                if not taken:
                    for room, allocation in reversed(placed):
                        room.give_back(allocation)
                    return None
                barred.add(taken[0][1].node)
                placed += taken
        return [allocation for _, allocation in placed]

    def _fill_one(
        self,
        rooms: Sequence[Room],
        request: Request,
        share: int,
        barred: set[str],
        placed: list[tuple[Room, Allocation]],
    ) -> list[tuple[Room, Allocation]]:
        """So many tasks on the first node that takes them all."""
        own = {room.node.name for room, _ in placed} if self._exclusive else set()
        for room in rooms:
            if room.node.name not in barred:
                taken = self._fill(room, request, share, room.node.name in own)
                if taken:
                    return [(room, allocation) for allocation in taken]
        return []

    def _fill(self, room: Room, request: Request, share: int, own: bool) -> list[Allocation]:
        taken: list[Allocation] = []
        firm, exclusive = self._firm, self._exclusive
        while len(taken) < share:
            if room.shortage(request, firm=firm, exclusive=exclusive and not own, own=own):
                for allocation in reversed(taken):
                    room.give_back(allocation)
                return []
            taken.append(room.choose(request, firm=firm, exclusive=exclusive))
            room.take(taken[-1])
            own = exclusive
        return taken
