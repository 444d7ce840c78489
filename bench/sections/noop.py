"""No-op jobs end to end, against the machine's own spawn rate, gflow, Slurm and HyperQueue.

A job counts from before its submit until this client knows that its end is on record. Settings are
the defaults: every acknowledged change is synced to disk, every job is a real process.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench import hyperqueue, machine
from bench.report import Row, against, ratio_at_least, value_at_least, value_at_most

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.context import Context
    from bench.rota import Rota

SECTION = "noop"
JOBS = 500
#: Beside HyperQueue, which takes all of them in one request.
JOBS_BESIDE, JOBS_BESIDE_QUICK = 3_000, 500
CPU_MS_MAX = 10
SPAWN_RATIO_MIN = 0.5
PEER_RATIO_MIN = 5


@dataclass
class Way:
    """One way to submit, and what its rounds gave."""

    name: str
    submit: Callable[[Rota, int], list[int]]
    rates: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)
    right: int = JOBS

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def batch(rota: Rota, count: int) -> list[int]:
    return rota.submit_batch([rota.job()] * count)


def one_by_one(rota: Rota, count: int) -> list[int]:
    message = rota.submit_message()
    return [int(rota.wire.send(message)["id"]) for _ in range(count)]


def measure(context: Context) -> list[Row]:
    ways = [Way("in one batch", batch), Way("one by one", one_by_one)]
    popen, spawned = [], []
    with context.rota(SECTION) as rota:
        rota.await_end(batch(rota, 50))
        for _ in range(context.pick(5, 2)):
            for way in ways:
                before = machine.popen_rate()
                play(rota, way)
                after = machine.popen_rate()
                yardstick = (before + after) / 2
                way.ratios.append(way.rates[-1] / yardstick)
                popen += [before, after]
            spawned.append(machine.posix_spawn_rate())
    rows = []
    for way in ways:
        rows += own_rows(way, statistics.median(popen), statistics.median(spawned))
    for way in ways:
        rows += [gflow_row(context, way), slurm_row(context, way)]
    others = [hyperqueue.Way(way.name, way.submit, together=way is ways[0]) for way in ways]
    many = context.pick(JOBS_BESIDE, JOBS_BESIDE_QUICK)
    beside = hyperqueue.rows(context, SECTION, others, many)
    return [*rows, *peer_cpu_rows(context, ways[0]), *beside]


def play(rota: Rota, way: Way) -> None:
    """One round: CPU before and after are read outside of the timed part."""
    before, client = rota.cpu_by_role(), time.process_time()
    began = time.perf_counter()
    ids = way.submit(rota, JOBS)
    ended = rota.await_end(ids)
    spent = {"client": time.process_time() - client}
    for role, seconds in rota.cpu_by_role().items():
        spent[role] = seconds - before.get(role, 0.0)
    way.rates.append(JOBS / (ended - began))
    way.cpu_ms.append(sum(spent.values()) * 1000 / JOBS)
    way.parts.append({role: round(s * 1000 / JOBS, 3) for role, s in spent.items()})
    way.right = min(way.right, rota.count_right(ids))


def own_rows(way: Way, popen: float, spawned: float) -> list[Row]:
    samples: dict[str, Any] = {"rates": [round(rate, 1) for rate in way.rates]}
    return [
        against(
            SECTION, f"{JOBS} jobs {way.name}", "/s", way.rate, "Popen(true).wait() /s", popen,
            ratio_at_least(SPAWN_RATIO_MIN), ratio=statistics.median(way.ratios), samples=samples,
        ),
        against(
            SECTION, f"{JOBS} jobs {way.name}", "/s", way.rate, "posix_spawn, waitpid /s", spawned
        ),
        against(
            SECTION, f"completed, exit code 0, {way.name}", f"of {JOBS}", way.right,
            "jobs submitted", JOBS, value_at_least(JOBS),
        ),
        against(
            SECTION, f"CPU per job {way.name}", "ms", statistics.median(way.cpu_ms),
            "bar of the issue, ms", CPU_MS_MAX, value_at_most(CPU_MS_MAX),
            note="ms by process: "
            + ", ".join(f"{part} {ms:.2f}" for part, ms in sorted(median_parts(way).items())),
            samples={"rounds": way.parts},
        ),
    ]  # fmt: skip


def median_parts(way: Way) -> dict[str, float]:
    names = {name for parts in way.parts for name in parts}
    return {name: statistics.median(parts.get(name, 0.0) for parts in way.parts) for name in names}


def gflow_row(context: Context, way: Way) -> Row:
    """Its process executor; jobs are submitted to it in the same way as to us."""
    said = context.peers.ask("gflow_noop")
    rate = said["batch" if way.name == "in one batch" else "http"]["jobs_per_s"] if said else None
    return against(
        SECTION, f"{JOBS} jobs {way.name}", "/s", way.rate, "gflow, process executor /s", rate,
        ratio_at_least(PEER_RATIO_MIN),
    )  # fmt: skip


def slurm_row(context: Context, way: Way) -> Row:
    """The best that Slurm did: any profile; one submitter, eight of them, or one array."""
    said = context.peers.ask("slurm_all")
    rates = slurm_rates(said) if said else {}
    best = max(rates, key=lambda name: rates[name]) if rates else ""
    return against(
        SECTION, f"{JOBS} jobs {way.name}", "/s", way.rate, f"Slurm, {best or 'missing'} /s",
        rates.get(best), ratio_at_least(PEER_RATIO_MIN), samples={"slurm": rates},
    )  # fmt: skip


def slurm_rates(said: dict[str, Any]) -> dict[str, float]:
    """Jobs per second from the first submit until the queue is empty."""
    rates = {}
    for profile, found in said.items():
        array = found["array"]["runs"][0]
        jobs = sum(array["states"].values())
        rates[f"{profile}, array"] = jobs / array["makespan_s"]
        for name, words in (("submit_seq", "one sbatch at a time"), ("submit_par", "8 at a time")):
            rates[f"{profile}, {words}"] = jobs / found[name]["all_done_s"]
    return {name: round(rate, 2) for name, rate in rates.items()}


def peer_cpu_rows(context: Context, way: Way) -> list[Row]:
    """What a job costs the others in CPU; shown, no bar."""
    mine = statistics.median(way.cpu_ms)
    slurm, dask = context.peers.ask("slurm_all"), context.peers.ask("dask_all")
    of_slurm = min(
        (found["submit_seq"].get("cpu_ms_per_job") for found in slurm.values()), default=None
    ) if slurm else None  # fmt: skip
    of_dask = dask["true_child"]["cpu_ms_per_task"] if dask else None
    return [
        against(SECTION, "CPU per job in one batch", "ms", mine, "Slurm, ms", of_slurm),
        against(
            SECTION, "CPU per job in one batch", "ms", mine, "Dask, child process, ms", of_dask
        ),
    ]
