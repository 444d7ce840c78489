"""Devices in life: a job of an ordinary user opens those that it was given, and no other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hardware.needs import NEEDS_GROUPS, TOP
from tests.journeys.box import Box, acting_as

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = NEEDS_GROUPS

#: Says of each device file whether the kernel lets it be opened, and if not, why.
OPEN = """
export LC_ALL=C
for file in "$@"; do
    said=$( (exec 3<>"$file") 2>&1 ) && said=opened
    echo "$file ${said##*: }"
done
"""
REFUSED = "Operation not permitted"


def box_of(new_box: Callable[..., Box], root: Path, **settings: str) -> tuple[Box, Box]:
    """A box of root's, and the same as an ordinary user has it."""
    box = new_box(root / "box")
    box.env.update(settings)
    box.up()
    theirs = root / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    return box, box.at(theirs, "nobody")


def tries(box: Box, files: list[str], **resources: int) -> dict[str, str]:
    """What became of each file in a job with these resources."""
    job = box.ran(["sh", "-c", OPEN, "sh", *files], resources=resources)
    assert job["state"] == "completed", job
    lines = box.output(job["id"]).splitlines()
    return {file: said for file, _, said in (line.partition(" ") for line in lines)}


def cards() -> list[str]:
    """``/dev/nvidia0`` and so on."""
    found = sorted(str(file) for file in Path("/dev").glob("nvidia[0-9]*"))
    if not found:
        pytest.skip("needs a real NVIDIA GPU")
    return found


def test_a_job_opens_the_device_that_it_was_given_and_no_other_of_the_node(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    files = ["/dev/full", "/dev/zero"]
    gpus = open_folder / "gpus.json"
    gpus.write_text(json.dumps([{"model": "A100", "files": [file]} for file in files]))
    box, theirs = box_of(
        new_box, open_folder, ROTA_FAKE_GPUS=str(gpus), ROTA_AGENT_ENFORCE_DEVICES="required"
    )

    none = tries(theirs, [*files, "/dev/null"])
    one = tries(theirs, files, gpus=1)
    both = tries(theirs, files, gpus=2)

    assert none == {"/dev/full": REFUSED, "/dev/zero": REFUSED, "/dev/null": "opened"}
    assert sorted(one.values()) == [REFUSED, "opened"]
    assert set(both.values()) == {"opened"}
    assert "enforce" not in box.rota("nodes").stdout


def test_a_job_without_a_gpu_cannot_open_any_though_its_user_may(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    files = cards()
    _, theirs = box_of(new_box, open_folder, ROTA_AGENT_ENFORCE_DEVICES="required")

    with acting_as("nobody"):
        for file in files:
            os.close(os.open(file, os.O_RDWR))
    inside = tries(theirs, [*files, "/dev/nvidiactl"])

    assert {inside[file] for file in files} == {REFUSED}
    assert inside["/dev/nvidiactl"] == "opened"


def test_a_job_with_a_gpu_opens_that_one_and_no_other(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    files = cards()
    _, theirs = box_of(new_box, open_folder, ROTA_AGENT_ENFORCE_DEVICES="required")

    one = tries(theirs, files, gpus=1)
    every = tries(theirs, files, gpus=len(files))

    assert list(one.values()).count("opened") == 1
    assert list(one.values()).count(REFUSED) == len(files) - 1
    assert set(every.values()) == {"opened"}


def test_a_job_is_held_to_its_cpus_by_its_group(
    open_folder: Path, new_box: Callable[..., Box]
) -> None:
    if "cpuset" not in (TOP / "cgroup.controllers").read_text():
        pytest.skip("needs the cpuset controller")
    _, theirs = box_of(new_box, open_folder)

    job = theirs.ran(
        [
            "sh",
            "-c",
            "cat /sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cpuset.cpus.effective",
        ],
        resources={"cpus": 1},
    )

    assert theirs.output(job["id"]).strip().isdecimal()
