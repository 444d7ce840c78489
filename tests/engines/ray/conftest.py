"""The driver of a Ray alone, and a whole site on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from rota.backends.api import EngineJob, EnginePhase, Full
from rota.backends.orders import AttemptOrder, Key
from rota.backends.ray.package import id_of
from rota.backends.registry import make
from rota.rpc.messages import Launch
from tests.engines.conftest import EngineSite
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.backends.api import Driver
    from tests.engines.ray.cluster import Ray

PATH = "/usr/local/bin:/usr/bin:/bin"


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

    def order(self, *argv: str, uid: str = "", node: str = "n1", **launch: Any) -> AttemptOrder:
        uid = uid or uuid4().hex[:12] + ".1"
        fields = {
            "workdir": "/tmp",
            "environment": {"PATH": PATH},
            "cpu_milli": 100,
            "grace_s": 5.0,
        }
        extra = {name: launch.pop(name) for name in ("gpus", "gang") if name in launch}
        started = Launch(uid=uid, job=1, user="", argv=argv, **{**fields, **launch})
        return AttemptOrder(key=Key(self.driver.cluster, uid), launch=started, node=node, **extra)

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

    def reach(
        self, uid: str, phase: EnginePhase, so: Callable[[EngineJob], bool] = bool
    ) -> EngineJob:
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
        return self.reach(uid, EnginePhase.RUNNING)

    def ended(self, uid: str) -> EngineJob:
        return self.reach(uid, EnginePhase.ENDED)

    def log(self, job: EngineJob, stream: str = "stdout", offset: int = 0, lines: int = 0) -> bytes:
        read = self.driver.read_log(job, stream, offset, 1 << 22, lines)
        body: bytes = self.do(read)[0]
        return body

    def close(self) -> None:
        for job in self.do(self.driver.jobs()):
            if job.phase is not EnginePhase.ENDED:
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

    machines = 3

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
