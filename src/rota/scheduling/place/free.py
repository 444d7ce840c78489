"""What a node has left and what it offers when nothing runs there: what scores are made of."""

from __future__ import annotations

from typing import NamedTuple

from rota.scheduling.api import UNIT as UNIT


class Free(NamedTuple):
    """What a node has left."""

    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    idle_devices: int = 0
    #: Free memory of each device that can be shared (idle ones too), most first.
    shared_free: tuple[int, ...] = ()
    #: Thousandths of each device with something left, most first; an idle one has all.
    device_milli: tuple[int, ...] = ()


class Total(NamedTuple):
    """What a node offers when nothing runs there."""

    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    devices: int = 0
    #: Memory of one device; of the largest where they differ.
    device_mib: int = 0
    #: Kind and model of each sort of device.
    makes: tuple[tuple[str, str], ...] = ()

    def larger(self, other: Total) -> Total:
        """The more of either in the dimensions that count: CPUs and devices."""
        cpu_milli, devices = max(self.cpu_milli, other.cpu_milli), max(self.devices, other.devices)
        return SMALLEST._replace(cpu_milli=cpu_milli, devices=devices)

    def is_reached_by(self, other: Total) -> bool:
        """Whether the other has as much in a dimension that counts."""
        return other.cpu_milli >= self.cpu_milli or other.devices >= self.devices


#: Larger than nothing, and smaller than any node.
SMALLEST = Total(1, 1, 1, 1)


def ease(free: Free | tuple[int, int], total: Total) -> int:
    """How little is going on there, by CPUs and memory: what neighbours would feel."""
    return UNIT * free[0] // (total[0] or 1) + UNIT * free[1] // (total[1] or 1) >> 1
