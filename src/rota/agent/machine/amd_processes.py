"""Processes on AMD cards: what the kernel tells of each open card in ``/proc/PID/fdinfo``.

Of every process that has a card open there are lines such as ``drm-memory-vram: 2048 KiB`` and
``drm-engine-compute: 81250 ns``. To find the processes, the links of all open files have to be
read, which is done once a minute; those that compute are listed in ``/sys`` at any time.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from rota.agent.machine.gpus import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

KIB = 1 << 10
MIB = 1 << 20
#: All processes are looked through once in this number of looks.
SEARCH_EVERY = 12
_UNITS = {"": 1, "KiB": KIB, "MiB": MIB}
_MEMORY = ("drm-resident-vram", "drm-memory-vram")
_ENGINES = ("drm-engine-gfx", "drm-engine-compute")


class CardUse(NamedTuple):
    """What one process has on one card; ``use_percent`` is None at the first look."""

    device: int
    pid: int
    memory_mib: int
    use_percent: float | None


class _Client(NamedTuple):
    device: int
    memory_bytes: int
    busy_ns: int


class AmdProcesses:
    """Of the cards at these addresses on the PCI bus, by the index of each."""

    def __init__(
        self,
        indices: Mapping[str, int],
        root: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._indices = indices
        self._proc = root / "proc"
        self._computing = root / "sys/class/kfd/kfd/proc"
        self._clock = clock
        self._looks = 0
        #: Processes that had a card open when all were looked through.
        self._found: set[int] = set()
        self._busy_ns: dict[tuple[int, int], int] = {}
        self._looked_s = clock()

    def look(self) -> list[CardUse]:
        now_s = self._clock()
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        if self._looks % SEARCH_EVERY == 0:
            self._found = set(_numbers(self._proc))
        self._looks += 1
        clients = {
            pid: found
            for pid in sorted(self._found | set(_numbers(self._computing)))
            if (found := self._clients(pid))
        }
        self._found = set(clients)
        before, self._busy_ns = self._busy_ns, {}
        return [
            use
            for pid, found in clients.items()
            for use in self._uses(pid, found, before, passed_s)
        ]

    def _uses(
        self,
        pid: int,
        clients: list[_Client],
        before: Mapping[tuple[int, int], int],
        passed_s: float,
    ) -> Iterator[CardUse]:
        for device in sorted({client.device for client in clients}):
            mine = [client for client in clients if client.device == device]
            busy_ns = self._busy_ns[pid, device] = sum(client.busy_ns for client in mine)
            percent = None
            if (known_ns := before.get((pid, device))) is not None and passed_s > 0:
                percent = min(100.0, max(0.0, (busy_ns - known_ns) / passed_s / 1e7))
            memory_mib = sum(client.memory_bytes for client in mine) // MIB
            # A program that only asks for figures has the card open, too.
            if memory_mib or busy_ns:
                yield CardUse(device, pid, memory_mib, percent)

    def _clients(self, pid: int) -> list[_Client]:
        """A card that is opened once and passed on under several numbers counts once."""
        folder = self._proc / str(pid)
        found: dict[str, _Client] = {}
        for number in _numbers(folder / "fd"):
            try:
                place = os.readlink(folder / "fd" / str(number))
            except OSError:
                continue
            if place.startswith("/dev/dri/"):
                told = _told(read_text(folder / "fdinfo" / str(number)))
                device = self._indices.get(told.get("drm-pdev", ""))
                if device is not None:
                    memory = next((told[key] for key in _MEMORY if key in told), "")
                    busy_ns = sum(_amount(told.get(key, "")) for key in _ENGINES)
                    name = f"{device} {told.get('drm-client-id', number)}"
                    found[name] = _Client(device, _amount(memory), busy_ns)
        return list(found.values())


def _numbers(folder: Path) -> list[int]:
    """The names in a folder that are numbers; none where it cannot be read."""
    try:
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    except OSError:
        return []


def _told(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _amount(text: str) -> int:
    """``2048 KiB``, ``81250 ns``; 0 for what is no amount."""
    number, _, unit = text.partition(" ")
    return int(number) * _UNITS.get(unit, 1) if number.isdecimal() else 0
