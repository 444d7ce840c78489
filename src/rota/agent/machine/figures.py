"""What attempts use: of CPUs and memory now, and of their GPUs over all of their time."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.gpu_use import GpuFigures
from rota.keeper.processes import group_by_owner, snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from rota.agent.machine.cgroups import Cgroups
    from rota.rpc.measures import AttemptReading, Reading
    from rota.session.charge import Alive

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
#: A GPU that does less than this does nothing.
BUSY_PERCENT = 1.0
#: The most attempts whose sums are kept: more than have GPUs of one node at once.
KEPT = 512


def use_of(alive: Collection[Alive], cgroups: Cgroups | None) -> dict[str, tuple[int, float]]:
    """Memory in MiB and seconds of CPU of each attempt: by its group, else one look at /proc."""
    if not alive:
        return {}
    if cgroups is not None:
        told = {one.uid: cgroups.use_of(one.uid) for one in alive}
        return {uid: use for uid, use in told.items() if use is not None}
    table = snapshot()
    owned = group_by_owner(table, {one.pid: one.uid for one in alive}, {})
    return {
        uid: (
            sum(table[pid].rss_kib for pid in pids) // 1024,
            sum(table[pid].cpu_ticks for pid in pids) * _TICK_S,
        )
        for uid, pids in owned.items()
    }


class AttemptSums(msgspec.Struct):
    """Of one attempt: peaks, and values times seconds."""

    peak_mib: int = 0
    peak_percent: float = 0.0
    mib_s: float = 0.0
    percent_s: float = 0.0
    energy_j: float = 0.0
    #: Seconds with a look; the same times GPUs that said what they do, and did nothing.
    looked_s: float = 0.0
    told_s: float = 0.0
    idle_s: float = 0.0


class FigureLedger:
    """The sums of running attempts, kept in a file while the agent is away."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._sums: dict[str, AttemptSums] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._sums = msgspec.json.decode(file.read_bytes(), type=dict[str, AttemptSums])

    def save(self) -> None:
        with suppress(OSError):
            if self._sums or self._file.exists():
                self._file.write_bytes(msgspec.json.encode(self._sums))

    def add(
        self, readings: Iterable[Reading], attempts: Iterable[AttemptReading], passed_s: float
    ) -> None:
        """What was seen holds for the time since the look before."""
        by_index = {reading.index: reading for reading in readings}
        with_gpus = [one for one in attempts if one.gpus]
        sharers: dict[int, int] = {}
        for one in with_gpus:
            for gpu in one.gpus:
                sharers[gpu.index] = sharers.get(gpu.index, 0) + 1
        for one in with_gpus:
            sums = self._sums.setdefault(one.uid, AttemptSums())
            if len(self._sums) > KEPT:
                del self._sums[next(iter(self._sums))]
            held_mib = sum(gpu.memory_mib for gpu in one.gpus)
            sums.peak_mib = max(sums.peak_mib, held_mib)
            sums.mib_s += held_mib * passed_s
            sums.looked_s += passed_s
            for gpu in one.gpus:
                reading = by_index.get(gpu.index)
                if reading is not None and reading.power_w is not None:
                    sums.energy_j += reading.power_w * passed_s / sharers[gpu.index]
                _add_use(sums, gpu.use_percent, passed_s)

    def figures(self, uid: str) -> GpuFigures | None:
        """Of an attempt; None: it was never looked at. An end may be told more than once."""
        sums = self._sums.get(uid)
        if sums is None or not sums.looked_s:
            return None
        return GpuFigures(
            peak_memory_mib=sums.peak_mib,
            mean_memory_mib=round(sums.mib_s / sums.looked_s),
            peak_use_percent=round(sums.peak_percent, 1),
            mean_use_percent=round(sums.percent_s / sums.told_s, 1) if sums.told_s else 0.0,
            energy_j=round(sums.energy_j, 1),
            measured_s=round(sums.told_s, 1),
            idle_s=round(sums.idle_s, 1),
        )


def _add_use(sums: AttemptSums, percent: float | None, passed_s: float) -> None:
    if percent is None:
        return
    sums.peak_percent = max(sums.peak_percent, percent)
    sums.percent_s += percent * passed_s
    sums.told_s += passed_s
    if percent < BUSY_PERCENT:
        sums.idle_s += passed_s
