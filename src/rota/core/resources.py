"""What a task asks for and what a node has: integers in every dimension, added up exactly."""

from __future__ import annotations

import msgspec

#: The dimensions that are plain amounts; devices are matched one by one (see scheduling.fit).
DIMENSIONS = ("cpu_milli", "memory_mib", "disk_mib")


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task asks for: the *shape*. Equal requests share one answer in a pass.

    ``device`` is the kind (``gpu``, ``tpu``; empty for none), ``device_type`` a model such as
    ``A100`` (empty: any). With ``shared`` the task takes ``device_memory_mib`` on each of its
    devices and may sit beside other shared tasks; otherwise it has the device to itself.
    """

    cpu_milli: int = 1000
    memory_mib: int = 0
    disk_mib: int = 0
    device: str = ""
    device_count: int = 0
    device_type: str = ""
    device_memory_mib: int = 0
    shared: bool = False


class Amount(msgspec.Struct, frozen=True):
    """A sum of plain amounts."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0

    def plus(self, other: Amount | Request, times: int = 1) -> Amount:
        return Amount(
            self.cpu_milli + times * other.cpu_milli,
            self.memory_mib + times * other.memory_mib,
            self.disk_mib + times * other.disk_mib,
        )

    def minus(self, other: Amount | Request) -> Amount:
        return self.plus(other, -1)

    def covers(self, other: Amount | Request) -> bool:
        return (
            other.cpu_milli <= self.cpu_milli
            and other.memory_mib <= self.memory_mib
            and other.disk_mib <= self.disk_mib
        )
