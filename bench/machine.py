"""The machine's own figures: how fast it starts processes and syncs its disk, who uses its CPUs."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BLOCK = b"\0" * 4096


def popen_rate(count: int = 200) -> float:
    """``subprocess.Popen(["true"]).wait()``, one after another: processes per second."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.Popen(["true"]).wait()
    return count / (time.perf_counter() - began)


def posix_spawn_rate(count: int = 200) -> float:
    """``os.posix_spawn`` and ``os.waitpid``, one after another: processes per second."""
    program = shutil.which("true") or "/bin/true"
    began = time.perf_counter()
    for _ in range(count):
        os.waitpid(os.posix_spawn(program, ["true"], os.environ), 0)
    return count / (time.perf_counter() - began)


def sync_rate(folder: Path, count: int = 200) -> float:
    """Appends of 4 KiB, each followed by fdatasync: per second, on the disk of ``folder``."""
    path = folder / f"sync-{os.getpid()}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        began = time.perf_counter()
        for _ in range(count):
            os.write(handle, BLOCK)
            os.fdatasync(handle)
        return count / (time.perf_counter() - began)
    finally:
        os.close(handle)
        path.unlink()


def cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds of these processes and of all their children that have been waited for."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(int(value) for value in fields[11:15])
    return total / TICKS_PER_S


def run_ns(pids: Iterable[int]) -> int:
    """Nanoseconds on a CPU of all living threads: exact, where the clock tick is too coarse."""
    total = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(OSError):
                total += int((thread / "schedstat").read_text().split()[0])
    return total


def memory_mib(pid: int) -> dict[str, float]:
    """Resident memory now (``VmRSS``) and at its highest (``VmHWM``)."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in {"VmRSS", "VmHWM"}:
            found[name] = int(value.split()[0]) / 1024
    return found


def timed(action: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def spread(samples: list[float], scale: float = 1.0) -> dict[str, float]:
    """Median and range, for the JSON."""
    ordered = sorted(sample * scale for sample in samples)
    return {
        "n": len(ordered),
        "min": round(ordered[0], 4),
        "median": round(statistics.median(ordered), 4),
        "p90": round(ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))], 4),
        "max": round(ordered[-1], 4),
    }


def description(folder: Path) -> dict[str, Any]:
    """What a reader needs to place the figures."""
    return {
        "cpus": os.cpu_count(),
        "cpu_model": _cpu_model(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": list(os.getloadavg()),
        "folder": str(folder),
    }


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
