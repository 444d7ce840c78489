"""The Python API: submit functions, wait for them, get their results.

import rota
with rota.local() as cluster:
    job = cluster.submit(train, 0.1, resources={"cpu": 2, "memory": "4g"}, name="train")
    print(job.result(timeout=600))
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.client import calls
from rota.client.http import Client, new_key
from rota.core.states import FINAL, JobState
from rota.core.units import parse_memory_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from rota.client.builder import Job

#: Names of ``resources`` in Python, and what they are called in a request.
RESOURCES = {
    "cpu": "cpus",
    "cpus": "cpus",
    "memory": "memory_mb",
    "disk": "disk_mb",
    "gpu": "gpus",
    "gpus": "gpus",
    "gpu_type": "gpu_type",
    "gpu_memory": "gpu_memory_mb",
    "shared": "shared",
}


class JobFailed(Exception):
    """A job ended without a result; ``status`` says how."""

    def __init__(self, status: JobStatus) -> None:
        super().__init__(f"job {status.id} ended {status.state}: {status.error}")
        self.status = status


class JobStatus:
    """A job at one moment. ``state`` is the name of its state."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = dict(record)
        self.id: int = record["id"]
        self.state: str = record["state"]
        self.exit_code: int | None = record.get("exit_code")
        self.error: str = record.get("cause") or ""

    @property
    def finished(self) -> bool:
        return JobState(self.state) in FINAL

    def __repr__(self) -> str:
        return f"<job {self.id} {self.state}>"


class JobHandle(int):
    """The id of a job (it is an ``int``), with what one wants to ask of it."""

    _cluster: ClusterContext
    #: Where the result of a function is left; None for a command.
    _folder: Path | None

    @classmethod
    def make(
        cls, job_id: int, cluster: ClusterContext, folder: Path | None = None
    ) -> JobHandle:  # fmt: skip
        handle = cls(job_id)
        handle._cluster = cluster
        handle._folder = folder
        return handle

    def status(self) -> JobStatus:
        return self._cluster.status(self)

    def cancel(self) -> None:
        self._cluster.cancel(self)

    def done(self) -> bool:
        return self.status().finished

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - the user's own value
        """What the function returned, or what it raised, raised here; a command returns None."""
        status = self._cluster.wait(self, timeout=timeout)
        if self._folder is None:
            if status.state == "completed":
                return None
        elif (self._folder / "result").exists() and status.state in ("completed", "failed"):
            returned, value = calls.read_result(self._folder)
            if returned:
                return value
            raise value
        raise JobFailed(status)


class ClusterContext:
    """A connection to a running Rota; ``rota.connect()`` and ``rota.local()`` make one."""

    def __init__(self, client: Client, on_close: Callable[[], None] | None = None) -> None:
        self._client = client
        self._on_close = on_close
        self._folder = Path(tempfile.mkdtemp(prefix="rota-calls-"))
        self._count = 0

    def submit(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str = "",
        resources: Mapping[str, Any] | None = None,
        scheduling_timeout_seconds: int = 0,
        kwargs: Mapping[str, Any] | None = None,
        **options: object,
    ) -> JobHandle:
        """Run ``function(*args, **kwargs)`` as a job. ``options`` are fields of a job request."""
        self._count += 1
        folder = self._folder / str(self._count)
        calls.write_call(folder, function, args, dict(kwargs or {}))
        request = {
            "name": name or getattr(function, "__name__", "call"),
            "command": calls.command(folder),
            "workdir": os.getcwd(),
            "env": {name: value for name, value in os.environ.items() if name != "ROTA_TOKEN"},
            "resources": _resources(resources or {}),
            "scheduling_timeout_s": scheduling_timeout_seconds,
            **options,
        }
        answer = self._client.post("/jobs", request, key=new_key())
        return JobHandle.make(answer["id"], self, folder)

    def launch(self, job: Job) -> JobHandle:
        """Submit a job that a builder made. It has an end and output, but no result."""
        answer = self._client.post("/jobs", job.request(), key=new_key())
        return JobHandle.make(answer["id"], self)

    def map(
        self, function: Callable[..., Any], items: Iterable[Any], *, max_concurrent: int = 0,
        **options: Any,
    ) -> list[JobHandle]:  # fmt: skip
        """One job per item, at most ``max_concurrent`` of them at once."""
        if max_concurrent:
            options |= {"group": f"map-{new_key()[:12]}", "max_concurrent": max_concurrent}
        return [self.submit(function, item, **options) for item in items]

    def status(self, job: int) -> JobStatus:
        return JobStatus(self._client.get(f"/jobs/{int(job)}"))

    def wait(self, job: int, timeout: float | None = None) -> JobStatus:
        """The status once the job has ended; ``TimeoutError`` when it takes longer."""
        end_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = 30.0 if end_s is None else max(0.0, min(30.0, end_s - time.monotonic()))
            answer = self._client.get("/jobs/wait", ids=int(job), timeout_s=left_s)
            if not answer["pending"]:
                return self.status(job)
            if end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError(f"job {int(job)} has not ended after {timeout:g} s")

    def cancel(self, job: int) -> None:
        self._client.delete(f"/jobs/{int(job)}")

    def logs(self, job: int, stream: str = "stdout") -> str:
        """All that the job has written so far."""
        return b"".join(
            self._client.stream(f"/jobs/{int(job)}/logs", stream=stream)
        ).decode(errors="replace")  # fmt: skip

    def close(self) -> None:
        self._client.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> ClusterContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def _resources(asked: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(asked) - set(RESOURCES))
    if unknown:
        known = ", ".join(RESOURCES)
        raise ValueError(f"resources: {unknown[0]!r} is not known; known are {known}")
    request: dict[str, Any] = {}
    for name, value in asked.items():
        field = RESOURCES[name]
        in_text = field.endswith("_mb") and isinstance(value, str)
        request[field] = parse_memory_mib(value) if in_text else value
    return request


def connect(url: str = "", token: str = "") -> ClusterContext:
    """A running Rota: at ``url``, or found as the command line finds it."""
    environment = dict(os.environ)
    environment |= {"ROTA_URL": url} if url else {}
    environment |= {"ROTA_TOKEN": token} if token else {}
    return ClusterContext(Client.from_environment(environment))


def local(*, cpus: int = 0, state_dir: str = "") -> ClusterContext:
    """A Rota of one's own, started here and stopped, jobs included, when the context closes."""
    folder = state_dir or tempfile.mkdtemp(prefix="rota-local-")
    environment = {**os.environ, "ROTA_STATE_DIR": folder, "ROTA_SERVER_LISTEN": "127.0.0.1:0"}
    environment.pop("ROTA_URL", None)
    if cpus:
        environment["ROTA_AGENT_CPUS"] = str(cpus)
    _rota(environment, "up", "--detach")

    def stop() -> None:
        _rota(environment, "down", "--stop-jobs")
        if not state_dir:
            shutil.rmtree(folder, ignore_errors=True)

    return ClusterContext(Client.from_environment(environment), stop)


def _rota(environment: Mapping[str, str], *args: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rota.cli.main", *args],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"rota {args[0]} failed")
