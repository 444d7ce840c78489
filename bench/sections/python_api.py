"""Trivial function calls through the Python API, beside the standard library, Dask and Ray.

A pool keeps its workers, as the others do. A map makes a job of every call: recorded, placed, with
a process and an interpreter of its own; its yardstick is the start of as many interpreters.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import rota as client
from bench.report import Row, against, ratio_at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.context import Context

SECTION = "python"
CALLS = 1000
SAMPLES = 50
STARTS = 100
JOBS_S = 60
POOL_RATIO_MIN = 1.0
JOB_RATIO_MIN = 0.5
#: What a job must load before it can run a function that was sent by value.
INTERPRETER = [sys.executable, "-c", "import cloudpickle"]


def noop(number: int) -> None:
    """The trivial function."""


def measure(context: Context) -> list[Row]:
    workers = os.cpu_count() or 1
    with context.rota(SECTION) as rota:
        address = f"unix://{rota.state / 'rota.sock'}"
        with client.connect(address) as cluster:
            pools, processes = Figures(), Figures()
            for _ in range(context.pick(5, 2)):
                with cluster.pool(workers) as pool, ProcessPoolExecutor(workers) as peer:
                    for executor, figures in ((pool, pools), (peer, processes)):
                        figures.play(executor)
            bare = [starts_per_s(STARTS, workers)]
            # On a machine that others use, as many as take a minute.
            jobs = min(context.pick(CALLS, 100), max(STARTS, int(bare[0] * JOBS_S)))
            by_value = jobs_per_s(cluster, local_function(), jobs)
            bare.append(starts_per_s(STARTS, workers))
            by_name = jobs_per_s(cluster, abs, jobs)
            trip = round_trip_ms(lambda: cluster.submit(abs, -1).result())
    return [
        *pool_rows(context, pools, processes, workers),
        *job_rows(jobs, by_value, by_name, bare, trip),
    ]


class Figures:
    """What the rounds of one executor gave."""

    def __init__(self) -> None:
        self.mapped: list[float] = []
        self.submitted: list[float] = []
        self.trips_ms: list[float] = []

    def play(self, executor: Executor) -> None:
        list(executor.map(noop, range(50)))
        began = time.perf_counter()
        list(executor.map(noop, range(CALLS)))
        self.mapped.append(CALLS / (time.perf_counter() - began))
        began = time.perf_counter()
        wait([executor.submit(noop, number) for number in range(CALLS)])
        self.submitted.append(CALLS / (time.perf_counter() - began))
        self.trips_ms.append(round_trip_ms(lambda: executor.submit(noop, 0).result()))


def local_function() -> Callable[[int], int]:
    """A function that no module has: it travels by value, as those of a script do."""

    def travelling(number: int) -> int:
        return number

    return travelling


def jobs_per_s(cluster: client.ClusterContext, function: Callable[..., Any], count: int) -> float:
    """From before the submit until the last result is here."""
    began = time.perf_counter()
    handles = cluster.map(function, range(count))
    results = [handle.result() for handle in handles]
    took_s = time.perf_counter() - began
    assert results == list(range(count))
    return count / took_s


def starts_per_s(count: int, at_once: int) -> float:
    """Interpreters that load what a job loads, and end."""
    with ThreadPoolExecutor(at_once) as threads:
        began = time.perf_counter()
        list(threads.map(lambda _: subprocess.run(INTERPRETER, check=True), range(count)))
        return count / (time.perf_counter() - began)


def round_trip_ms(call: Callable[[], object]) -> float:
    """Median over single calls, one after the other."""
    samples = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return statistics.median(samples) * 1000


def pool_rows(context: Context, pools: Figures, processes: Figures, workers: int) -> list[Row]:
    median = statistics.median
    dask, ray = context.peers.ask("dask_all"), context.peers.ask("ray_all")
    rate = median(pools.mapped)
    ratios = [a / b for a, b in zip(pools.mapped, processes.mapped, strict=True)]
    what = f"{CALLS} calls, pool of {workers}, map"
    return [
        against(
            SECTION, what, "/s", rate, "ProcessPoolExecutor.map /s", median(processes.mapped),
            ratio_at_least(POOL_RATIO_MIN), ratio=median(ratios),
            samples={"rota": pools.mapped, "peer": processes.mapped},
        ),
        against(
            SECTION, what, "/s", rate, "Dask, two workers /s",
            max(dask[way]["tasks_per_s"] for way in ("noop", "noop_batched_64")) if dask else None,
            ratio_at_least(POOL_RATIO_MIN),
        ),
        against(
            SECTION, what, "/s", rate, "Ray, two nodes /s",
            ray["noop"]["tasks_per_s"] if ray else None, ratio_at_least(POOL_RATIO_MIN),
        ),
        against(
            SECTION, f"{CALLS} calls, pool of {workers}, submit each", "/s",
            median(pools.submitted), "ProcessPoolExecutor.submit /s", median(processes.submitted),
            ratio_at_least(POOL_RATIO_MIN),
        ),
        against(
            SECTION, "one call in a pool, there and back", "ms", median(pools.trips_ms),
            "ProcessPoolExecutor, ms", median(processes.trips_ms),
        ),
    ]  # fmt: skip


def job_rows(
    jobs: int, by_value: float, by_name: float, bare: list[float], trip_ms: float
) -> list[Row]:
    median = statistics.median
    yardstick = "starts of an interpreter with cloudpickle /s"
    return [
        against(
            SECTION, f"{jobs} calls, each a job, function by value", "/s", by_value,
            yardstick, median(bare), ratio_at_least(JOB_RATIO_MIN), samples={"bare": bare},
        ),
        against(
            SECTION, f"{jobs} calls, each a job, function by name", "/s", by_name,
            yardstick, median(bare),
        ),
        against(
            SECTION, "one call as a job, there and back", "ms", trip_ms,
            "one such start, two at once, ms", 2000 / median(bare),
        ),
    ]  # fmt: skip
