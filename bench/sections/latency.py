"""How soon a job starts on an idle box, and a job that waited for another one."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from bench import machine, scene
from bench.report import Row, against, ratio_at_most

if TYPE_CHECKING:
    from bench.context import Context
    from bench.rota import Rota

SECTION = "latency"
RATIO_MAX = 1 / 3


def measure(context: Context) -> list[Row]:
    with context.rota(SECTION) as rota:
        scene.start_latency_s(rota, rota.work / "warm")
        starts = []
        for number in range(context.pick(30, 10)):
            # Idle, and not in step with anybody's ticks: the same pauses as in gflow's script.
            time.sleep(0.3 + number % 7 * 0.037)
            starts.append(scene.start_latency_s(rota, rota.work / f"mark-{number}"))
        links_s, gaps_s = chain(rota, context.pick(30, 10))
    gflow = context.peers.ask("gflow_latency")
    gflow_chain = context.peers.ask("gflow_chain")
    slurm = context.peers.ask("slurm_all")
    median_ms = statistics.median(starts) * 1000
    return [
        against(
            SECTION, "submit to first instruction", "ms", median_ms, "gflow, ms",
            gflow["to_payload_start_s"]["p50"] * 1000 if gflow else None,
            ratio_at_most(RATIO_MAX), samples=machine.spread(starts, 1000),
        ),
        against(
            SECTION, "submit to first instruction", "ms", median_ms, "Slurm, best profile, ms",
            min(found["latency"]["idle_s"]["median"] for found in slurm.values()) * 1000
            if slurm else None,
        ),
        against(
            SECTION, "end of a job to its dependent's first instruction", "ms",
            statistics.median(gaps_s) * 1000, "gflow, one link of a chain, ms",
            gflow_chain["per_link_s"] * 1000 if gflow_chain else None,
            ratio_at_most(RATIO_MAX), samples=machine.spread(gaps_s, 1000),
        ),
        against(
            SECTION, "one link of a chain, all of it", "ms", links_s * 1000,
            "gflow, the same, ms", gflow_chain["per_link_s"] * 1000 if gflow_chain else None,
            ratio_at_most(RATIO_MAX),
        ),
    ]  # fmt: skip


def chain(rota: Rota, length: int) -> tuple[float, list[float]]:
    """A line of jobs, each waiting for the one before: seconds per link, and the gaps between.

    A gap runs from the last instruction of a payload to the first of the next, by the payloads'
    own clock readings. The line starts when all of it is submitted.
    """
    marks = [rota.work / f"link-{number}" for number in range(length)]
    ids: list[int] = []
    for mark in marks:
        parent = [{"kind": "after-ok", "job": ids[-1]}] if ids else []
        line = f"date +%s.%N > {mark}; date +%s.%N >> {mark}"
        command = ["/bin/sh", "-c", line]
        ids.append(rota.submit(command=command, depends_on=parent, hold=not ids))
    scene.settle(rota)
    began = time.perf_counter()
    rota.wire.post("/jobs:release", {"ids": ids[:1]})
    link_s = (rota.await_end(ids, cap_s=120) - began) / length
    times = [[float(word) for word in mark.read_text().split()] for mark in marks]
    return link_s, [after[0] - before[1] for before, after in pairwise(times)]
