"""What was measured of GPUs and is worth a line in the log: never a single sample."""

from __future__ import annotations

from rota.core.facts.event import Event
from rota.core.facts.gpu_use import Overuse


class OveruseSeen(Event, frozen=True, tag="overuse-seen"):
    """Which attempts on a node hold more GPU memory than they asked for: all of them, anew."""

    node: str
    overuse: tuple[Overuse, ...] = ()


class GpuOverused(Event, frozen=True, tag="gpu-overused"):
    """The owner of a job is told that it holds more GPU memory than it asked for."""

    job: int
    task: int
    uid: str
    device: int
    memory_mib: int
    declared_mib: int


class GpuIdle(Event, frozen=True, tag="gpu-idle"):
    """The owner of a job is told that GPUs which it has to itself do nothing, and since when."""

    job: int
    task: int
    uid: str
    devices: tuple[int, ...]
    since_s: float


class DeviceFailed(Event, frozen=True, tag="device-failed"):
    """A device, by its uuid, reported a failure of its own."""

    node: str
    device: str
    what: str


AnyGpuEvent = OveruseSeen | GpuOverused | GpuIdle | DeviceFailed
