"""Whether a task fits on a node, and what exactly it would get there.

A ``Room`` is what a node has left within one pass. It starts from the headroom, which is derived
from live attempts, and shrinks as the pass places more.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rota.core.node import Allocation, Device, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.resources import Request


@cache
def is_variant(model: str, wanted: str) -> bool:
    """Whether a device of this model is what was asked for: word by word, in either case.

    ``A100`` and ``a100 80gb`` are an ``NVIDIA A100-SXM4-80GB``, ``rtx4090`` is a ``GeForce RTX
    4090``; ``A10`` is no ``A100``.
    """
    if wanted in ("", "auto"):
        return True
    have, asked = _words(model), _words(wanted)
    joined = "".join(asked)
    return set(asked) <= set(have) or any(
        joined == "".join(have[first:last])
        for first in range(len(have))
        for last in range(first + 1, len(have) + 1)
    )


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


class DeviceRoom:
    """One device within a pass: whole, shared with some memory left, or taken."""

    __slots__ = ("device", "foreign_mib", "foreign_pids", "shared_mib", "sharers", "taken")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.taken = False
        self.sharers = 0
        self.shared_mib = 0
        self.foreign_mib = 0
        self.foreign_pids = 0

    def offers(self, request: Request) -> bool:
        """Exclusive tasks want an idle device; shared ones memory beside other shared ones."""
        if self.taken or not self.matches(request):
            return False
        if not request.shared:
            return not self.sharers and not self.foreign_pids
        left = self.device.memory_mib - self.shared_mib - self.foreign_mib
        return self.device.memory_mib > 0 and request.device_memory_mib <= left

    def matches(self, request: Request) -> bool:
        """Kind, model and size: what no amount of waiting changes."""
        device = self.device
        return (
            device.kind == request.device
            and is_variant(device.model, request.device_type)
            and (request.device_memory_mib <= device.memory_mib or not request.device_memory_mib)
        )


class Room:
    """What is left on one node during a pass."""

    __slots__ = ("cpu_milli", "cpus", "devices", "disk_mib", "memory_mib", "node")

    def __init__(self, node: Node, held: Sequence[Allocation]) -> None:
        spec = node.spec
        self.node = node
        self.cpu_milli, self.memory_mib, self.disk_mib = (
            spec.cpu_milli,
            spec.memory_mib,
            spec.disk_mib,
        )
        self.cpus = dict.fromkeys(spec.cpus)
        self.devices = {device.index: DeviceRoom(device) for device in spec.devices}
        for allocation in held:
            self.take(allocation)

    @classmethod
    def now(cls, node: Node) -> Room:
        """The node as it is, live attempts and foreign processes taken off."""
        room = cls(node, tuple(node.live.values()))
        for use in node.foreign:
            if use.device in room.devices:
                room.devices[use.device].foreign_mib += use.memory_mib
                room.devices[use.device].foreign_pids += 1
        return room

    @classmethod
    def empty(cls, node: Node) -> Room:
        """The node as if nothing ran there."""
        return cls(node, ())

    def shortage(self, request: Request) -> str:
        """The first dimension in which the request does not fit; empty when it does."""
        if request.cpu_milli > self.cpu_milli:
            return "cpus"
        if request.memory_mib > self.memory_mib:
            return "memory"
        if request.disk_mib > self.disk_mib:
            return "disk"
        if request.device_count:
            return self._device_shortage(request)
        return ""

    def _device_shortage(self, request: Request) -> str:
        rooms = self.devices.values()
        if sum(room.device.kind == request.device for room in rooms) < request.device_count:
            return f"{request.device}s"
        if sum(room.matches(request) for room in rooms) < request.device_count:
            return f"{request.device} type" if request.device_type else f"{request.device} memory"
        if sum(room.offers(request) for room in rooms) < request.device_count:
            return f"{request.device}s"
        return ""

    def choose(self, request: Request) -> Allocation:
        """What a request that fits would get: low CPU numbers, devices near each other."""
        whole = request.cpu_milli // 1000
        pinned = request.cpu_milli % 1000 == 0 and len(self.cpus) >= whole > 0
        return Allocation(
            node=self.node.name,
            cpu_milli=request.cpu_milli,
            memory_mib=request.memory_mib,
            disk_mib=request.disk_mib,
            cpus=tuple(sorted(self.cpus)[:whole]) if pinned else (),
            devices=self._choose_devices(request) if request.device_count else (),
            device_memory_mib=request.device_memory_mib if request.shared else 0,
            shared=request.shared,
        )

    def _choose_devices(self, request: Request) -> tuple[int, ...]:
        """Devices of one NUMA domain if it has enough; shared tasks fill the fullest card first."""
        open_rooms = [room for room in self.devices.values() if room.offers(request)]
        domains: dict[int, int] = {}
        for room in open_rooms:
            domains[room.device.numa] = domains.get(room.device.numa, 0) + 1
        open_rooms.sort(
            key=lambda room: (
                domains[room.device.numa] < request.device_count,
                domains[room.device.numa],
                -room.shared_mib,
                room.device.numa,
                room.device.index,
            )
        )
        return tuple(sorted(room.device.index for room in open_rooms[: request.device_count]))

    def take(self, allocation: Allocation) -> None:
        self._shift(allocation, -1)
        for cpu in allocation.cpus:
            self.cpus.pop(cpu, None)

    def give_back(self, allocation: Allocation) -> None:
        """Undo a ``take`` of this pass."""
        self._shift(allocation, 1)
        self.cpus.update(dict.fromkeys(allocation.cpus))

    def _shift(self, allocation: Allocation, sign: int) -> None:
        self.cpu_milli += sign * allocation.cpu_milli
        self.memory_mib += sign * allocation.memory_mib
        self.disk_mib += sign * allocation.disk_mib
        for index in allocation.devices:
            room = self.devices.get(index)
            if room is None:
                continue
            if allocation.shared:
                room.sharers -= sign
                room.shared_mib -= sign * allocation.device_memory_mib
            else:
                room.taken = sign < 0


def place(roles_requests: Sequence[Request], rooms: Sequence[Room]) -> list[Allocation] | str:
    """Room for every task, or the dimension that is short. All or nothing.

    First fit in node order. What is taken stays taken in ``rooms``; on failure it is given back.
    """
    taken: list[tuple[Room, Allocation]] = []
    for request in roles_requests:
        short = "nodes"
        for room in rooms:
            short = room.shortage(request)
            if not short:
                allocation = room.choose(request)
                room.take(allocation)
                taken.append((room, allocation))
                break
        else:
            for room, allocation in reversed(taken):
                room.give_back(allocation)
            return short
    return [allocation for _, allocation in taken]
