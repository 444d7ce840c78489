"""Measuring beside the work: in a thread that may hang, and for next to nothing."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from rota.agent.machine.figures import FigureLedger
from rota.agent.machine.gauges import Gauges
from rota.agent.machine.gpus import discover_devices
from rota.rpc.measures import AttemptReading, Measured, OnDevice, Reading
from rota.rpc.messages import DeviceUse
from rota.session.agent import Agent
from rota.session.charge import Alive
from tests.agent.test_readings import Card, nvidia

#: Part of one core that the measuring of a node with eight GPUs may cost.
COST_MAX = 0.005


class Busy(Agent):
    """An agent that has these attempts, in a session."""

    def __init__(self, *alive: Alive) -> None:
        super().__init__()
        self._alive = list(alive)

    def alive(self) -> list[Alive]:
        return self._alive

    @property
    def session(self) -> int:
        return 5

    @property
    def quiet(self) -> bool:
        return not self._alive


def written(folder: Path, *gpus: dict[str, Any]) -> str:
    file = folder / "gpus.json"
    file.write_text(json.dumps([{"model": "A100", "memory_mib": 40960, **gpu} for gpu in gpus]))
    return str(file)


def told_in(gauges: Gauges, count: int) -> list[Any]:
    """The first so many messages."""

    async def hear() -> list[Any]:
        gauges.every_s = 0.01
        told: list[Any] = []
        enough = asyncio.Event()

        def tell(message: Any) -> None:
            told.append(message)
            if len(told) >= count:
                enough.set()

        run = asyncio.create_task(gauges.run(tell))
        async with asyncio.timeout(30):
            await enough.wait()
        run.cancel()
        return told

    return asyncio.run(hear())


def gauges_of(folder: Path, file: str, *alive: Alive) -> Gauges:
    devices = discover_devices(file, ())
    return Gauges(devices, Busy(*alive), None, folder=folder, gpus_file=file)


def test_each_attempt_is_told_with_what_it_has_on_its_gpus(tmp_path: Path):
    file = written(
        tmp_path,
        {"use_percent": 60, "memory_used_mib": 31_500, "processes": [{"memory_mib": 31_000}]},
        {"use_percent": 0, "memory_used_mib": 4},
    )
    gauges = gauges_of(tmp_path, file, Alive("a", 1 << 30, 0, (0,)), Alive("b", 1 << 30, 0, (1,)))

    (message,) = told_in(gauges, 1)

    assert isinstance(message, Measured)
    assert [reading.use_percent for reading in message.devices] == [60, 0]
    assert {one.uid: one.gpus for one in message.attempts} == {
        "a": (OnDevice(0, 31_000, 60.0),),
        "b": (OnDevice(1, 4, 0.0),),
    }


def test_processes_of_others_are_told_when_they_come(tmp_path: Path):
    file = written(tmp_path, {"foreign": [{"pid": 4242, "user": "bob", "memory_mib": 900}]})
    gauges = gauges_of(tmp_path, file)

    told = told_in(gauges, 3)

    assert [type(message) for message in told] == [DeviceUse, Measured, Measured]
    assert [use.pid for use in told[0].foreign] == [4242]


def test_a_driver_that_hangs_stops_neither_the_loop_nor_the_hello(tmp_path: Path):
    file = written(tmp_path, {"use_percent": 5})
    gauges = gauges_of(tmp_path, file)
    written(tmp_path, {"hangs": True})

    async def wait() -> int:
        turns = 0
        hello = asyncio.create_task(gauges.before_hello())
        while not hello.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns

    turns = asyncio.run(wait())
    written(tmp_path, {"use_percent": 7})
    (after,) = told_in(gauges_of(tmp_path, file), 1)

    assert turns > 20, "the loop went on while the driver hung"
    assert after.devices[0].use_percent == 7


def test_failures_wait_until_a_controller_hears_of_them(tmp_path: Path):
    file = written(tmp_path, {"xids": [79]})
    gauges = gauges_of(tmp_path, file)

    asyncio.run(gauges.before_hello())
    first, second = told_in(gauges, 2)

    assert (first.devices[0].xids, second.devices[0].xids) == ((79,), ())


def test_sums_over_time_become_peaks_means_energy_and_idle_time(tmp_path: Path):
    ledger = FigureLedger(tmp_path / "sums.json")
    for percent, mib in ((0.0, 1000), (80.0, 3000), (40.0, 2000)):
        gpus = (OnDevice(0, mib, percent), OnDevice(1, 0, 0.0))
        ledger.add([Reading(0, power_w=200.0), Reading(1)], [AttemptReading("a", gpus=gpus)], 5.0)
    ledger.save()

    figures = FigureLedger(tmp_path / "sums.json").figures("a")

    assert figures is not None
    assert (figures.peak_memory_mib, figures.mean_memory_mib) == (3000, 2000)
    assert (figures.peak_use_percent, figures.mean_use_percent) == (80.0, 20.0)
    assert (figures.energy_j, figures.measured_s, figures.idle_s) == (3000.0, 30.0, 20.0)


def test_two_that_share_a_gpu_share_its_energy(tmp_path: Path):
    ledger = FigureLedger(tmp_path / "sums.json")
    readings = [AttemptReading(uid, gpus=(OnDevice(0, 500, None),)) for uid in ("a", "b")]

    ledger.add([Reading(0, power_w=100.0)], readings, 10.0)

    found = [ledger.figures(uid) for uid in ("a", "b", "c")]
    assert [one.energy_j for one in found if one is not None] == [500.0, 500.0]
    assert found[2] is None


def test_measuring_eight_gpus_costs_next_to_nothing_of_a_core(tmp_path: Path):
    """With a library that answers at once: what is left is ours, every five seconds."""
    cards = [Card(f"GPU-{n}", processes={1: 900, 2: 800}) for n in range(8)]
    file = written(tmp_path, *({} for _ in cards))
    gauges = gauges_of(tmp_path, file, *(Alive(f"a{n}", 1, 0, (n,)) for n in range(8)))
    gauges._sources = [nvidia(*cards)]

    before_s = time.process_time()
    for number in range(60):
        gauges._take_look(gauges._agent.alive(), deep=number % 3 == 0)
    per_look_s = (time.process_time() - before_s) / 60

    assert per_look_s / 5.0 < COST_MAX, f"{per_look_s * 1e3:.2f} ms a look"
