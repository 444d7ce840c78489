"""Real processes through one agent beside HyperQueue, as many at a time there as here.

With a control group for each job where the machine has them, and without. HyperQueue has no such
groups. Its client looks once a second whether a job is over, so its job is a long one.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.peers import SLOTS_PER_CORE
from bench.report import Row, against, ratio_at_least, ratio_at_most
from bench.rota import Broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.context import Context
    from bench.rota import Rota

RUN_S_MAX = 150.0
#: How many times its rate: of jobs that come together and have groups, and of others.
RATE_WITH_GROUPS, RATE = 2.0, 1.2
CPU_RATIO_MAX = 1.0


@dataclass(frozen=True)
class Way:
    """How jobs are submitted. In HyperQueue they come ``together``, in one request."""

    name: str
    submit: Callable[[Rota, int], list[int]]
    together: bool = True


def rows(context: Context, section: str, ways: list[Way], jobs: int) -> list[Row]:
    """Each way to submit these jobs, with groups and without."""
    found: list[Row] = []
    for setting in ("", "off"):
        slots = SLOTS_PER_CORE * (os.cpu_count() or 1)
        settings = {"ROTA_AGENT_CPUS": str(slots), "ROTA_AGENT_CGROUP_ROOT": setting}
        with context.rota(section, settings=settings) as rota:
            grouped = has_groups(rota)
            if setting or grouped:
                for way in ways:
                    title = f"{jobs:,} processes `true` {way.name}, {slots} at a time, "
                    title += "a group each: " if grouped else "no groups: "
                    high = grouped and way.together
                    rates, parts = _measured(context, rota, way, jobs)
                    found += _beside(context, section, title, rates, parts, high=high)
    return found


def has_groups(rota: Rota) -> bool:
    """Whether a job is in a group of its own, as the kernel says."""
    told = rota.work / "cgroup"
    job = rota.submit(command=["/bin/sh", "-c", f"cat /proc/self/cgroup > {told}"])
    rota.await_end([job], 60)
    return "/attempt-" in told.read_text()


def _measured(
    context: Context, rota: Rota, way: Way, jobs: int
) -> tuple[list[float], dict[str, float]]:
    """The rate of each round, and CPU per job in ms by process of the one in the middle."""
    rota.await_end(way.submit(rota, 100))
    rates, spent = [], []
    for _ in range(context.pick(3, 1)):
        before, client, began = rota.cpu_by_role(), time.process_time(), time.perf_counter()
        ids = way.submit(rota, jobs)
        rates.append(jobs / (rota.await_end(ids, RUN_S_MAX) - began))
        parts = {"client": time.process_time() - client}
        parts |= {role: s - before.get(role, 0.0) for role, s in rota.cpu_by_role().items()}
        spent.append({role: seconds * 1000 / jobs for role, seconds in parts.items()})
        if any(record["state"] != "completed" for record in rota.records(ids)):
            raise Broken(f"{way.name}: not all of {jobs} jobs ended well")
    return rates, sorted(spent, key=lambda each: sum(each.values()))[len(spent) // 2]


def _beside(
    context: Context, section: str, title: str, rates: list[float], parts: dict[str, float],
    *, high: bool,
) -> list[Row]:  # fmt: skip
    said = context.peers.ask("hyperqueue_all")
    peer = said["true"] if said else {"tasks_per_s": None, "cpu_ms_per_task": None}
    return [
        against(
            section, title + "from submit to the last end", "/s", statistics.median(rates),
            "HyperQueue, likewise /s", peer["tasks_per_s"],
            ratio_at_least(RATE_WITH_GROUPS if high else RATE),
            samples={"rates": [round(rate, 1) for rate in rates]},
        ),
        against(
            section, title + "CPU of all processes", "ms/job", sum(parts.values()),
            "HyperQueue, likewise, ms/job", peer["cpu_ms_per_task"],
            ratio_at_most(CPU_RATIO_MAX) if high else None,
            note="ms by process, jobs with the keeper: "
            + ", ".join(f"{role} {ms:.2f}" for role, ms in sorted(parts.items())),
        ),
    ]  # fmt: skip
