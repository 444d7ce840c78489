"""A real Kubernetes whose nodes run commands, the driver alone, and a whole site on it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from rota.backends.api import EngineJob, Phase
from rota.backends.orders import Key, Order
from rota.rpc.messages import Launch
from tests.engines.conftest import EngineSite
from tests.journeys.box import Box, until
from tests.support.machine import REPOSITORY, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.backends.api import Driver

NAMESPACE = "rota-jobs"
ACCOUNT = "rota-engine"
IMAGE = "rota.test/busybox:1"
PATH = "/usr/local/bin:/usr/bin:/bin"


def manifest_of_docs() -> str:
    page = (REPOSITORY / "docs" / "engines.md").read_text()
    manifest = re.search(r"```yaml\n(apiVersion: v1\nkind: Namespace.*?)```", page, re.DOTALL)
    assert manifest is not None
    return manifest[1]


class Kube:
    """The cluster, as its admin sees it. ``config`` has the rights of docs/engines.md."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self._env = {**os.environ, **env}
        self._kubectl = f"{env['KUBE_BIN']}/kubectl"
        self.config = folder / "rota.kubeconfig"
        self.url, self.ca = env["KUBE_URL"], Path(env["KUBE_CA"])

    def ctl(self, *args: str, stdin: str = "", check: bool = True) -> str:
        done = subprocess.run(
            [self._kubectl, *args],
            env=self._env,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert not (check and done.returncode), done.stderr
        return done.stdout

    def refusal(self, *args: str, stdin: str = "") -> str:
        """What kubectl says when it is refused; nothing when it is not."""
        words = [self._kubectl, *args]
        done = subprocess.run(
            words,
            env=self._env,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return done.stderr if done.returncode else ""

    @property
    def admin(self) -> str:
        """A kubeconfig with all rights."""
        return self._env["KUBECONFIG"]

    def used(self, namespace: str, quota: str) -> dict[str, str]:
        words = ("-n", namespace, "get", "resourcequota", quota, "-o", "json")
        return dict(json.loads(self.ctl(*words))["status"]["used"])

    def show(self, *args: str) -> Any:
        return json.loads(self.ctl("-n", NAMESPACE, "get", *args, "-o", "json"))

    def give_rights(self) -> None:
        """Those of the docs, and nothing else, to the account that the driver uses."""
        self.ctl("apply", "-f", "-", stdin=manifest_of_docs())
        token = until(self._token, "a token of the account")
        user = {"token": base64.b64decode(token).decode()}
        cluster = {"server": self._env["KUBE_URL"], "certificate-authority": self._env["KUBE_CA"]}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": ACCOUNT}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": ACCOUNT, "user": user}],
        }
        self.config.write_text(json.dumps(config))

    def _token(self) -> str:
        for secret in self.show("secrets")["items"]:
            notes = secret["metadata"].get("annotations", {})
            if notes.get("kubernetes.io/service-account.name") == ACCOUNT:
                return str(secret.get("data", {}).get("token", ""))
        return ""

    def quota(self, **hard: str) -> None:
        limits = {name.replace("_", "."): amount for name, amount in hard.items()}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "small", "namespace": NAMESPACE},
            "spec": {"hard": limits},
        }
        self.ctl("apply", "-f", "-", stdin=json.dumps(quota))
        until(lambda: self.show("resourcequota", "small")["status"].get("hard") == limits, "it")

    def no_quota(self) -> None:
        self.ctl("-n", NAMESPACE, "delete", "resourcequota", "small", "--ignore-not-found")


@pytest.fixture(scope="session")
def kube(shared_folder: Path) -> Iterator[Kube]:
    """One per test process; with ROTA_TEST_KUBE the one in this folder, which stays up after it.

    Paths of sockets are short, so it does not live in a test's folder.
    """
    up = shared_folder / "engines" / "kube-up"
    if not up.is_file() or shutil.which("bash") is None:
        missing("no ../shared/engines/kube-up to start a Kubernetes with")
    if os.geteuid() != 0:
        missing("a Kubernetes for tests needs the rights of root")
    folder = Path(tempfile.mkdtemp(prefix="rk", dir="/tmp"))
    kept = os.environ.get("ROTA_TEST_KUBE", "")
    state = kept or folder / "k"
    started = subprocess.run(
        [up, "--nodes", "3", "--gpus", "4", state],
        text=True,
        capture_output=True,
        timeout=280,
        check=False,
    )
    try:
        if started.returncode:
            missing(f"kube-up failed: {started.stderr[-300:]}")
        env = dict(re.findall(r"^export (\w+)=(.*)$", started.stdout, re.MULTILINE))
        cluster = Kube(env, folder)
        cluster.give_rights()
        yield cluster
    finally:
        if not kept:
            down = [shared_folder / "engines" / "kube-down", "--purge", state]
            subprocess.run(down, capture_output=True, timeout=60, check=False)
        shutil.rmtree(folder, ignore_errors=True)


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

    def order(self, *argv: str, uid: str = "", node: str = "fake-1", **launch: Any) -> Order:
        uid = uid or uuid4().hex[:12] + ".1"
        fields = {
            "workdir": "/tmp",
            "environment": {"PATH": PATH},
            "cpu_milli": 100,
            "grace_s": 5.0,
        }
        extra = {name: launch.pop(name) for name in ("gpus", "time_limit_s") if name in launch}
        started = Launch(uid=uid, job=1, user="", argv=argv, **{**fields, **launch})
        return Order(key=Key(self.driver.cluster, uid), launch=started, node=node, **extra)

    def submit(self, *argv: str, **fields: Any) -> str:
        """Hand it in; the uid."""
        order = self.order(*argv, **fields)
        self.do(self.driver.submit(order))
        return order.uid

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

    def ended(self, uid: str) -> EngineJob:
        return self.reach(uid, Phase.ENDED)

    def log(self, job: EngineJob, offset: int = 0, limit: int = 1 << 22, lines: int = 0) -> bytes:
        body: bytes = self.do(self.driver.read_log(job, "stdout", offset, limit, lines))[0]
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
