"""Jobs that an older version started, and that the present one goes on with, on both databases."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.keeper.orders import PROTOCOL
from tests.journeys.box import Box, until
from tests.support.machine import REPOSITORY, missing

#: An older version, from the history of this repository: of schema 002, with the first keepers.
OLDER = "626e6b1d52681c92f768b16208262ac1ba887d6f"
NEWER = str(REPOSITORY / "src")


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of its code."""
    command = ["git", "-C", str(REPOSITORY), "archive", OLDER, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        missing(f"no history of git with the older version {OLDER} (a shallow clone?)")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(folder, filter="data")
    return str(folder / "src")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path / "box", cpus=4)
    # The older version does not know it, and has none with a state folder of its own.
    made.env.pop("ROTA_SERVER_SOCKET", None)
    if request.param == "postgres":
        made.env["ROTA_SERVER_DATABASE"] = request.getfixturevalue("postgres_url")
    yield made
    made.down("--kill")


def test_jobs_of_an_older_version_survive_the_upgrade(box: Box, older: str) -> None:
    wait = "while [ ! -e go ]; do sleep 0.1; done"
    box.env["PYTHONPATH"] = older
    box.up()
    running = [box.job(f"echo {code} >> ran; {wait}; exit {code}") for code in (0, 3)]
    done = box.ran("echo before; exit 4")
    held = box.job("echo held >> ran", hold=True)
    child = box.submit("--after-ok", str(running[0]), "--", "sh", "-c", "echo child >> ran")
    until(lambda: sorted(_lines(box)) == ["0", "3"], "both jobs to run")
    keeper = json.loads((box.state / "agent" / "keeper.json").read_text())

    box.rota("down")
    box.env |= {"PYTHONPATH": NEWER, "ROTA_SERVER_SOCKET": "none"}
    box.up()
    survived = [box.reach(job, "running")["state"] for job in running]
    new = box.job("echo new >> ran")
    (box.work / "go").touch()
    ends = [box.ended(job) for job in (*running, child, new)]

    assert keeper["protocol"] < PROTOCOL, "the jobs were not started by the older version"
    assert survived == ["running", "running"]
    assert [end["exit_code"] for end in ends] == [0, 3, 0, 0]
    assert [end["state"] for end in ends] == ["completed", "failed", "completed", "completed"]
    # Nothing ran twice, and what had ended has ended as it did.
    assert sorted(_lines(box)) == ["0", "3", "child", "new"]
    assert (box.show(done["id"])["exit_code"], box.output(done["id"])) == (4, "before\n")
    assert box.state_of(held) == "held"
    box.rota("release", str(held))
    assert box.ended(held)["exit_code"] == 0


def _lines(box: Box) -> list[str]:
    path = box.work / "ran"
    return path.read_text().split() if path.exists() else []
