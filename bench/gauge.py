"""Time and memory of what runs in this very process."""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass
class Took:
    """CPU time of this process, and what a clock on the wall says."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


@contextmanager
def taking() -> Iterator[Took]:
    """Measure a block; neighbours on the machine move the wall clock more than the CPU time."""
    took = Took()
    wall, cpu = time.perf_counter(), time.process_time()
    yield took
    took.cpu_s, took.wall_s = time.process_time() - cpu, time.perf_counter() - wall


def median_cpu_s(rounds: Sequence[Took]) -> float:
    return statistics.median(took.cpu_s for took in rounds)


def spread(rounds: Sequence[Took]) -> str:
    """Best and worst CPU time, and the median on the wall, in words."""
    cpu = [took.cpu_s for took in rounds]
    wall = statistics.median(took.wall_s for took in rounds)
    return f"CPU {min(cpu):.2f} to {max(cpu):.2f} s in {len(rounds)} rounds, wall {wall:.2f} s"


def quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def memory_mib(field: str = "VmRSS") -> float:
    """What this process holds now, or with ``VmHWM`` held at its highest."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def forget_peak() -> None:
    """From here on ``VmHWM`` counts anew."""
    Path("/proc/self/clear_refs").write_text("5")
