"""What is measured of devices: by NVIDIA's library, by /sys, and by a file of made-up ones.

A stand-in for the library answers as the real one does, because the machines that run these tests
have no cards.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rota.agent.machine.readings import DeviceHolder, Fake, Nvidia, open_sources
from rota.core.facts.node import Device
from rota.rpc.measures import Reading

MIB = 1 << 20


class NVMLError(Exception):
    """As the library raises it for what a card does not know."""

    value = 3


class Lost(NVMLError):
    """The card has fallen off the bus."""

    value = 15


class Card:
    """One card as the library sees it."""

    def __init__(self, uuid: str, **facts: Any) -> None:
        self.uuid = uuid
        self.use = facts.get("use", 40)
        self.used_mib = facts.get("used_mib", 1000)
        self.processes: dict[int, int | None] = facts.get("processes", {})
        self.busy: dict[int, list[int]] = facts.get("busy", {})
        self.lost = facts.get("lost", False)


def known(card: Card, fact: Any) -> Any:
    if card.lost:
        raise Lost
    if fact is None:
        raise NVMLError
    return fact


def library(cards: list[Card], events: list[tuple[Any, ...]]) -> ModuleType:
    def wait(_set: object, _ms: int) -> SimpleNamespace:
        if not events:
            raise NVMLError
        card, number, *instance = events.pop(0)
        more = {"gpuInstanceId": instance[0]} if instance else {}
        return SimpleNamespace(device=card, eventData=number, **more)

    def memory(card: Card, version: int = 0) -> SimpleNamespace:
        reserved = 0 if version else 600
        return known(card, SimpleNamespace(used=(card.used_mib + reserved) * MIB))

    def processes(card: Card) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)
            for pid, mib in card.processes.items()
        ]

    def utilization(card: Card, _since: int) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(pid=pid, smUtil=percent)
            for pid, samples in card.busy.items()
            for percent in samples
        ]

    module = ModuleType("pynvml")
    facts: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlMemory_v2": 2,
        "nvmlEventTypeXidCriticalError": 8,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: {card.uuid: card for card in cards}[uuid],
        "nvmlDeviceGetUUID": lambda card: card.uuid,
        "nvmlDeviceGetUtilizationRates": lambda card: SimpleNamespace(gpu=known(card, card.use)),
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetPowerUsage": lambda card: known(card, 250_500),
        "nvmlDeviceGetTemperature": lambda card, _: known(card, 61),
        "nvmlDeviceGetTotalEccErrors": lambda card, *_: known(card, None),
        "nvmlDeviceGetComputeRunningProcesses": processes,
        "nvmlDeviceGetGraphicsRunningProcesses": lambda card: [],
        "nvmlDeviceGetProcessUtilization": utilization,
        "nvmlEventSetCreate": object,
        "nvmlDeviceRegisterEvents": lambda *_: None,
        "nvmlEventSetWait_v2": wait,
    }
    for name, value in facts.items():
        setattr(module, name, value)
    return module


def nvidia(*cards: Card, events: list[tuple[Any, ...]] | None = None) -> Nvidia:
    devices = [Device(index, card.uuid) for index, card in enumerate(cards)]
    return Nvidia(library(list(cards), [] if events is None else events), devices)


def test_a_card_tells_use_power_and_temperature_and_memory_without_the_drivers_own():
    source = nvidia(Card("GPU-0", use=97, used_mib=31_000))

    readings, held = source.look()

    assert readings == [Reading(0, 97.0, 31_000, 250.5, 61)]
    assert held == []


def test_what_a_card_does_not_know_is_not_made_up():
    source = nvidia(Card("GPU-0", use=None))

    (reading,), _ = source.look()

    assert reading.use_percent is None
    assert reading.memory_used_mib == 1000


def test_processes_are_told_with_their_memory_and_what_each_does_of_several():
    card = Card("GPU-0", processes={7: 500, 8: None}, busy={7: [10, 30]})

    _, held = nvidia(card).look()

    assert held == [DeviceHolder(0, 7, 500, 20.0), DeviceHolder(0, 8, None)]


def test_xids_are_told_once_by_card_and_without_those_that_programs_bring_about():
    first, second = Card("GPU-0"), Card("GPU-1")
    events = [(second, 79), (first, 31), (second, 48), (first, 13)]
    source = nvidia(first, second, events=events)

    before = [reading.xids for reading in source.look()[0]]
    after = [reading.xids for reading in source.look()[0]]

    assert before == [(), (79, 48)]
    assert after == [(), ()]


def test_a_failure_of_a_card_is_one_of_all_its_instances_and_one_of_an_instance_is_its_own():
    card, parts = Card("GPU-0"), [Card("MIG-a"), Card("MIG-b")]
    whole = 0xFFFFFFFF
    module = library([card, *parts], [(card, 48, whole), (card, 94, 2), (card, 31, 1)])
    module.nvmlDeviceGetDeviceHandleFromMigDeviceHandle = lambda _: card
    module.nvmlDeviceGetGpuInstanceId = lambda part: 1 + parts.index(part)
    source = Nvidia(module, [Device(at, part.uuid) for at, part in enumerate(parts)])

    readings, _ = source.look()

    assert [reading.xids for reading in readings] == [(48,), (48, 94)]


def test_a_card_that_fell_off_the_bus_is_a_failure_in_every_look():
    source = nvidia(Card("GPU-0", lost=True))

    seen = [source.look()[0][0].xids for _ in range(2)]

    assert seen == [(79,), (79,)]


def test_the_library_is_opened_for_nvidia_devices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library([Card("GPU-0")], []))

    (source,) = open_sources((Device(0, "GPU-0"),), "", tmp_path)

    assert source.look()[0][0].use_percent == 40


def test_an_amd_card_is_read_from_sys(tmp_path: Path):
    folder = tmp_path / "sys/class/drm/card1/device"
    files = {
        "vendor": "0x1002",
        "unique_id": "a1b2",
        "mem_info_vram_total": str(64 << 30),
        "mem_info_vram_used": str(3000 * MIB),
        "gpu_busy_percent": "83",
        "hwmon/hwmon4/power1_average": "310000000",
        "hwmon/hwmon4/temp1_input": "54000",
        "ras/umc_err_count": "ue: 2\nce: 5\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")

    (source,) = open_sources((Device(0, "a1b2"),), "", tmp_path)

    assert source.look() == ([Reading(0, 83.0, 3000, 310.0, 54.0, ecc_errors=2)], [])


def test_a_newer_amd_card_tells_its_power_and_heat_in_other_files(tmp_path: Path):
    folder = tmp_path / "sys/class/drm/card1/device"
    files = {
        "vendor": "0x1002",
        "unique_id": "a1b2",
        "mem_info_vram_total": str(64 << 30),
        "hwmon/hwmon4/power1_input": "295000000",
        "hwmon/hwmon4/temp2_input": "61000",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")

    (source,) = open_sources((Device(0, "a1b2"),), "", tmp_path)

    assert source.look()[0] == [Reading(0, None, None, 295.0, 61.0)]


def test_a_made_up_gpu_says_what_its_file_says_now(tmp_path: Path):
    file = tmp_path / "gpus.json"
    gpu = {"model": "A100", "use_percent": 12, "memory_used_mib": 300, "xids": [79]}
    file.write_text(json.dumps([gpu]))
    source = Fake(str(file))

    first, _ = source.look()
    file.write_text(json.dumps([gpu | {"use_percent": 55, "xids": [79, 48]}]))
    second, held = source.look()

    assert (first[0].use_percent, first[0].xids) == (12, (79,))
    assert (second[0].use_percent, second[0].xids) == (55, (48,))
    assert held == []
