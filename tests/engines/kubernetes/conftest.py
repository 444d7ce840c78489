"""The driver of a Kubernetes alone, and a whole site on it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from rota.backends.api import EngineJob, EnginePhase
from rota.backends.orders import AttemptOrder, Key
from rota.rpc.messages import Launch
from tests.engines.conftest import EngineSite
from tests.engines.kubernetes.cluster import IMAGE
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.backends.api import Driver
    from tests.engines.kubernetes.cluster import Kube

PATH = "/usr/local/bin:/usr/bin:/bin"


def table(kube: Kube, **settings: Any) -> dict[str, Any]:
    return {"kind": "kubernetes", "kubeconfig": str(kube.config), "image": IMAGE, **settings}


class Alone:
    """The driver without its host, one call after the other."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        driver.cluster = uuid4().hex
        self._runner = asyncio.Runner()
        self.do(driver.open())

    def do(self, call: Any) -> Any:
        return self._runner.run(call)

    def order(self, *argv: str, uid: str = "", node: str = "fake-1", **launch: Any) -> AttemptOrder:
        uid = uid or uuid4().hex[:12] + ".1"
        fields = {
            "workdir": "/tmp",
            "environment": {"PATH": PATH},
            "cpu_milli": 100,
            "grace_s": 5.0,
        }
        extra = {name: launch.pop(name) for name in ("gpus", "time_limit_s") if name in launch}
        started = Launch(uid=uid, job=1, user="", argv=argv, **{**fields, **launch})
        return AttemptOrder(key=Key(self.driver.cluster, uid), launch=started, node=node, **extra)

    def submit(self, *argv: str, **fields: Any) -> str:
        """Hand it in; the uid."""
        order = self.order(*argv, **fields)
        self.do(self.driver.submit(order))
        return order.uid

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

    def ended(self, uid: str) -> EngineJob:
        return self.reach(uid, EnginePhase.ENDED)

    def log(self, job: EngineJob, offset: int = 0, limit: int = 1 << 22, lines: int = 0) -> bytes:
        body: bytes = self.do(self.driver.read_log(job, "stdout", offset, limit, lines))[0]
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
def alone(kube: Kube) -> Iterator[Alone]:
    from rota.backends.registry import make

    _, driver = make("lab", table(kube))
    made = Alone(driver)
    yield made
    made.close()


class KubeSite(EngineSite):
    """A controller, and the host of a Kubernetes beside it."""

    def __init__(self, box: Box, folder: Path, kube: Kube, **more: Any) -> None:
        super().__init__(box, folder)
        lines = [f"{key} = {json.dumps(value)}" for key, value in table(kube, **more).items()]
        (folder / "rota.toml").write_text("\n".join(["[engines.lab]", *lines, ""]))
        self._kube = kube

    def nodes(self) -> dict[str, Any]:
        return {node["name"]: node for node in self.box.api("GET", "/nodes")[1]["items"]}

    def is_up(self) -> bool:
        nodes = self.nodes().values()
        # Three machines, or pools of them.
        machines = sum(node["machines"] or 1 for node in nodes if node["state"] == "up")
        return machines == 3

    def pods(self) -> list[Any]:
        """Those of this site that are there now."""
        with closing(sqlite3.connect(self.box.state / "engines" / "lab" / "journal.db")) as journal:
            found = journal.execute("SELECT value FROM facts WHERE name = 'cluster'").fetchone()
        return list(self._kube.show("pods", "-l", f"rota/cluster={found[0]}")["items"])

    def services(self) -> list[Any]:
        return list(self._kube.show("services", "-l", "rota/cluster")["items"])


@pytest.fixture
def site(kube: Kube, tmp_path: Path) -> Iterator[KubeSite]:
    folder = tmp_path / "engine"
    folder.mkdir()
    made = KubeSite(Box(tmp_path / "box"), folder, kube)
    made.box.up("--no-agent")
    made.begin()
    yield made
    made.box.down("--stop-jobs")  # What still runs is stopped by the host, so the host goes last.
    made.stop()
