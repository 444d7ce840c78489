"""What an agent measures on its machine: of each device, and of each attempt."""

from __future__ import annotations

import msgspec

from rota.rpc.bases import FromAgent


class Reading(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device at one moment; None: it does not say."""

    index: int
    use_percent: float | None = None
    memory_used_mib: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    #: Errors in memory that could not be corrected, since its driver was loaded.
    ecc_errors: int = 0
    #: Failures of its own that it reported since the last message (NVIDIA's Xid numbers).
    xids: tuple[int, ...] = ()


class OnDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the processes of an attempt have on one device."""

    index: int
    memory_mib: int
    use_percent: float | None = None


class AttemptReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt at one moment: memory and CPU time of all of its processes, and its GPUs."""

    uid: str
    #: None: not looked at this time.
    memory_mib: int | None = None
    cpu_s: float | None = None
    gpus: tuple[OnDevice, ...] = ()


class Measured(FromAgent, frozen=True, tag="measured"):
    """A look at the machine. It changes no state: a lost one is made up for by the next."""

    session: int
    devices: tuple[Reading, ...] = ()
    attempts: tuple[AttemptReading, ...] = ()
