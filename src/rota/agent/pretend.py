"""Nodes for a demonstration: jobs are started, seen, measured and ended, and nothing is executed.

What becomes of a job follows from the seed, its number and its try alone: the same jobs fare the
same way each time. It lasts a part of its time limit; without one, up to two minutes. Nine of ten
succeed. What ``sleep N`` asks for is known, so it lasts that long and succeeds.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from signal import SIGINT, SIGTERM
from typing import TYPE_CHECKING

import msgspec

from rota.agent.machine.figures import FigureLedger
from rota.agent.simulated import SimulatedAgent
from rota.core.facts.node import Device, NodeSpec
from rota.rpc.measures import AttemptReading, Measured, OnDevice, Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.rpc.messages import Launch, Welcome
    from rota.session.instructions import Gone

CPUS, MEMORY_MIB, GPUS, MODEL, GPU_MIB = 64, 512 * 1024, 8, "H100", 81920
SUCCESS = 0.9
#: The part of jobs that leave their GPUs idle.
IDLE = 0.05
#: Of its limit a job uses this part; without a limit it lasts this long.
SHARES, LENGTHS_S = (0.1, 0.9), (10.0, 120.0)
#: What a card takes idle, and at full use.
IDLE_W, BUSY_W = 70.0, 700.0
#: The lines that a job prints, if it is not ended before.
LINES = 20
#: The most ended attempts of which a node knows what became of them, beside all that run.
KEPT = 1000


class Play(msgspec.Struct, frozen=True):
    """What becomes of one attempt."""

    length_s: float
    code: int
    cpus: float
    memory_mib: int
    devices: tuple[int, ...]
    #: Of each of its GPUs: how busy it is, and how much of its memory it fills.
    use_percent: float
    gpu_mib: int

    def drift(self, ran_s: float) -> float:
        """A little more and a little less, so that curves are curves."""
        return 1.0 - 0.1 * ((ran_s / 20.0) % 1.0)


def play_of(seed: int, launch: Launch) -> Play:
    draw = Random(f"{seed}:{launch.job}:{launch.environment.get('ROTA_ATTEMPT', '1')}")
    limit_s = float(launch.environment.get("ROTA_TIME_LIMIT_S") or 0)
    length_s = limit_s * draw.uniform(*SHARES) if limit_s else draw.uniform(*LENGTHS_S)
    code = int(draw.random() >= SUCCESS)
    if code:
        length_s *= draw.random()
    if launch.argv[:1] == ("sleep",) and launch.argv[1:2] and launch.argv[1].isdecimal():
        length_s, code = float(launch.argv[1]), 0
    return Play(
        length_s=max(0.001, length_s),
        code=code,
        cpus=launch.cpu_milli / 1000 * draw.uniform(0.3, 1.0),
        memory_mib=int((launch.memory_mib or 2048) * draw.uniform(0.3, 0.9)),
        devices=launch.devices,
        use_percent=draw.uniform(40.0, 99.0) if draw.random() >= IDLE else 0.0,
        gpu_mib=int(GPU_MIB * draw.uniform(0.1, 0.9)),
    )


class PretendedNode(SimulatedAgent):
    """One node whose jobs are played."""

    def __init__(self, spec: NodeSpec, url: str, seed: int) -> None:
        super().__init__(spec, url, "", Counter())
        self._seed = seed
        self._plays: dict[str, Play] = {}
        #: Nothing of it is kept: with the process its jobs are gone as well.
        self._ledger = FigureLedger(Path(os.devnull))
        self._measuring: asyncio.TimerHandle | None = None

    def fate(self, launch: Launch) -> tuple[float, int]:
        if len(self._plays) > KEPT:
            self._plays = {uid: play for uid, play in self._plays.items() if uid in self._alive}
        play = self._plays[launch.uid] = play_of(self._seed, launch)
        return play.length_s, play.code

    def ended(self, end: Gone) -> Gone:
        play, ran_s = self._plays[end.uid], end.ended_s - end.started_s
        return msgspec.structs.replace(
            end,
            cpu_s=play.cpus * ran_s,
            maxrss_kb=play.memory_mib * 1024,
            gpu=self._ledger.figures(end.uid),
        )

    def printed(self, uid: str, stream: str, ran_s: float) -> bytes:
        play = self._plays.get(uid)
        if play is None:
            return b""
        done = min(1.0, ran_s / play.length_s)
        if stream == "stderr":
            return b"RuntimeError: a pretended failure\n" if play.code and done == 1.0 else b""
        steps = range(1, int(LINES * done) + 1)
        return b"".join(b"step %d of %d, loss %.3f\n" % (n, LINES, 2 / n**0.5) for n in steps)

    def welcomed(self, message: Welcome) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
        if message.measure_s:
            self._measure(message.measure_s)

    def _measure(self, every_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._measuring = loop.call_later(every_s, self._measure, every_s)
        if self.ready.is_set():
            readings, attempts = self._look()
            self._ledger.add(readings, attempts, every_s)
            self._send(Measured(self._agent.session, readings, attempts))

    def _look(self) -> tuple[tuple[Reading, ...], tuple[AttemptReading, ...]]:
        """What a real agent would see on its machine now."""
        now_s, held = time.time(), dict.fromkeys(range(len(self._spec.devices)), (0.0, 0))
        attempts = []
        for uid, (began_s, _) in self._alive.items():
            play = self._plays[uid]
            drift = play.drift(now_s - began_s)
            use, gpu_mib = play.use_percent * drift, play.gpu_mib
            for index in play.devices:
                busy, filled = held[index]
                held[index] = (min(100.0, busy + use), min(GPU_MIB, filled + gpu_mib))
            gpus = tuple(OnDevice(index, gpu_mib, use) for index in play.devices)
            spent_s = play.cpus * (now_s - began_s)
            attempts.append(AttemptReading(uid, int(play.memory_mib * drift), spent_s, gpus))
        readings = tuple(
            Reading(index, use, mib, IDLE_W + (BUSY_W - IDLE_W) * use / 100, 35 + use / 2)
            for index, (use, mib) in held.items()
        )
        return readings, tuple(attempts)


def spec_of(name: str) -> NodeSpec:
    devices = tuple(
        Device(index=index, uuid=f"{name}-{index}", model=MODEL, memory_mib=GPU_MIB, fake=True)
        for index in range(GPUS)
    )
    return NodeSpec(name, CPUS * 1000, MEMORY_MIB, devices=devices)


def run(url: str, count: int, seed: int, ready: Callable[[], object]) -> None:
    """Run this number of nodes until TERM. ``ready`` is called when all are connected."""

    async def serve() -> None:
        door, stop = asyncio.Semaphore(count), asyncio.Event()
        for number in (SIGINT, SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        nodes = [PretendedNode(spec_of(f"demo{n}"), url, seed) for n in range(1, count + 1)]
        tasks = [asyncio.create_task(node.hold(door)) for node in nodes]
        for node in nodes:
            await node.ready.wait()
        ready()
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(serve())
