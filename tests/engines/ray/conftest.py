"""A real Ray of two nodes, the driver alone, and a whole site on it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest

from rota.backends.api import EngineJob, Full, Phase
from rota.backends.orders import Key, Order
from rota.backends.ray.package import id_of
from rota.backends.registry import make
from rota.rpc.messages import Launch
from tests.engines.conftest import EngineSite
from tests.journeys.box import Box, until
from tests.support.machine import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.backends.api import Driver

PATH = "/usr/local/bin:/usr/bin:/bin"
#: Installing it takes most of this, once on a machine.
START_S = 280.0


class Ray:
    """The cluster. ``python`` is one that has Ray."""

    def __init__(self, up: Path, state: Path) -> None:
        self._up, self._state = up, state

    def start(self) -> str:
        """Start it, or what has died of it; what went wrong."""
        done = subprocess.run(
            [self._up, "--nodes", "2", "--cpus", "4", "--gpus", "4", self._state],
            text=True,
            capture_output=True,
            timeout=START_S,
            check=False,
        )
        if done.returncode:
            return done.stderr[-300:]
        env = dict(re.findall(r"^export (\w+)=(.*)$", done.stdout, re.MULTILINE))
        self.url, self.python = env["RAY_DASHBOARD_URL"], env["RAY_UP_PYTHON"]
        self.address = env["RAY_ADDRESS"]
        return ""

    def stop(self) -> None:
        down = self._up.with_name("ray-down")
        subprocess.run([down, "--purge", self._state], capture_output=True, timeout=90, check=False)

    def kill_node(self, name: str) -> None:
        leader = (self._state / "run" / f"{name}.pid").read_text().split()[0]
        found = subprocess.run(["pgrep", "-s", leader], capture_output=True, text=True, check=False)
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def inside(self, text: str, *words: str) -> str:
        """What a program prints that is connected to the cluster."""
        done = subprocess.run(
            [self.python, "-c", text, *words],
            env={**os.environ, "RAY_ADDRESS": self.address},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self, mark: str) -> list[Any]:
        """Those in Ray's own list whose id has this in it."""
        listed = httpx.get(f"{self.url}/api/jobs/", timeout=30).json()
        return [job for job in listed if mark in (job["submission_id"] or "")]


@pytest.fixture(scope="session")
def ray(shared_folder: Path) -> Iterator[Ray]:
    """One per test process; with ROTA_TEST_RAY the one in this folder, which stays up after it.

    Paths of sockets are short, so it does not live in a test's folder.
    """
    up = shared_folder / "engines" / "ray-up"
    if not up.is_file() or shutil.which("bash") is None:
        missing("no ../shared/engines/ray-up to start a Ray with")
    kept = os.environ.get("ROTA_TEST_RAY", "")
    folder = Path(tempfile.mkdtemp(prefix="rr", dir="/tmp"))
    cluster = Ray(up, Path(kept) if kept else folder / "r")
    try:
        if problem := cluster.start():
            missing(f"ray-up failed: {problem}")
        yield cluster
    finally:
        if not kept:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def table(ray: Ray, **settings: Any) -> dict[str, Any]:
    common = {"kind": "ray", "address": ray.url, "python": ray.python, "poll_s": 0.2}
    return {**common, **settings}


class Alone:
    """The driver without its host, one call after the other."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        driver.cluster = uuid4().hex
        self._runner = asyncio.Runner()
        self.do(driver.open())
        self.do(driver.nodes())

    def do(self, call: Any) -> Any:
        return self._runner.run(call)

    def order(self, *argv: str, uid: str = "", node: str = "n1", **launch: Any) -> Order:
        uid = uid or uuid4().hex[:12] + ".1"
        fields = {
            "workdir": "/tmp",
            "environment": {"PATH": PATH},
            "cpu_milli": 100,
            "grace_s": 5.0,
        }
        extra = {name: launch.pop(name) for name in ("gpus", "gang") if name in launch}
        started = Launch(uid=uid, job=1, user="", argv=argv, **{**fields, **launch})
        return Order(key=Key(self.driver.cluster, uid), launch=started, node=node, **extra)

    def offer(self, *argv: str, **fields: Any) -> str:
        """Hand it in, once; the uid."""
        order = self.order(*argv, **fields)
        self.do(self.driver.submit(order))
        return order.uid

    def submit(self, *argv: str, **fields: Any) -> str:
        """Hand it in as soon as it fits: what Ray wrote down may have jobs of other tests in it."""

        def handed_in() -> str:
            try:
                return self.offer(*argv, **fields)
            except Full:
                self.do(self.driver.jobs())
                self.do(self.driver.changes())
                return ""

        uid: str = until(handed_in, "room for it")
        return uid

    def id(self, uid: str) -> str:
        return id_of(Key(self.driver.cluster, uid))

    def reach(self, uid: str, phase: Phase, so: Callable[[EngineJob], bool] = bool) -> EngineJob:
        """The job as the driver shows it, once it is in this phase."""

        async def look() -> EngineJob | None:
            jobs = {job.uid: job for job in await self.driver.jobs()}
            if uid in jobs and jobs[uid].phase is phase and so(jobs[uid]):
                return jobs[uid]
            await self.driver.changes()
            return None

        found: EngineJob = until(lambda: self.do(look()), f"{uid} to be {phase}")
        return found

    def running(self, uid: str) -> EngineJob:
        return self.reach(uid, Phase.RUNNING)

    def ended(self, uid: str) -> EngineJob:
        return self.reach(uid, Phase.ENDED)

    def log(self, job: EngineJob, stream: str = "stdout", offset: int = 0, lines: int = 0) -> bytes:
        read = self.driver.read_log(job, stream, offset, 1 << 22, lines)
        body: bytes = self.do(read)[0]
        return body

    def close(self) -> None:
        for job in self.do(self.driver.jobs()):
            if job.phase is not Phase.ENDED:
                self.do(self.driver.stop(job, 0.0))
                job = self.ended(job.uid)
            self.do(self.driver.forget(job))
        self.do(self.driver.close())
        self._runner.close()


@pytest.fixture
def alone(ray: Ray) -> Iterator[Alone]:
    made = Alone(make("lab", table(ray))[1])
    yield made
    made.close()


class RaySite(EngineSite):
    """A controller, and the host of a Ray beside it."""

    def __init__(self, box: Box, folder: Path, ray: Ray) -> None:
        super().__init__(box, folder)
        given = table(ray).items()
        lines = [f"{key} = {value!r}".replace("'", '"') for key, value in given]
        (folder / "rota.toml").write_text("\n".join(["[engines.lab]", *lines, ""]))


@pytest.fixture
def site(ray: Ray, tmp_path: Path) -> Iterator[RaySite]:
    folder = tmp_path / "engine"
    folder.mkdir()
    made = RaySite(Box(tmp_path / "box"), folder, ray)
    made.box.up("--no-agent")
    made.begin()
    yield made
    made.box.down("--stop-jobs")  # What still runs is stopped by the host, so the host goes last.
    made.stop()
