"""A million queued array elements: how much memory, and how long one page of them takes."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from bench import machine, scene
from bench.report import Row, against, value_at_most

if TYPE_CHECKING:
    from bench.context import Context
    from bench.rota import Rota

SECTION = "arrays"
ELEMENTS, ELEMENTS_QUICK = 1_000_000, 100_000
MEMORY_MIB_MAX = 2_048
PAGE = 100
PAGE_MS_MAX = 50


def measure(context: Context) -> list[Row]:
    count = context.pick(ELEMENTS, ELEMENTS_QUICK)
    with context.rota(SECTION) as rota:
        empty_mib = machine.memory_mib(rota.controller_pid())["VmRSS"]
        scene.block(rota)
        submit_s = machine.timed(lambda: submit(rota, count))
        scene.settle(rota)
        memory = {role: machine.memory_mib(pid) for pid, role in rota.pids().items()}
        pages = page_times(rota, context.pick(50, 20))
    highest = sum(found.get("VmHWM", 0.0) for found in memory.values())
    controller = memory["controller"]
    what = f"{count:,} queued elements: "
    return [
        against(
            SECTION, what + "memory of all processes at its highest", "MiB", highest,
            "bar of the issue, MiB", MEMORY_MIB_MAX, value_at_most(MEMORY_MIB_MAX),
            note=f"controller {controller['VmRSS']:.0f} MiB resident afterwards, "
            f"{empty_mib:.0f} MiB when empty",
            samples=memory,
        ),
        against(
            SECTION, what + f"a page of {PAGE}", "ms", statistics.median(pages) * 1000,
            "bar of the issue, ms", PAGE_MS_MAX, value_at_most(PAGE_MS_MAX),
            note=f"slowest of {len(pages)} pages {max(pages) * 1000:.1f} ms",
            samples=machine.spread(pages, 1000),
        ),
        Row(SECTION, what + "one submit", submit_s, "s"),
    ]  # fmt: skip


def submit(rota: Rota, count: int) -> None:
    job = scene.waiting_job(rota)
    rota.wire.post("/jobs", {**job, "array": f"0-{count - 1}"})


def page_times(rota: Rota, count: int) -> list[float]:
    """Page after page by cursor; half of them from the other end of the queue."""
    times = []
    for order in ("id", "-id"):
        cursor = ""
        for _ in range(count // 2):
            path = f"/jobs?state=queued&arrays=expand&limit={PAGE}&order={order}{cursor}"
            began = time.perf_counter()
            answer = rota.wire.get(path)
            times.append(time.perf_counter() - began)
            assert len(answer["items"]) == PAGE
            cursor = f"&cursor={answer['cursor']}"
    return times
