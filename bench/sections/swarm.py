"""Hundreds of agents on one controller: what they cost while nothing happens, and short tasks.

The agents are simulated in one process: real connections, leases and decisions, without processes
of jobs. So the tasks per second are what the controller can do: take an array in, place each
element, put it on disk, send the order, hear of the end and record it. A second figure is for
real processes of this machine, because those of HyperQueue are.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench import hyperqueue, machine
from bench.herd import Herd
from bench.hyperqueue import Way
from bench.report import Row, against, value_at_least, value_at_most
from bench.rota import Broken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.context import Context
    from bench.rota import Rota

SECTION = "swarm"
AGENTS, AGENTS_QUICK = 500, 100
TASKS, TASKS_QUICK = 100_000, 10_000
#: Of each simulated node.
CPUS = 4
SHARE_MAX = 0.2
#: Agents beat every ten seconds: a window must hold all of them.
WINDOW_S, WINDOW_S_QUICK = 20, 10
REAL_TASKS, REAL_TASKS_QUICK = 5_000, 1_000
RUN_S_MAX = 150.0
#: Of a peer that is missing.
NOTHING: dict[str, Any] = {"tasks_per_s": None, "cpu_ms_per_task": None}


def measure(context: Context) -> list[Row]:
    agents = context.agents or context.pick(AGENTS, AGENTS_QUICK)
    tasks = context.tasks or context.pick(TASKS, TASKS_QUICK)
    window_s = context.pick(WINDOW_S, WINDOW_S_QUICK)
    # As on a real network: encrypted, with a pinned certificate.
    with context.rota(SECTION, with_agent=False, settings={"ROTA_SERVER_TLS": "on"}) as rota:
        began = time.perf_counter()
        with Herd(rota, agents, CPUS) as herd:
            context.say(f"{agents} agents connected after {time.perf_counter() - began:.0f} s")
            idle = watch(rota, herd, window_s)
            with long_jobs(rota, agents):
                busy = watch(rota, herd, window_s)
                back_s = come_back(rota, agents)
            burst = run_array(rota, herd, tasks)
    if herd.tally["starts"] > agents + tasks:
        raise Broken(f"{herd.tally['starts']} starts of {agents + tasks} tasks")
    rows = [
        *steady_rows(agents, window_s, idle, busy),
        Row(
            SECTION,
            f"controller killed: {agents} agents are back, their jobs run on",
            back_s,
            "s",
            note=f"agents dial again after half a second; {herd.tally['sessions']} sessions in all",
        ),
        *burst_rows(agents, tasks, burst, herd.tally["starts"] - agents),
        *peer_rows(context, agents, tasks, burst),
    ]
    real, ways = context.pick(REAL_TASKS, REAL_TASKS_QUICK), [Way("in one array", one_array)]
    return [*rows, *hyperqueue.rows(context, SECTION, ways, real)]


@dataclass(frozen=True)
class Usage:
    """CPU seconds of both sides in this time."""

    wall_s: float
    controller_s: float
    herd_s: float
    controller_mib: float = 0.0

    @property
    def share(self) -> float:
        return self.controller_s / self.wall_s


class Meter:
    """From its making to ``read``."""

    def __init__(self, rota: Rota, herd: Herd) -> None:
        self._pids = (rota.controller_pid(), herd.pid)
        self._began = [machine.run_ns([pid]) for pid in self._pids]
        self._began_s = time.perf_counter()

    def read(self) -> Usage:
        wall_s = time.perf_counter() - self._began_s
        pairs = zip(self._pids, self._began, strict=True)
        controller_s, herd_s = ((machine.run_ns([pid]) - began) / 1e9 for pid, began in pairs)
        memory_mib = machine.memory_mib(self._pids[0])["VmHWM"]
        return Usage(wall_s, controller_s, herd_s, memory_mib)


def watch(rota: Rota, herd: Herd, window_s: float) -> Usage:
    time.sleep(2)  # What the agents did last is over by then, and tidied up.
    meter = Meter(rota, herd)
    time.sleep(window_s)
    return meter.read()


@contextmanager
def long_jobs(rota: Rota, agents: int) -> Iterator[None]:
    """Every node runs one job that takes all of it, from before to after the block."""
    job = rota.job(["sleep", "3600"], resources={"cpus": CPUS}, array=f"0-{agents - 1}")
    array = int(rota.wire.post("/jobs", job)["id"])
    rota.reach(lambda: running(rota) == agents, f"{agents} jobs that run")
    yield
    if running(rota) != agents:
        raise Broken(f"{running(rota)} of {agents} long jobs still run: nodes were given up")
    rota.wire.post("/jobs:cancel", {"ids": [array]})
    rota.await_end([array], 60)


def come_back(rota: Rota, agents: int) -> float:
    """``kill -9`` of the controller; seconds until all agents are connected to its successor."""
    began = time.perf_counter()
    rota.kill_controller()
    rota.reach(lambda: nodes_up(rota) == agents, f"{agents} agents that came back")
    return time.perf_counter() - began


def nodes_up(rota: Rota) -> int:
    nodes = rota.wire.get("/nodes")
    return sum(node["state"] == "up" for node in nodes["items"])


def running(rota: Rota) -> int:
    return int(rota.wire.get("/status")["jobs"].get("running", 0))


def run_array(rota: Rota, herd: Herd, tasks: int) -> Usage:
    """From before the submit until this client knows that the last end is on record."""
    job = rota.job(["true"], array=f"0-{tasks - 1}")
    meter = Meter(rota, herd)
    array = int(rota.wire.post("/jobs", job)["id"])
    rota.await_end([array], RUN_S_MAX)
    usage = meter.read()
    record = rota.records([array])[0]
    if record["state"] != "completed":
        raise Broken(f"the array ended as {record['state']}")
    return usage


def steady_rows(agents: int, window_s: float, idle: Usage, busy: Usage) -> list[Row]:
    return [
        against(
            SECTION, f"{agents} connected agents, {what}: CPU of the controller", "of a core",
            usage.share, "bar of the issue", SHARE_MAX, value_at_most(SHARE_MAX),
            note=f"over {window_s:g} s; the simulated agents together took "
            f"{usage.herd_s / usage.wall_s:.4f} of a core",
        )
        for what, usage in (("idle", idle), ("a long job on each", busy))
    ]  # fmt: skip


def burst_rows(agents: int, tasks: int, burst: Usage, started: int) -> list[Row]:
    what = f"{tasks:,} short tasks, {agents} agents of {CPUS} CPUs: "
    return [
        Row(SECTION, what + "from submit to the last end", tasks / burst.wall_s, "/s",
            note=f"took {burst.wall_s:.1f} s"),
        against(
            SECTION, what + "started once, and ended well", "tasks", started, "tasks", tasks,
            value_at_least(tasks),
        ),
        Row(SECTION, what + "CPU of the controller", burst.controller_s / tasks * 1000, "ms/task",
            note=f"{burst.share:.2f} of a core; the simulated agents took "
            f"{burst.herd_s / tasks * 1000:.3f} ms/task beside it"),
        Row(SECTION, what + "memory of the controller at its highest", burst.controller_mib, "MiB"),
    ]  # fmt: skip


def peer_rows(context: Context, agents: int, tasks: int, burst: Usage) -> list[Row]:
    """None of them has as many nodes here: two workers, or one that starts real programs."""
    what = f"{tasks:,} short tasks, {agents} agents: "
    cpu_ms = (burst.controller_s + burst.herd_s) / tasks * 1000
    rows = []
    for name, found in peer_figures(context).items():
        rows += [
            against(SECTION, what + "from submit to the last end", "/s", tasks / burst.wall_s,
                    f"{name} /s", found["tasks_per_s"]),
            against(SECTION, what + "CPU of controller and agents", "ms/task", cpu_ms,
                    f"{name}, CPU of all, ms/task", found["cpu_ms_per_task"]),
        ]  # fmt: skip
    return rows


def peer_figures(context: Context) -> dict[str, dict[str, Any]]:
    """What each peer said of its lightest tasks; nothing of one that is missing."""
    dask, ray, queue = (context.peers.ask(f"{peer}_all") for peer in ("dask", "ray", "hyperqueue"))
    ways = [dask["noop"], dask["noop_batched_64"]] if dask else [NOTHING]
    return {
        "Dask, two workers, no-op functions": max(ways, key=lambda way: way["tasks_per_s"] or 0),
        "Ray, two nodes, no-op functions": ray["noop"] if ray else NOTHING,
        "HyperQueue, one worker, `true`": queue["true"] if queue else NOTHING,
    }


def one_array(rota: Rota, count: int) -> list[int]:
    return [int(rota.wire.post("/jobs", rota.job(["true"], array=f"0-{count - 1}"))["id"])]
