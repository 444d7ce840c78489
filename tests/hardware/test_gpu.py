"""A box with a real NVIDIA GPU: found, handed out, shared, and left to others who are on it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pynvml = pytest.importorskip("pynvml", reason="needs a real GPU and nvidia-ml-py")
torch_python = os.environ.get("ROTA_TORCH_PYTHON", sys.executable)

#: Takes a gibibyte of the GPU, says so, and holds it until a file of this name appears.
HOLD = """
import os, sys, time, torch
block = torch.ones(1 << 28, device="cuda")
print("holding", float(block[:10].sum()), torch.cuda.device_count(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


def cards() -> list[str]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pytest.skip(f"needs a real GPU: {error}")
    return [
        str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)))
        for index in range(pynvml.nvmlDeviceGetCount())
    ]


def state_column(box: Box) -> list[str]:
    return [line.split()[4] for line in box.rota("gpus").stdout.splitlines()[1:]]


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[str]]:
    """Somebody who uses the GPU without asking Rota."""
    cards()
    with subprocess.Popen(
        [torch_python, "-c", HOLD, "never"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("holding")
        yield process
        process.kill()


def test_cards_of_this_machine_are_listed_with_model_and_memory(box: Box) -> None:
    listed = box.api("GET", "/nodes")[1]["items"][0]["devices"]

    assert [device["uuid"] for device in listed] == cards()
    assert all(device["model"] and device["memory_mb"] > 1000 for device in listed)
    assert not any(device["fake"] for device in listed)


def test_a_job_computes_on_the_gpu_it_was_given_and_is_not_taken_for_a_stranger(box: Box) -> None:
    cards()
    job = box.job([torch_python, "-c", HOLD, "go"], resources={"gpus": 1})
    until(lambda: "holding 10.0 1" in box.output(job), "the job to be on the GPU")

    seen = state_column(box)
    after = box.job([torch_python, "-c", HOLD, "go"], resources={"gpus": len(cards())})
    (box.work / "go").touch()

    assert seen[0] == "used"
    assert box.ended(job)["state"] == "completed"
    assert box.ended(after)["state"] == "completed"
    assert "holding 10.0" in box.output(after)


def test_two_jobs_share_one_gpu_by_halves_at_the_same_time(box: Box) -> None:
    cards()
    halves = [box.job([torch_python, "-c", HOLD, "go"], resources={"gpus": 0.5}) for _ in "12"]

    until(lambda: all("holding" in box.output(job) for job in halves), "both to be on the GPU")

    running = {box.state_of(job) for job in halves}
    (box.work / "go").touch()

    assert running == {"running"}
    assert [box.ended(job)["state"] for job in halves] == ["completed", "completed"]


def test_a_job_waits_for_a_stranger_on_the_gpu_and_says_so(
    box: Box, stranger: subprocess.Popen[str]
) -> None:
    total = len(cards())
    until(lambda: "foreign" in state_column(box), "the stranger to be seen")
    job = box.job(["true"], resources={"gpus": total})

    why = box.rota("why", str(job)).stdout
    waits = box.state_of(job)
    stranger.kill()

    assert waits == "queued"
    assert "foreign" in why or "outside" in why
    assert box.ended(job)["state"] == "completed"
