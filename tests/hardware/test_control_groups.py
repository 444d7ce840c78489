"""Version 2 of control groups in life: limits, the end of a whole tree, standing still."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.hardware.needs import NEEDS_GROUPS, TOP
from tests.journeys.box import Box, until

pytestmark = NEEDS_GROUPS

#: Doubles what it holds until somebody stops it; the child does, so that its parent must go too.
GREEDY = """
import os, time
if os.fork():
    time.sleep(600)
block = b"x"
while True:
    block += block
"""


def group_of(box: Box, job: int) -> Path:
    pid = box.reach(job, "running")["attempts"][0]["pid"]
    _, _, path = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")
    return TOP / path.lstrip("/")


def test_a_job_over_its_memory_dies_as_a_whole_and_is_told_so(box: Box) -> None:
    job = box.job([sys.executable, "-c", GREEDY], resources={"memory_mb": 200})

    ended = box.ended(job)

    assert ended["state"] == "failed"
    assert ended["cause"] == "out_of_memory: used all of 200M"


def test_a_job_with_one_cpu_gets_no_more_than_one_cpu(box: Box) -> None:
    job = box.job(["sleep", "600"], resources={"cpus": 1, "memory_mb": 100})

    group = group_of(box, job)

    assert (group / "memory.max").read_text().strip() == str(100 << 20)
    assert (group / "cgroup.procs").read_text().split()


def test_a_suspended_tree_is_frozen_and_goes_on_when_resumed(box: Box) -> None:
    job = box.job("while :; do echo beat >> beats; sleep 0.02; done")
    group = group_of(box, job)
    until(lambda: box.read("beats"), "the job to run")

    box.rota("suspend", str(job))
    until(lambda: "frozen 1" in (group / "cgroup.events").read_text(), "the group to freeze")
    counted = len(box.read("beats"))
    box.rota("resume", str(job))
    until(lambda: len(box.read("beats")) > counted, "the job to go on")
    box.rota("cancel", str(job))

    assert box.ended(job)["state"] == "cancelled"


def test_what_a_cancelled_job_left_in_the_background_goes_with_its_group(box: Box) -> None:
    job = box.job("setsid -f sleep 600; setsid -f sleep 600; wait; sleep 600", grace_s=1)
    group = group_of(box, job)
    until(lambda: len((group / "cgroup.procs").read_text().split()) >= 3, "its children to start")

    box.rota("cancel", str(job))
    box.ended(job)

    until(lambda: not group.exists(), "the group to be gone")
