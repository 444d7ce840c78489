"""A real Slurm on this machine, and an engine's driver that speaks to it."""

import asyncio
import fcntl
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rota.backends.api import EngineJob, EnginePhase
from rota.backends.orders import AttemptOrder, Gang, Key
from rota.backends.slurm.driver import SlurmDriver, driver
from rota.backends.slurm.settings import SlurmSettings
from rota.rpc.messages import Launch

USERS = ("alice", "bob")
START_S, STOP_S = 280.0, 90.0
WAIT_S = 60.0
CLUSTER = "c1"
#: So many seconds after its end slurmctld may forget a job.
MIN_JOB_AGE_S = 5
#: Two that start at once would find the same ports free.
LOCK = Path("/tmp/rota-test-slurm.lock")
T = TypeVar("T")


class Site:
    """A private Slurm: three nodes of four CPUs and two GPUs."""

    def __init__(self, up: Path) -> None:
        self._up = up
        # Its sockets have long names.
        self.state = Path(tempfile.mkdtemp(prefix="rsl", dir="/tmp"))
        self.folder = self.state / "rota"

    def start(self) -> None:
        """Start it, or what has died of it."""
        settings = {
            "SLURM_UP_USERS": " ".join(USERS),
            "SLURM_UP_NODES": "3",
            "SLURM_UP_GPUS": "2",
            "SLURM_UP_FEATURES": "1",
            "SLURM_UP_PROFILE": "tuned",
            "SLURM_UP_EXTRA": f"MinJobAge={MIN_JOB_AGE_S}",
        }
        with LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(
                [self._up, self.state],
                env=os.environ | settings,
                cwd=self.state,  # A daemon that dies leaves its core there.
                capture_output=True,
                text=True,
                timeout=START_S,
            )
        assert done.returncode == 0, done.stderr
        lines = [line.removeprefix("export ") for line in done.stdout.splitlines()]
        self.variables = dict(line.split("=", 1) for line in lines)
        self.state.chmod(0o755)
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o755)

    def stop(self) -> None:
        down = self._up.with_name("slurm-down")
        subprocess.run([down, "--purge", self.state], capture_output=True, timeout=STOP_S)
        shutil.rmtree(self.state, ignore_errors=True)

    def run(self, *words: str, given: str = "") -> str:
        """A command of Slurm, as root."""
        done = subprocess.run(
            words, input=given, cwd=self.state, capture_output=True, text=True, timeout=WAIT_S
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def settings(self, way: str, **more: Any) -> SlurmSettings:
        rest: dict[str, Any] = {}
        if way == "rest":
            url = self.variables["SLURM_REST_URL"]
            rest = {"rest_url": url, "token_file": str(self.state / "tokens/root")}
        return SlurmSettings(**{"folder": str(self.folder), "poll_s": 0.2} | rest | more)

    @contextmanager
    def bench(self, way: str, **more: Any) -> Iterator["Bench"]:
        with asyncio.Runner() as runner:
            made = driver(self.settings(way, **more))
            assert isinstance(made, SlurmDriver)
            made.cluster = CLUSTER
            runner.run(made.open())
            bench = Bench(runner, made)
            try:
                yield bench
            finally:
                bench.end_all()
                runner.run(made.close())


class Bench:
    """A driver, and what was submitted through it."""

    def __init__(self, runner: asyncio.Runner, driver: SlurmDriver) -> None:
        self._runner = runner
        self.driver = driver
        self.submitted: list[str] = []

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    def submit(self, *argv: str, uid: str = "", **wishes: Any) -> str:
        """Hand in an attempt; its uid."""
        order = order_for(argv, uid, **wishes)
        self.do(self.driver.submit(order))
        self.submitted.append(order.uid)
        return order.uid

    def shell(self, text: str, **wishes: Any) -> str:
        return self.submit("/bin/bash", "-c", text, **wishes)

    def listed(self) -> dict[str, EngineJob]:
        return {job.uid: job for job in self.do(self.driver.jobs())}

    def until(self, uid: str, holds: Callable[[EngineJob], object]) -> EngineJob:
        """The job as soon as it is so."""
        deadline_s = time.monotonic() + WAIT_S
        job = None
        while time.monotonic() < deadline_s:
            job = self.listed().get(uid)
            if job is not None and holds(job):
                return job
            self.do(self.driver.changes())
        raise AssertionError(f"in vain: {job}")

    def until_running(self, uid: str) -> EngineJob:
        return self.until(uid, lambda job: job.phase is EnginePhase.RUNNING)

    def until_ended(self, uid: str) -> EngineJob:
        return self.until(uid, lambda job: job.phase is EnginePhase.ENDED)

    def ended(self, uids: Iterable[str]) -> list[EngineJob]:
        return [self.until_ended(uid) for uid in uids]

    def log(self, job: EngineJob, stream: str = "stdout", offset: int = 0, lines: int = 0) -> bytes:
        return self.do(self.driver.read_log(job, stream, offset, 1 << 20, lines))[0]

    def until_log(self, job: EngineJob, has: bytes) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while has not in self.log(job):
            assert time.monotonic() < deadline_s, f"in vain: {self.log(job)!r}"
            self.do(self.driver.changes())

    def printed(self, uid: str) -> str:
        """What it printed until its end."""
        return self.log(self.until_ended(uid)).decode()

    def end_all(self) -> None:
        for job in self.do(self.driver.jobs()):
            if job.uid in self.submitted and job.phase is not EnginePhase.ENDED:
                self.do(self.driver.stop(job, 0.0))


def order_for(
    argv: tuple[str, ...] = ("/bin/true",),
    uid: str = "",
    *,
    cluster: str = CLUSTER,
    user: str = "root",
    workdir: str = "/",
    environment: dict[str, str] | None = None,
    gang: Gang | None = None,
    **wishes: Any,
) -> AttemptOrder:
    """An order; what is no field of a launch is one of the order."""
    uid = uid or secrets.token_hex(16)
    own = {name: wishes.pop(name) for name in [*wishes] if name not in Launch.__struct_fields__}
    if environment is None:
        environment = {"PATH": "/usr/bin:/bin"}
    launch = Launch(uid, 1, user, argv, workdir, environment, **wishes)
    return AttemptOrder(key=Key(cluster, uid), launch=launch, gang=gang, **own)
