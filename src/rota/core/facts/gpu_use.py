"""What was measured of GPUs, as far as decisions and the record need it."""

from __future__ import annotations

import msgspec

#: What an attempt was told about its GPUs, once each.
OVERUSE, IDLE = "overuse", "idle"
#: The most failures of the devices of a node that are remembered.
FAULTS_KEPT = 64
#: Failures that are older than this say nothing about a device of today.
FAULT_S = 24 * 3600.0


class GpuFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an attempt made of its GPUs while it ran, over all of them."""

    #: On all of its GPUs together.
    peak_memory_mib: int = 0
    mean_memory_mib: int = 0
    #: Of one GPU; the mean is over all of them and all the time.
    peak_use_percent: float = 0.0
    mean_use_percent: float = 0.0
    energy_j: float = 0.0
    #: Seconds times GPUs: that were measured at all, and those without any use.
    measured_s: float = 0.0
    idle_s: float = 0.0


class Overuse(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt that holds more memory on a shared device than it asked for: all that it holds."""

    uid: str
    device: int
    memory_mib: int


class DeviceFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure that a device reported of itself."""

    uuid: str
    at_s: float
    what: str
