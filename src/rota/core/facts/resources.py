"""What a task asks for and what a node has: integers in every dimension, added up exactly."""

from __future__ import annotations

import msgspec


def part_of(memory_mib: int, milli: int) -> int:
    """Thousandths of a device's memory, cut down so that two halves of an odd number fit."""
    return max(1, milli * memory_mib // 1000) if milli and memory_mib else 0


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task asks for: the *shape*. Equal requests share one answer in a pass.

    ``device`` is the kind (``gpu``, ``tpu``; empty for none), ``device_type`` a model such as
    ``A100`` (empty: any). With ``shared`` the task takes ``device_memory_mib`` on each of its
    devices, or ``device_milli`` thousandths of each, and may sit beside other shared tasks;
    otherwise it has the device to itself.
    """

    cpu_milli: int = 1000
    memory_mib: int = 0
    disk_mib: int = 0
    device: str = ""
    device_count: int = 0
    device_type: str = ""
    device_memory_mib: int = 0
    shared: bool = False
    device_milli: int = 0
    #: Only devices with these numbers on their node; empty: any.
    device_indices: tuple[int, ...] = ()

    def share_of(self, memory_mib: int) -> int:
        """What a shared task takes on a device with this much memory."""
        return max(self.device_memory_mib, part_of(memory_mib, self.device_milli))

    @property
    def device_use_milli(self) -> int:
        """Thousandths of devices, for accounts: a share named by memory counts as a whole one.

        A request is charged before it is known which card it gets, and no request must become
        cheaper by naming bytes instead of thousandths.
        """
        return self.device_count * (
            self.device_milli if self.shared and self.device_milli else 1000
        )

    @property
    def amount(self) -> Amount:
        """What a task of it is given."""
        return Amount(self.cpu_milli, self.memory_mib, self.disk_mib, self.device_use_milli)


class Amount(msgspec.Struct, frozen=True):
    """Plain amounts: what a node has or has left, what an account holds."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    device_milli: int = 0

    def plus(self, other: Amount, times: int = 1) -> Amount:
        return Amount(
            self.cpu_milli + times * other.cpu_milli,
            self.memory_mib + times * other.memory_mib,
            self.disk_mib + times * other.disk_mib,
            self.device_milli + times * other.device_milli,
        )


NOTHING = Amount()
