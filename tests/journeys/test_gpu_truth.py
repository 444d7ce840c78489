"""What GPUs really do, with made-up devices and real jobs: seen, told, and counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUIET = {"use_percent": 0, "memory_used_mib": 4, "power_w": 60.0, "temperature_c": 31}


class Cards:
    """The file of made-up GPUs: what a test writes there is measured next."""

    def __init__(self, file: Path, count: int) -> None:
        self._file = file
        self._gpus: list[dict[str, Any]] = [
            {"model": "A100", "memory_mib": 40960, **QUIET} for _ in range(count)
        ]
        self.set(0)

    def set(self, index: int, **figures: Any) -> None:
        self._gpus[index] |= figures
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(self._gpus))
        draft.replace(self._file)


def box_with(new_box: Callable[..., Box], count: int, **settings: str) -> tuple[Box, Cards]:
    box = new_box()
    file = box.work.parent / "gpus.json"
    cards = Cards(file, count)
    box.env |= {"ROTA_FAKE_GPUS": str(file), "ROTA_GPUS_MEASURE_S": "0.1", **settings}
    box.up()
    return box, cards


def gpus(box: Box) -> list[dict[str, Any]]:
    return list(box.api("GET", "/gpus")[1]["items"])


@pytest.fixture
def measured(new_box: Callable[..., Box]) -> tuple[Box, Cards]:
    return box_with(new_box, 2)


def test_use_memory_power_and_temperature_are_shown_as_they_are(measured: tuple[Box, Cards]):
    box, cards = measured

    cards.set(1, use_percent=87, memory_used_mib=12_288, power_w=310.5, temperature_c=66)
    shown = until(lambda: next((g for g in gpus(box) if g["use_percent"] == 87), None), "a look")
    table = box.rota("gpus").stdout
    node = box.api("GET", "/nodes/box")[1]["devices"][1]

    assert shown["memory_used_mib"] == 12288
    assert (shown["power_w"], shown["temperature_c"]) == (310.5, 66)
    assert node["use_percent"] == 87
    assert node["measured_at"] is not None
    assert table.splitlines()[0].split() == [
        *("NODE", "GPU", "MODEL", "MEM", "STATE"),
        *("USE", "USED", "POWER", "TEMP", "JOBS", "OTHERS"),
    ]
    assert table.splitlines()[2].split()[5:9] == ["87%", "12G", "310W", "66C"]


def test_the_end_of_a_try_says_what_it_made_of_its_gpus(measured: tuple[Box, Cards]):
    box, cards = measured
    cards.set(0, use_percent=50, processes=[{"memory_mib": 9000}])
    job = box.job("until [ -e go ]; do sleep 0.05; done", resources={"gpus": 1})
    box.reach(job, "running")

    until(lambda: curves(box, job).get("gpu_memory_mib"), "the first points of its curve")
    (box.work / "go").touch()
    gpu = box.ended(job)["attempts"][0]["gpu"]
    figures = box.api("GET", f"/jobs/{job}/metrics")[1]

    assert gpu["peak_memory_mib"] == gpu["mean_memory_mib"] == 9000
    assert gpu["mean_use_percent"] == 50
    assert gpu["energy_wh"] > 0
    assert figures["gpu_efficiency"] == 0.5
    assert figures["gpu_idle_s"] == 0


def curves(box: Box, job: int) -> dict[str, Any]:
    found = box.api("GET", f"/jobs/{job}/curves")[1]["attempts"]
    return dict(found[0]) if found else {}


def test_curves_have_cpu_and_memory_of_a_job_beside_what_it_asked_for(
    measured: tuple[Box, Cards],
):
    box, _ = measured
    job = box.job("while :; do :; done", resources={"cpus": 1, "memory_mb": 500})
    box.reach(job, "running")

    curve = until(
        lambda: (one := curves(box, job)) and (one["cpus"] or 0) > 0.05 and one, "its CPU time"
    )
    box.rota("cancel", str(job))

    assert (curve["asked_cpus"], curve["asked_memory_mib"]) == (1, 500)
    assert curve["memory_used_mib"] is not None
    assert len(curve["at"]) == len(curve["cpus_used"]) == len(curve["memory_mib"])


def test_a_job_that_holds_more_than_it_declared_is_told_and_leaves_no_room_for_others(
    measured: tuple[Box, Cards],
):
    box, cards = measured
    box.rota("node", "devices", "box", "0")
    greedy = box.job(["sleep", "60"], resources={"gpu_memory_mb": 10240, "gpus": 1, "shared": True})
    box.reach(greedy, "running")

    cards.set(0, processes=[{"memory_mib": 31 * 1024}], memory_used_mib=31 * 1024)
    seen = until(lambda: gpus(box)[0]["overuse"], "the overuse to be seen")
    second = box.job(["true"], resources={"gpu_memory_mb": 20480, "gpus": 1, "shared": True})
    small = box.ran(["true"], resources={"gpu_memory_mb": 8192, "gpus": 1, "shared": True})
    waits = box.api("GET", f"/jobs/{second}")[1]["state"]
    table = box.rota("gpus").stdout
    told = box.api("GET", f"/jobs/{greedy}/events")[1]["items"]
    box.rota("cancel", str(greedy))

    assert seen[0] == {
        "job": greedy,
        "task": 0,
        "memory_used_mib": 31 * 1024,
        "declared_mib": 10240,
    }
    assert f"{greedy} holds 31G, asked for 10G" in table
    assert "gpu-overused" in [event["kind"] for event in told]
    assert (waits, small["state"]) == ("queued", "completed")
    assert box.ended(second)["state"] == "completed", "the room is there again once it has gone"


def test_a_site_may_end_what_holds_more_than_it_declared(new_box: Callable[..., Box]):
    box, cards = box_with(new_box, 1, ROTA_GPUS_OVERUSE="end")
    job = box.job(["sleep", "60"], resources={"gpu_memory_mb": 10240, "gpus": 1, "shared": True})
    box.reach(job, "running")

    cards.set(0, processes=[{"memory_mib": 31 * 1024}])
    ended = box.ended(job)

    assert ended["state"] == "failed"
    assert ended["cause"] == "out_of_memory: holds 31G on GPU 0, asked for 10G"


def test_a_gpu_that_does_nothing_in_a_job_is_told_once_and_listed(new_box: Callable[..., Box]):
    box, cards = box_with(new_box, 2, ROTA_GPUS_IDLE_AFTER="1s")
    cards.set(1, use_percent=90)
    job = box.job(["sleep", "60"], resources={"gpus": 2})
    box.reach(job, "running")

    def told() -> list[dict[str, Any]]:
        events = box.api("GET", f"/jobs/{job}/events")[1]["items"]
        return [event for event in events if event["kind"] == "gpu-idle"]

    until(told, "the owner to be told")
    listed = box.rota("gpus", "--idle").stdout.splitlines()
    cards.set(0, use_percent=70)
    until(lambda: not gpus(box)[0]["idle_since"], "the GPU to be at work again")
    after = box.rota("gpus", "--idle").stdout.splitlines()
    warned = box.reach(job, "running")["attempts"][0]["warned"]
    box.rota("cancel", str(job))

    assert [line.split()[1] for line in listed[1:]] == ["0"]
    assert "idle since" in listed[1]
    assert after[1:] == []
    assert warned == ["idle"]
    assert len(told()) == 1


def test_a_device_that_keeps_failing_is_taken_out_alone_until_it_is_resumed(
    measured: tuple[Box, Cards],
):
    box, cards = measured

    cards.set(1, xids=[79])
    until(lambda: len(gpus(box)[1]["failures"]) == 1, "the first failure")
    before = gpus(box)[1]["state"]
    cards.set(1, xids=[79, 48], ecc_errors=2)
    until(lambda: gpus(box)[1]["state"] == "closed", "the quarantine")
    note = box.api("GET", "/nodes/box")[1]["note"]
    job = box.ran(["true"], resources={"gpus": 1})
    box.rota("node", "resume", "box")

    assert before == "free"
    assert note.startswith("quarantined: GPU 1 reported 3 failures within a day, the last one: ")
    assert job["state"] == "completed"
    assert [gpu["state"] for gpu in gpus(box)] == ["free", "free"]


def test_a_driver_that_hangs_stops_no_job_and_no_figure_is_told_as_new(
    new_box: Callable[..., Box],
):
    box, cards = box_with(new_box, 1)
    until(lambda: gpus(box)[0]["measured_at"], "a first look")

    cards.set(0, hangs=True)
    until(lambda: gpus(box)[0]["measured_at"] is None, "the figures to be dropped")
    ran = box.ran(["true"], resources={"gpus": 1})
    state = box.api("GET", "/nodes/box")[1]["state"]
    cards.set(0, hangs=False)

    assert ran["state"] == "completed"
    assert state == "up"
    assert until(lambda: gpus(box)[0]["measured_at"], "figures again")


def test_a_setting_that_is_none_is_refused_by_name(new_box: Callable[..., Box]):
    box = new_box()

    said = box.refusal("up", "--detach", env={"ROTA_GPUS_OVERUSE": "kill"})

    assert said == "rota: ROTA_GPUS_OVERUSE: 'kill' is not known; known: warn, end"
