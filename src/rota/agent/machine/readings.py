"""What devices say of themselves now, and which processes are on them: NVIDIA, AMD, made up.

Whatever a driver does not know is None. Everything here may hang with a driver: it is asked in a
thread of its own (``gauges``).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rota.agent.machine.amd_processes import AmdProcesses
from rota.agent.machine.gpus import (
    MIB,
    amd_cards,
    amd_uuid,
    ask,
    named_file,
    open_nvml,
    read_fake,
    read_int,
    read_text,
    uncorrected_errors,
)
from rota.rpc.measures import Reading

if TYPE_CHECKING:
    from pathlib import Path

    from rota.core.facts.node import Device

#: Xids that a program brings about, not the device: a bad address, a kernel that was killed.
BY_PROGRAMS = frozenset({8, 13, 31, 43, 45, 66, 68, 69, 109})
#: What NVIDIA calls a card that fell off the bus.
GONE_XID = 79
_LOST = 15
#: In place of the number of an instance: the failure is of the whole card.
_WHOLE_CARD = 0xFFFFFFFF


class DeviceHolder(NamedTuple):
    """A process on a device; ``memory_mib`` is None where the driver does not tell."""

    device: int
    pid: int
    memory_mib: int | None
    use_percent: float | None = None
    #: Of made-up ones.
    user: str = ""
    name: str = ""


class Source(Protocol):
    """Devices of one make."""

    def look(self) -> tuple[list[Reading], list[DeviceHolder]]: ...


def open_sources(devices: tuple[Device, ...], fake_file: str, root: Path) -> list[Source]:
    """Who can tell of these devices."""
    if not devices:
        return []
    if file := named_file(fake_file):
        return [Fake(file)]
    amd = {amd_uuid(folder): folder for folder in amd_cards(root)}
    ours = [(device.index, amd[device.uuid]) for device in devices if device.uuid in amd]
    nvidia = [device for device in devices if device.uuid not in amd]
    sources: list[Source] = [Amd(ours, root)] if ours else []
    library = open_nvml() if nvidia else None
    return [*sources, Nvidia(library, nvidia)] if library is not None else sources


class Nvidia:
    """By NVIDIA's management library: a few microseconds per question."""

    def __init__(self, nvml: Any, devices: list[Device]) -> None:  # noqa: ANN401
        self._nvml = nvml
        self._handles = {
            device.index: (handle, self._card(device.uuid, handle))
            for device in devices
            if (handle := ask(nvml, "nvmlDeviceGetHandleByUUID", device.uuid)) is not None
        }
        #: The devices of each card: itself, or its instances, which have numbers on it.
        self._places: dict[str, list[tuple[int, int | None]]] = {}
        for index, (handle, card) in self._handles.items():
            part = ask(nvml, "nvmlDeviceGetGpuInstanceId", handle) if handle is not card else None
            self._places.setdefault(self._place(card), []).append((index, part))
        self._events = self._listen()
        self._since_us = 0

    def _card(self, uuid: str, handle: Any) -> Any:  # noqa: ANN401
        """An instance (MIG) has the power, the temperature and the errors of its card."""
        whole = "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"
        return ask(self._nvml, whole, handle) if uuid.startswith("MIG-") else handle

    def _listen(self) -> Any:  # noqa: ANN401
        """Xids are told from here on; None where the driver has no such events."""
        events = ask(self._nvml, "nvmlEventSetCreate")
        kind = getattr(self._nvml, "nvmlEventTypeXidCriticalError", 8)
        if events is not None:
            for _, card in self._handles.values():
                ask(self._nvml, "nvmlDeviceRegisterEvents", card, kind, events)
        return events

    def look(self) -> tuple[list[Reading], list[DeviceHolder]]:
        xids = self._xids()
        readings = [self._read(index, *both, xids) for index, both in self._handles.items()]
        since_us, self._since_us = self._since_us, int(time.time() * 1e6)
        held = [
            one
            for index, (handle, _) in self._handles.items()
            for one in self._processes(index, handle, since_us)
        ]
        return readings, held

    def _read(self, index: int, handle: Any, card: Any, xids: dict[int, list[int]]) -> Reading:  # noqa: ANN401
        nvml = self._nvml
        use = ask(nvml, "nvmlDeviceGetUtilizationRates", handle)
        power = ask(nvml, "nvmlDeviceGetPowerUsage", card)
        found = xids.get(index, [])
        used_mib = self._memory(handle)
        if used_mib is None and self._is_gone(card):
            found.append(GONE_XID)
        return Reading(
            index,
            use_percent=float(use.gpu) if use is not None else None,
            memory_used_mib=used_mib,
            power_w=power / 1000 if power is not None else None,
            temperature_c=ask(nvml, "nvmlDeviceGetTemperature", card, 0),
            ecc_errors=uncorrected_errors(nvml, card),
            xids=tuple(found),
        )

    def _memory(self, handle: Any) -> int | None:  # noqa: ANN401
        """Without what the driver keeps for itself, as nvidia-smi shows it, where that is told."""
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        newer = () if version is None else (version,)
        memory = ask(self._nvml, "nvmlDeviceGetMemoryInfo", handle, *newer)
        if memory is None and newer:
            memory = ask(self._nvml, "nvmlDeviceGetMemoryInfo", handle)
        return memory.used // MIB if memory is not None else None

    def _is_gone(self, card: Any) -> bool:  # noqa: ANN401
        try:
            self._nvml.nvmlDeviceGetTemperature(card, 0)
        except self._nvml.NVMLError as error:
            return getattr(error, "value", 0) == _LOST
        return False

    def _xids(self) -> dict[int, list[int]]:
        """Failures that were reported since the last look, without those that programs make."""
        found: dict[int, list[int]] = {}
        if self._events is None:
            return found
        while (event := ask(self._nvml, "nvmlEventSetWait_v2", self._events, 0)) is not None:
            number = int(event.eventData)
            if number in BY_PROGRAMS:
                continue
            instance = getattr(event, "gpuInstanceId", _WHOLE_CARD)
            for index, part in self._places.get(self._place(event.device), ()):
                # What nobody puts down to one instance is a failure of them all.
                if instance == _WHOLE_CARD or part is None or part == instance:
                    found.setdefault(index, []).append(number)
        return found

    def _place(self, card: Any) -> str:  # noqa: ANN401
        return str(ask(self._nvml, "nvmlDeviceGetUUID", card))

    def _processes(self, index: int, handle: Any, since_us: int) -> list[DeviceHolder]:  # noqa: ANN401
        found: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            for use in ask(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses", handle) or ():
                memory = use.usedGpuMemory
                found[use.pid] = memory // MIB if memory is not None else None
        busy: dict[int, list[int]] = {}
        if len(found) > 1:
            # One process alone does all that the device does.
            asked = ask(self._nvml, "nvmlDeviceGetProcessUtilization", handle, since_us)
            for sample in asked or ():
                busy.setdefault(sample.pid, []).append(sample.smUtil)
        return [
            DeviceHolder(index, pid, mib, sum(busy[pid]) / len(busy[pid]) if pid in busy else None)
            for pid, mib in found.items()
        ]


class Amd:
    """The cards by /sys, the processes on them by what the kernel tells of open cards."""

    def __init__(self, cards: list[tuple[int, Path]], root: Path) -> None:
        self._cards = cards
        places = {os.path.basename(os.path.realpath(folder)): index for index, folder in cards}
        self._processes = AmdProcesses(places, root)

    def look(self) -> tuple[list[Reading], list[DeviceHolder]]:
        return (
            [_read_amd(index, folder) for index, folder in self._cards],
            [DeviceHolder(*use) for use in self._processes.look()],
        )


def _read_amd(index: int, folder: Path) -> Reading:
    used = read_int(folder / "mem_info_vram_used")
    busy = read_int(folder / "gpu_busy_percent")
    sensors = next(iter(sorted(folder.glob("hwmon/hwmon*"))), folder)
    # Newer cards tell the power of this moment in place of a mean, and no temperature of the edge.
    power = _first(sensors / "power1_average", sensors / "power1_input")
    heat = _first(sensors / "temp1_input", sensors / "temp2_input")
    errors = dict(
        line.split(": ", 1)
        for line in read_text(folder / "ras/umc_err_count").splitlines()
        if ": " in line
    )
    return Reading(
        index,
        use_percent=float(busy) if busy is not None else None,
        memory_used_mib=used // MIB if used is not None else None,
        power_w=power / 1e6 if power is not None else None,
        temperature_c=heat / 1000 if heat is not None else None,
        ecc_errors=int(errors.get("ue", "0")),
    )


def _first(*files: Path) -> int | None:
    """The number in the first of these files that has one."""
    return next((number for file in files if (number := read_int(file)) is not None), None)


class Fake:
    """From the file of made-up GPUs, which is read anew each time."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._told: dict[int, int] = {}

    def look(self) -> tuple[list[Reading], list[DeviceHolder]]:
        gpus = read_fake(self._file)
        while any(gpu.hangs for gpu in gpus):
            time.sleep(0.05)
            gpus = read_fake(self._file)
        readings, held = [], []
        for index, gpu in enumerate(gpus):
            readings.append(
                Reading(
                    index,
                    gpu.use_percent,
                    gpu.memory_used_mib,
                    gpu.power_w,
                    gpu.temperature_c,
                    gpu.ecc_errors,
                    gpu.xids[self._told.get(index, 0) :],
                )
            )
            self._told[index] = len(gpu.xids)
            held += [
                DeviceHolder(index, use.pid, use.memory_mib, user=use.user, name=use.name)
                for use in gpu.foreign
            ]
            held += [
                DeviceHolder(index, one.pid, one.memory_mib, one.use_percent)
                for one in gpu.processes
            ]
        return readings, held
