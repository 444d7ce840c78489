"""What a task asks for and what a node has: integers in every dimension, added up exactly."""

from __future__ import annotations

import msgspec


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
    """Plain amounts: what a node has, or has left."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
