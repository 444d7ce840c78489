"""A box with a real NVIDIA GPU, jobs that use it, and what nvidia-smi says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable

TORCH_PYTHON = os.environ.get("ROTA_TORCH_PYTHON", sys.executable)

#: Takes so many gibibytes of the GPU and holds them; with a second word it also computes.
HOLD = """
import os, sys, time, torch
block = torch.ones(int(float(sys.argv[1]) * (1 << 28)), device="cuda")
a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
torch.cuda.synchronize()
print("holding", flush=True)
while not os.path.exists("go"):
    if len(sys.argv) > 2:
        for _ in range(50):
            a @ a
        torch.cuda.synchronize()
    else:
        time.sleep(0.05)
"""


def smi(field: str) -> float:
    """What nvidia-smi says of the first card."""
    asked = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "--id=0"]
    return float(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


def gpu(box: Box) -> dict[str, Any]:
    return dict(box.api("GET", "/gpus")[1]["items"][0])


@pytest.fixture
def measured(new_box: Callable[..., Box]) -> Box:
    pynvml = pytest.importorskip("pynvml", reason="needs a real GPU and nvidia-ml-py")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pytest.skip(f"needs a real GPU: {error}")
    box = new_box()
    box.env |= {"ROTA_GPUS_MEASURE_S": "1", "ROTA_GPUS_IDLE_AFTER": "5s"}
    box.up()
    return box


def holding(box: Box, *words: str, **resources: Any) -> int:
    job = box.job([TORCH_PYTHON, "-c", HOLD, *words], resources={"gpus": 1, **resources})
    until(lambda: "holding" in box.output(job), "the job to be on the GPU", 180)
    return job
