"""What an idle Rota costs: nothing to do, and a queue that cannot move."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import machine, scene
from bench.report import Row, against, ratio_at_most

if TYPE_CHECKING:
    from bench.context import Context
    from bench.rota import Rota

SECTION = "idle"
#: "Zero" that a measurement can tell from noise: one part in a thousand of one core.
SHARE_MAX = 0.001
QUEUED = 1_000


def measure(context: Context) -> list[Row]:
    window_s = context.pick(10, 5)
    with context.rota(SECTION) as rota:
        scene.settle(rota)
        empty = row("CPU of all processes, nothing to do", rota, window_s)
        scene.block(rota)
        scene.fill(rota, QUEUED)
        scene.settle(rota)
        waiting = row(f"CPU of all processes, {QUEUED:,} jobs wait", rota, window_s)
    return [empty, waiting]


def row(what: str, rota: Rota, window_s: float) -> Row:
    rota.hang_up()
    pids = rota.pids()
    before = {pid: machine.run_ns([pid]) for pid in pids}
    began = time.perf_counter()
    time.sleep(window_s)
    took_s = time.perf_counter() - began
    used = {f"{role} {pid}": (machine.run_ns([pid]) - before[pid]) / 1e6
            for pid, role in pids.items()}  # fmt: skip
    total_ms = sum(used.values())
    return against(
        SECTION, what, f"ms in {took_s:.0f} s", total_ms, "one core, ms", took_s * 1000,
        ratio_at_most(SHARE_MAX),
        note=", ".join(f"{role} {ms:.2f}" for role, ms in used.items()),
    )  # fmt: skip
