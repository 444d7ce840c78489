"""A Rota without an agent of its own, and a real Slurm that it asks for nodes."""

import json
import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.slurm.site import Site
from tests.journeys.box import Box, until

#: What runs in an allocation ends soon after its jobs, so that a test need not wait for it.
IDLE = "2s"


class PilotSite:
    """``box`` is the controller; ``folder`` is shared with the nodes of Slurm."""

    def __init__(self, box: Box, slurm: Site, folder: Path) -> None:
        self.box, self.slurm, self.folder = box, slurm, folder
        #: No test meets what another one has left.
        self.name = f"hpc{secrets.token_hex(2)}"
        self.before = {job["job_id"] for job in self._listed()}

    def add(self, *options: str) -> None:
        given = ("--cpus", "2", "--memory", "500m", "--time", "10m", "--idle", IDLE)
        folder = f"folder={self.folder}"
        self.box.rota(
            "engine", "pilot", "add", "slurm", self.name, *given, "--set", folder, *options
        )

    def submit(self, *command: str, **fields: Any) -> int:
        return self.box.job(list(command), **{"time_limit_s": 120, **fields})

    def state(self, job: int) -> str:
        return str(self.box.api("GET", f"/jobs/{job}")[1]["state"])

    def until_state(self, job: int, *states: str) -> None:
        until(lambda: self.state(job) in states, f"job {job} {states}")

    def pilot(self) -> dict[str, Any]:
        _, page = self.box.api("GET", "/pilots")
        return next(one for one in page["items"] if one["name"] == self.name)

    def nodes(self) -> list[str]:
        return [node["name"] for node in self.box.api("GET", "/nodes")[1]["items"]]

    def tokens(self) -> list[dict[str, Any]]:
        return list(self.box.api("GET", "/tokens")[1]["items"])

    def allocations(self) -> list[dict[str, Any]]:
        """Every job in Slurm that was asked for here, ended ones too."""
        return [job for job in self._listed() if job["job_id"] not in self.before]

    def _listed(self) -> list[dict[str, Any]]:
        jobs = json.loads(self.slurm.run("squeue", "--json"))["jobs"]
        return [job for job in jobs if ":pilot-" in (job["comment"] or "")]

    def alive(self) -> list[dict[str, Any]]:
        ended = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "COMPLETING")
        return [job for job in self.allocations() if job["job_state"] not in ended]

    def keeper_pid(self) -> int:
        text = (self.box.state / "pilots" / "keeper.lock").read_text()
        return int(text) if text else 0

    def kill_keeper(self) -> None:
        pid = until(self.keeper_pid, "the keeper of pilots")
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.keeper_pid() not in (0, pid), "another keeper")

    def kill_controller(self) -> None:
        pid = json.loads((self.box.state / "controller.json").read_text())["pid"]
        os.kill(pid, signal.SIGKILL)

    def until_gone(self) -> None:
        until(lambda: not self.alive(), "the last allocation to go")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, slurm: Site) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("pilots") / "box")
    box.env["SLURM_CONF"] = os.environ["SLURM_CONF"]
    box.up("--no-agent")
    yield box
    box.down("--stop-jobs")


@pytest.fixture
def site(tmp_path: Path, box: Box, slurm: Site) -> Iterator[PilotSite]:
    made = PilotSite(box, slurm, slurm.folder / tmp_path.name)
    yield made
    box.rota("cancel", "--all", check=False)
    box.api("DELETE", f"/pilots/{made.name}")
    for job in made.alive():
        slurm.run("scancel", str(job["job_id"]))
    made.until_gone()
    shutil.rmtree(made.folder, ignore_errors=True)
