"""The Python API: submit functions, wait for them, get their results.

import rota
with rota.local() as cluster:
    job = cluster.submit(train, 0.1, resources={"cpu": 2, "memory": "4g"}, name="train")
    print(job.result(timeout=600))
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.client import asking, calls, outcomes
from rota.client.errors import Refused
from rota.client.handle import JobHandle
from rota.client.http import Client, new_key
from rota.client.members import task_count
from rota.client.status import JobFailed, JobStatus
from rota.client.watcher import Watcher

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from rota.client.builder import Job
    from rota.client.executor import JobExecutor
    from rota.client.outcomes import Outcome
    from rota.client.pool import WorkerPool
    from rota.client.pool_worker import Address

__all__ = ["ClusterContext", "JobFailed", "connect"]

#: One look at a job that is waited for by its number; the next one follows.
LOOK_S = 30.0


class ClusterContext:
    """A connection to a running Rota; ``rota.connect()`` and ``rota.local()`` make one.

    It may be used from several threads.
    """

    def __init__(
        self,
        client: Client,
        on_close: Callable[[], None] | None = None,
        *,
        folder: str = "",
        python: str = "",
    ) -> None:
        self._client = client
        self._on_close = on_close
        self._lock = threading.Lock()
        # Made by whoever first puts something there: a call that is large, or a job its result.
        base = Path(folder or tempfile.gettempdir()).absolute()
        self._calls = calls.CallFolder(base / f"rota-calls-{new_key()[:16]}")
        self._command = [python or sys.executable, *calls.COMMAND]
        self._watcher = Watcher(client.twin())
        #: What is put on every job of this connection.
        self.labels: dict[str, str] = {}

    @property
    def url(self) -> str:
        """Where the server is; another program can give it to ``rota.connect``."""
        return self._client.addresses[0]

    @property
    def unfinished(self) -> list[JobHandle]:
        """The handles of this connection whose jobs are not known to have ended."""
        return self._watcher.pending

    def submit(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str = "",
        resources: Mapping[str, Any] | None = None,
        scheduling_timeout_seconds: float = 0,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> JobHandle:
        """Run ``function(*args, **kwargs)`` as a job.

        ``options``: ``env`` (variables on top of ours), ``time_limit`` (``"2h"``), ``after_ok``
        (jobs), and every field of a job request: ``tasks``, ``retries``, ``priority``, ``cluster``.
        """
        if scheduling_timeout_seconds:
            options["scheduling_timeout_s"] = scheduling_timeout_seconds
        request = self._request(function, name, resources, options)
        request["stdin"] = self._calls.pack(function, args, kwargs or {})
        return self._send(request, tasks=task_count(request))

    def map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        *,
        max_concurrent: int = 0,
        name: str = "",
        resources: Mapping[str, Any] | None = None,
        scheduling_timeout_seconds: float = 0,
        **options: Any,
    ) -> list[JobHandle]:
        """One job per item, at most ``max_concurrent`` of them at once, in one request."""
        if scheduling_timeout_seconds:
            options["scheduling_timeout_s"] = scheduling_timeout_seconds
        request = self._request(function, name, resources, options)
        return self.map_calls(function, [(item,) for item in items], max_concurrent, request)

    def map_calls(
        self,
        function: Callable[..., Any],
        arguments: list[tuple[Any, ...]],
        max_concurrent: int = 0,
        request: Mapping[str, Any] | None = None,
    ) -> list[JobHandle]:
        """One job per tuple of arguments: an array whose elements share the function."""
        if max_concurrent < 0:
            raise ValueError(f"max_concurrent: {max_concurrent} is not valid; 0 (no cap) or more")
        if not arguments:
            return []
        common = dict(request or self._request(function, "", None, {}))
        common["stdin"] = self._calls.pack(function, (), {})
        portions = calls.portions(self._calls.rows(arguments))
        if max_concurrent:
            common["max_concurrent"] = max_concurrent
            if len(portions) > 1:
                # A cap over several arrays is the cap of a group that they belong to.
                common["group"] = f"map-{new_key()[:12]}"
        handles: list[JobHandle] = []
        for rows in portions:
            parameters = {"names": [calls.PARAMETER], "rows": [[row] for row in rows]}
            handles += self._send_array({**common, "parameters": parameters}, len(rows))
        return handles

    def launch(self, job: Job) -> JobHandle:
        """Submit a job that a builder made. It has an end and output, but no result."""
        return self._send(job.request(), tasks=0)

    def job(self, job_id: int) -> JobHandle:
        """The handle of a job that was submitted before, by this program or another one."""
        opened = self._watcher.listen()
        record = self.status(job_id).record
        returns = (record.get("command") or [])[1:] == list(calls.COMMAND)
        handle = JobHandle(int(job_id), self, int(record.get("tasks") or 1) if returns else 0)
        self._watcher.add([handle], opened - 1)
        return handle

    def _request(
        self,
        function: object,
        name: str,
        resources: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        base = asking.surroundings(os.environ, str(self._calls.path))
        base["name"] = name or getattr(function, "__name__", "call").strip("<>")
        base["command"] = self._command
        request = asking.options(options, resources, base)
        if self.labels:
            request["labels"] = {**self.labels, **request.get("labels", {})}
        return request

    def _send(self, request: Mapping[str, Any], tasks: int) -> JobHandle:
        opened = self._watcher.listen()
        answer = self._post(request)
        handle = JobHandle(answer["id"], self, tasks)
        self._watcher.add([handle], opened)
        return handle

    def _send_array(self, request: Mapping[str, Any], count: int) -> list[JobHandle]:
        opened = self._watcher.listen()
        first = self._post(request)["id"] + 1
        handles = [JobHandle(first + place, self) for place in range(count)]
        self._watcher.add(handles, opened)
        return handles

    def _post(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            answer: dict[str, Any] = self._client.post("/jobs", request, key=new_key())
        return answer

    def _get(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - JSON
        with self._lock:
            return self._client.get(path, **parameters)

    def status(self, job: int) -> JobStatus:
        """The job as it is now."""
        return JobStatus(self._get(f"/jobs/{int(job)}"))

    def wait(self, job: int, timeout: float | None = None) -> JobStatus:
        """The status once the job has ended; ``TimeoutError`` when it takes longer."""
        end_s = None if timeout is None else time.monotonic() + timeout
        client = self._client.twin()
        try:
            while True:
                left_s = LOOK_S if end_s is None else max(0.0, end_s - time.monotonic())
                look_s = round(min(LOOK_S, left_s), 3)
                answer = client.get("/jobs/wait", ids=int(job), timeout_s=look_s)
                if not answer["pending"]:
                    return JobStatus(client.get(f"/jobs/{int(job)}"))
                if end_s is not None and time.monotonic() >= end_s:
                    raise TimeoutError(f"job {int(job)} has not ended after {timeout:g} s")
        finally:
            client.close()

    def as_completed(
        self, jobs: Iterable[JobHandle], timeout: float | None = None
    ) -> Iterator[JobHandle]:
        """The handles in the order in which their jobs end."""
        for handle in as_completed(jobs, timeout):
            assert isinstance(handle, JobHandle)
            yield handle

    def cancel(self, job: int) -> bool:
        """Ask for the end of a job; False if it has ended already."""
        try:
            with self._lock:
                self._client.delete(f"/jobs/{int(job)}")
        except Refused as refusal:
            if refusal.status != 409:
                raise
            return False
        return True

    def events(self, job: int) -> list[dict[str, Any]]:
        """What happened to the job, oldest first."""
        found: list[dict[str, Any]] = self._get(f"/jobs/{int(job)}/events")["items"]
        return found

    def release(self, job: int) -> None:
        """Let a job go that was submitted with ``hold=True``."""
        with self._lock:
            self._client.patch(f"/jobs/{int(job)}", {"action": "release"})

    def logs(self, job: int, stream: str = "stdout", *, task: int = 0) -> str:
        """All that the job has written so far."""
        pieces = self._client.stream(f"/jobs/{int(job)}/logs", stream=stream, task=task)
        return b"".join(pieces).decode(errors="replace")

    def progress(self, job: int, task: int = 0) -> dict[str, Any] | None:
        """What a task last said about how far it is; None before it said anything."""
        body = self._left(job, task, "progress")
        found: dict[str, Any] | None = None if body is None else json.loads(body)
        return found

    def outcome(self, job: int, task: int = 0) -> Outcome | None:
        """How a task's function ended; None if it left nothing."""
        body = self._here(job, task, "result")
        found = None if body is None else outcomes.read(body)
        if found is None or found.error is not None:
            # What lies here may be from an attempt before the last one, on another node.
            body = self._there(job, task, "result") or body
            found = None if body is None else outcomes.read(body)
        return found

    def _left(self, job: int, task: int, part: str) -> bytes | None:
        body = self._here(job, task, part)
        return self._there(job, task, part) if body is None else body

    def _here(self, job: int, task: int, part: str) -> bytes | None:
        """From the folder itself, where job and client share it."""
        try:
            return (self._calls.path / outcomes.file_name(int(job), task, part)).read_bytes()
        except OSError:
            return None

    def _there(self, job: int, task: int, part: str) -> bytes | None:
        """Through the server, from the node that the job ran on."""
        path = f"/jobs/{int(job)}/result"
        try:
            return b"".join(self._client.stream(path, task=task, part=part))
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return None

    def workers(
        self, function: Callable[[], Any], count: int, options: Mapping[str, Any]
    ) -> list[JobHandle]:
        """So many jobs that all run the same function, for a pool."""
        given = {"name": "pool", **options}
        name, asked = given.pop("name"), given.pop("resources", None)
        request = self._request(function, name, asked, given)
        return self.map_calls(function, [()] * count, 0, request)

    def open_listener(self) -> tuple[socket.socket, Address]:
        """Where jobs can dial this program: a path on one machine, else a port of ours."""
        from rota.client.pool import listener

        host = self._client.own_host()
        return listener("" if host else str(self._calls.make() / f"pool-{new_key()[:8]}"), host)

    def executor(self, **options: Any) -> JobExecutor:
        """A ``concurrent.futures.Executor``: every call is a job with these options."""
        from rota.client.executor import JobExecutor

        return JobExecutor(self, options)

    def pool(self, workers: int = 1, **options: Any) -> WorkerPool:
        """An executor for many short calls: ``workers`` jobs stay and run one after another."""
        from rota.client.pool import WorkerPool

        return WorkerPool(self, workers, options)

    def close(self) -> None:
        """Let go of the cluster. Jobs go on, unless the cluster is our own."""
        unfinished = self._on_close is None and bool(self._watcher.pending)
        self._watcher.close()
        with self._lock:
            self._client.close()
        if not unfinished:
            shutil.rmtree(self._calls.path, ignore_errors=True)
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> ClusterContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def connect(
    url: str = "", token: str = "", *, folder: str = "", python: str = ""
) -> ClusterContext:
    """A running Rota: at ``url``, or found as the command line finds it.

    ``folder`` is for calls and items that are too large to travel with the job, and for results;
    where there are several machines, one that they share. ``python`` is the interpreter of jobs.
    """
    environment = dict(os.environ)
    environment |= {"ROTA_URL": url} if url else {}
    environment |= {"ROTA_TOKEN": token} if token else {}
    return ClusterContext(Client.from_environment(environment), folder=folder, python=python)
