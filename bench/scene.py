"""A Rota with a deep queue: one job holds a CPU, those behind it ask for all of them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from bench.rota import Rota

CPUS = os.cpu_count() or 1
#: Half of a single core, else one core, leaves room for a job that can run.
SMALL_CPUS: float = 1 if CPUS > 1 else 0.5
#: Requests differ, as they do in life: a queue of one shape would be too easy.
SHAPES = 16
BATCH = 1000


def block(rota: Rota) -> int:
    """Take a CPU for as long as the benchmark lasts."""
    blocker = rota.submit(command=["sleep", "86400"], resources={"cpus": SMALL_CPUS})
    rota.reach(
        lambda: rota.wire.get(f"/jobs/{blocker}")["state"] == "running", "the blocking job to run"
    )
    return blocker


def waiting_job(rota: Rota, number: int = 0) -> dict[str, Any]:
    """A job that fits on the machine, but not beside the blocker."""
    return rota.job(resources={"cpus": CPUS, "memory_mb": 16 + number % SHAPES})


def fill(rota: Rota, count: int) -> list[int]:
    """Queue ``count`` jobs that must wait."""
    ids = []
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        ids += rota.submit_batch([waiting_job(rota, start + k) for k in range(size)])
    return ids


def settle(rota: Rota, cap_s: float = 30) -> None:
    """Wait until the processes are calm: below 2 % of a core over half a second."""
    from bench.machine import cpu_s

    end = time.monotonic() + cap_s
    while time.monotonic() < end:
        pids = list(rota.pids())
        before = cpu_s(pids)
        time.sleep(0.5)
        if cpu_s(pids) - before <= 0.01:
            return


def stamp_command(mark: Path) -> list[str]:
    """A payload whose first instruction writes down the time, as the peers' payloads do."""
    return ["/bin/sh", "-c", f"date +%s.%N > {mark}"]


def start_latency_s(rota: Rota, mark: Path, **fields: Any) -> float:
    """Seconds from before the submit to the payload's own clock reading."""
    message = rota.submit_message(command=stamp_command(mark), **fields)
    rota.wire.get("/jobs?limit=1")
    began = time.time()
    job = int(rota.wire.send(message)["id"])
    rota.await_end([job], cap_s=60)
    return float(mark.read_text()) - began
