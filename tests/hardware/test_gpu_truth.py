"""What Rota measures of a real NVIDIA GPU, held against nvidia-smi, and what follows from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hardware.cards import gpu, holding, smi
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.journeys.box import Box


def test_measured_memory_is_within_five_per_cent_of_what_nvidia_smi_says(measured: Box):
    job = holding(measured, "8")
    began = gpu(measured)["measured_at"]

    shown = until(
        lambda: (one := gpu(measured)) and one["measured_at"] != began and one, "a later look"
    )
    expected = smi("memory.used")
    (measured.work / "go").touch()
    figures = measured.ended(job)["attempts"][0]["gpu"]

    assert shown["memory_used_mib"] == pytest.approx(expected, rel=0.05)
    assert figures["peak_memory_mib"] == pytest.approx(expected, rel=0.05)


def test_measured_use_is_within_ten_points_of_what_nvidia_smi_says(measured: Box):
    job = holding(measured, "1", "computing")
    until(lambda: (gpu(measured)["use_percent"] or 0) > 50, "the GPU to be busy")

    pairs = []
    for _ in range(5):
        last = gpu(measured)["measured_at"]
        shown = until(
            lambda last=last: (one := gpu(measured)) and one["measured_at"] != last and one,
            "a look",
        )
        pairs.append((shown["use_percent"], smi("utilization.gpu"), shown["power_w"]))
    (measured.work / "go").touch()
    figures = measured.ended(job)["attempts"][0]["gpu"]

    assert all(abs(ours - theirs) <= 10 for ours, theirs, _ in pairs), pairs
    assert all(power > 50 for _, _, power in pairs), pairs
    assert figures["peak_use_percent"] > 50
    assert figures["energy_wh"] > 0


def test_a_job_that_holds_more_than_its_share_is_seen_and_counted(measured: Box):
    job = holding(measured, "6", gpu_memory_mb=2048, shared=True)

    seen = until(lambda: gpu(measured)["overuse"], "the overuse to be seen")
    total = gpu(measured)["memory_mb"]
    wanted = {"gpus": 1, "gpu_memory_mb": total - 2048 - 1024, "shared": True}
    second = measured.job(["true"], resources=wanted)
    waits = measured.api("GET", f"/jobs/{second}")[1]["state"]
    (measured.work / "go").touch()

    assert seen[0]["job"] == job
    assert seen[0]["memory_used_mib"] > 6000
    assert waits == "queued"
    assert measured.ended(second)["state"] == "completed"


def test_a_gpu_that_a_job_has_and_does_not_use_is_told(measured: Box):
    job = holding(measured, "1")

    idle = until(lambda: gpu(measured)["idle_since"], "the GPU to be found idle")
    until(
        lambda: measured.api("GET", f"/jobs/{job}")[1]["attempts"][0]["warned"], "its owner's word"
    )
    listed = measured.rota("gpus", "--idle").stdout
    (measured.work / "go").touch()
    figures = measured.ended(job)["attempts"][0]["gpu"]

    assert idle
    assert "idle since" in listed
    assert figures["idle_s"] > 3


def test_measuring_costs_less_than_half_a_per_cent_of_a_core(measured: Box):
    """With the real library; the loop of the agent is in it, so that this is all of the cost."""
    job = holding(measured, "1")
    pid = measured.pid("agent")

    def cpu_s() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, first = cpu_s(), gpu(measured)["measured_at"]
    seen = {first}
    until(lambda: seen.add(gpu(measured)["measured_at"]) or len(seen) > 20, "twenty looks")
    cost = (cpu_s() - before) / (len(seen) - 1)
    (measured.work / "go").touch()
    measured.ended(job)

    assert cost / 5.0 < 0.005, f"{cost * 1e3:.1f} ms a look, one in 5 s"
