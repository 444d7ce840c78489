"""A question that is worked out aside holds nothing of a controller that dies meanwhile."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journeys.box import Box, UnixConnection, until

pytestmark = pytest.mark.slow

#: More kinds of waiting jobs than are looked at in the loop.
KINDS = 300
#: One after the other: there is time to find one of them.
QUESTIONS = 20


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Box]:
    """A Rota on this machine, with a long line."""
    box = Box(tmp_path)
    box.up()
    box.job(["sleep", "600"], resources={"cpus": 3}, time_limit_s=900)
    jobs = [
        {"command": "true", "resources": {"cpus": 2}, "time_limit_s": 60 + n} for n in range(KINDS)
    ]
    assert box.api("POST", "/jobs:batch", {"jobs": jobs})[0] == 201
    yield box
    box.down("--stop-jobs")


def stopped_child(pid: int) -> int:
    """A child of this process that cannot end by itself any more; 0: there is none now."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            with suppress(ProcessLookupError, FileNotFoundError):
                os.kill(child, signal.SIGSTOP)
                # Only once it has left its parent's files, and so is bound to its life.
                if len(os.listdir(f"/proc/{child}/fd")) == 1:
                    return child
                os.kill(child, signal.SIGCONT)
    return 0


def test_the_next_controller_finds_everything_free_and_no_child_is_left(crowded: Box) -> None:
    old = crowded.living("controller")
    plan = json.dumps({"command": "true", "resources": {"cpus": 3}})
    lines = [UnixConnection(crowded.state / "rota.sock") for _ in range(QUESTIONS)]
    for line in lines:
        line.request("POST", "/api/v1/plan", plan)
    child = until(lambda: stopped_child(old), "a question that is worked out aside")

    crowded.kill("controller")

    until(lambda: not Path(f"/proc/{child}").exists(), "the child to be gone")
    assert crowded.living("controller") != old
    assert crowded.api("POST", "/plan", json.loads(plan))[0] == 200
    for line in lines:
        line.close()
