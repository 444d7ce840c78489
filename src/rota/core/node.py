"""Machines: what a node has, what an attempt holds on it."""

from __future__ import annotations

import msgspec

from rota.core.resources import Amount
from rota.core.states import NodeState


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """A GPU, TPU or other unit that is handed out whole or, when shared, by its memory.

    A device of unknown memory (0) is handed out whole only. ``fake`` marks one that exists
    only in a test or demo file.
    """

    index: int
    uuid: str
    kind: str = "gpu"
    model: str = ""
    memory_mib: int = 0
    numa: int = -1
    links: tuple[int, ...] = ()
    fake: bool = False


class NodeSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an agent says about its machine."""

    name: str
    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    #: The CPU numbers to pin to; empty when the count was overridden and pinning is off.
    cpus: tuple[int, ...] = ()
    devices: tuple[Device, ...] = ()
    numa_cpus: tuple[tuple[int, ...], ...] = ()
    labels: dict[str, str] = {}
    address: str = ""
    system: str = ""

    @property
    def total(self) -> Amount:
        return Amount(self.cpu_milli, self.memory_mib, self.disk_mib)


class ForeignUse(msgspec.Struct, frozen=True):
    """A process outside Rota that holds memory on a device."""

    device: int
    pid: int
    user: str
    memory_mib: int


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an attempt holds: fixed when it is placed, given back when it ends."""

    node: str
    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    cpus: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    device_memory_mib: int = 0
    shared: bool = False


class Node(msgspec.Struct):
    """A machine as the controller knows it. ``live`` are the uids that hold room on it."""

    spec: NodeSpec
    incarnation: str
    boot_id: str
    state: NodeState = NodeState.DOWN
    #: Why it is not up, for people.
    note: str = ""
    drained: bool = False
    seen_s: float = 0.0
    foreign: tuple[ForeignUse, ...] = ()
    live: dict[str, Allocation] = {}

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def takes_work(self) -> bool:
        return self.state is NodeState.UP and not self.drained

    def headroom(self) -> Amount:
        """Totals minus what live attempts hold: derived each time, so that it cannot drift."""
        cpu = memory = disk = 0
        for held in self.live.values():
            cpu += held.cpu_milli
            memory += held.memory_mib
            disk += held.disk_mib
        spec = self.spec
        return Amount(spec.cpu_milli - cpu, spec.memory_mib - memory, spec.disk_mib - disk)
