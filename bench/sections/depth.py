"""Does a deep queue make the next small thing slower? Two Rotas, asked in turn."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench import machine, scene
from bench.report import Row, against, ratio_at_most
from bench.wire import request

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.context import Context
    from bench.rota import Rota

SECTION = "depth"
RATIO_MAX = 1.5
SHALLOW = 100
DEEP, DEEP_QUICK = 100_000, 10_000
LIST_20 = request("GET", "/jobs?state=queued&limit=20")


def measure(context: Context) -> list[Row]:
    depth = context.pick(DEEP, DEEP_QUICK)
    with context.rota("shallow") as shallow, context.rota("deep") as deep:
        for rota, count in ((shallow, SHALLOW), (deep, depth)):
            scene.block(rota)
            context.say(f"{SECTION}: filling a queue with {count:,} jobs")
            scene.fill(rota, count)
            scene.settle(rota)
        submits = in_turn(shallow, deep, submit_s, context.pick(100, 30))
        lists = in_turn(shallow, deep, list_s, context.pick(100, 30))
        starts = in_turn(shallow, deep, start_s, context.pick(40, 10))
        memory = machine.memory_mib(deep.controller_pid())
    name = f"with {depth:,} queued: "
    return [
        compared(name + "one more submit", submits),
        compared(name + "a listing of 20", lists),
        compared(name + "start of a runnable job", starts),
        Row(SECTION, name + "controller's resident memory", memory["VmRSS"], "MiB"),
    ]


def in_turn(
    shallow: Rota, deep: Rota, ask: Callable[[Rota, int], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of both, one after the other, after two unrecorded tries."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(-2, rounds):
        for rota, samples in zip((shallow, deep), found, strict=True):
            seconds = ask(rota, number)
            if number >= 0:
                samples.append(seconds)
    return found


def submit_s(rota: Rota, number: int) -> float:
    message = request("POST", "/jobs", scene.waiting_job(rota, number))
    return machine.timed(lambda: rota.wire.send(message))


def list_s(rota: Rota, number: int) -> float:
    return machine.timed(lambda: rota.wire.send(LIST_20))


def start_s(rota: Rota, number: int) -> float:
    """One that is gone before the first in line could start: backfill lets it pass."""
    mark = rota.work / f"mark-{number}"
    small = {"resources": {"cpus": scene.SMALL_CPUS}, "time_limit_s": 60}
    return scene.start_latency_s(rota, mark, **small)


def compared(what: str, samples: tuple[list[float], list[float]]) -> Row:
    shallow, deep = samples
    return against(
        SECTION, what, "ms", statistics.median(deep) * 1000, f"with {SHALLOW} queued, ms",
        statistics.median(shallow) * 1000, ratio_at_most(RATIO_MAX),
        samples={"shallow": machine.spread(shallow, 1000), "deep": machine.spread(deep, 1000)},
    )  # fmt: skip
