"""The Python API: submit functions, wait for them, get their results.

import rota
with rota.local() as cluster:
    job = cluster.options(cpus=2, memory="4g").submit(train, 0.1, epochs=3)
    print(job.result(timeout=600))
"""

from __future__ import annotations

import os
import shutil
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rota.client import asking, calls
from rota.client.builder import Job
from rota.client.errors import ClientError
from rota.client.handle import Family, JobHandle, as_completed, gather
from rota.client.http import Client, new_key
from rota.client.making import Maker, RequestOrder
from rota.client.options import OPEN, Calling, JobFunction, Options, opening
from rota.client.status import JobFailed, Plan
from rota.client.verbs import Verbs
from rota.client.watcher import Watcher
from rota.client.wire.ways import check_url

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Unpack

    from rota.client.asking import JobOptions
    from rota.client.executors.executor import JobExecutor
    from rota.client.executors.pool import WorkerPool
    from rota.client.executors.pool_worker import Address

__all__ = ["ClusterContext", "JobFailed", "connect"]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class ClusterContext(Calling, Verbs):
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
        self.maker = Maker(folder, python)
        client.remark = warnings.warn
        super().__init__(client, self.maker.results)
        self._on_close = on_close
        self._watcher = Watcher(client.twin())
        self._number = opening(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def client(self) -> Client:
        """What speaks to the server."""
        return self._client

    @property
    def labels(self) -> dict[str, str]:
        """What is put on every job of this connection."""
        return self.maker.labels

    @labels.setter
    def labels(self, labels: dict[str, str]) -> None:
        self.maker.labels = labels

    @property
    def unfinished(self) -> list[JobHandle[Any]]:
        """The handles of this connection whose jobs are not known to have ended."""
        return self._watcher.pending

    def options(self, **options: Unpack[JobOptions]) -> Options:
        """This cluster with options for the calls that follow: ``options(gpus=1, time="2h")``."""
        return Options(self, asking.merged({}, options))

    def _submitted(
        self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> JobHandle[T]:
        given, options = asking.sort_keywords(function, args, kwargs)
        return self.submit_call(function, args, given, options)

    def submit_call(
        self,
        function: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> JobHandle[T]:
        """One call as a job, with what is for the function apart from what is for the job."""
        function, options = own_options(function, options)
        return self._send(self.maker.call(function, args, kwargs, options, self.home))

    def map_calls(
        self,
        function: Callable[..., T],
        rows: Iterable[tuple[Any, ...]],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        max_concurrent: int = 0,
    ) -> list[JobHandle[T]]:
        """One job per tuple of arguments: arrays whose elements share the function."""
        function, options = own_options(function, options)
        handles: list[JobHandle[T]] = []
        for order in self.maker.family(function, rows, kwargs, options, self.home, max_concurrent):
            handles += self._send_array(order)
        return handles

    _mapped = map_calls

    def launch(self, job: Job) -> JobHandle[None]:
        """Submit a job that a builder made. It has an end and output, but no result."""
        return self._send(RequestOrder(job.request(), 0, 0, ()))

    def plan(self, function: Callable[..., Any] | Job, /, *args: Any, **kwargs: Any) -> Plan:
        """What would become of such a call, or of a ``rota.Job``; nothing is submitted."""
        if isinstance(function, Job):
            return self._plan(function.request())
        given, options = asking.sort_keywords(function, args, kwargs)
        return self.plan_call(function, args, given, options)

    def plan_call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Plan:
        """As ``submit_call``, without submitting anything."""
        function, options = own_options(function, options)
        return self._plan(self.maker.call(function, args, kwargs, options, self.home).request)

    def _plan(self, request: Mapping[str, Any]) -> Plan:
        with self._lock:
            return Plan(self._client.post("/plan", request))

    def job(self, job_id: int | str) -> JobHandle[Any]:
        """The handle of a job that was submitted before, by this program or another one."""
        opened = self._watcher.listen()
        status = self.status(job_id)
        tasks = results_of(status.record)
        handle: JobHandle[Any] = JobHandle(status.id, self, tasks, name=status.name)
        self._watcher.add([handle], opened - 1)
        return handle

    def _send(self, order: RequestOrder) -> JobHandle[Any]:
        opened = self._watcher.listen()
        answer = self._post(order.request)
        name = order.request.get("name", "")
        handle: JobHandle[Any] = JobHandle(
            answer["id"], self, order.tasks, name=name, parents=order.parents
        )
        self._watcher.add([handle], opened)
        return handle

    def _send_array(self, order: RequestOrder) -> list[JobHandle[Any]]:
        opened = self._watcher.listen()
        array = self._post(order.request)["id"]
        name, parents = order.request["name"], order.parents
        handles: list[JobHandle[Any]] = [
            JobHandle(
                array + 1 + place, self, order.tasks,
                name=name, family=Family(array, order.elements, place), parents=parents,
            )
            for place in range(order.elements)
        ]  # fmt: skip
        self._watcher.add(handles, opened)
        return handles

    def _post(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            answer: dict[str, Any] = self._client.post("/jobs", request, key=new_key())
        return answer

    def as_completed(
        self, jobs: Iterable[JobHandle[T]], timeout: float | None = None
    ) -> Iterator[JobHandle[T]]:
        """The handles in the order in which their jobs end."""
        return as_completed(jobs, timeout=timeout)

    def gather(
        self,
        *jobs: JobHandle[T] | Iterable[JobHandle[T]],
        timeout: float | None = None,
        return_exceptions: bool = False,
    ) -> list[T]:
        """What the jobs returned, in their order; see ``rota.gather``."""
        return gather(*jobs, timeout=timeout, return_exceptions=return_exceptions)

    def open_listener(self) -> tuple[socket.socket, Address]:
        """Where jobs can dial this program: a path on one machine, else a port of ours."""
        from rota.client.executors.pool import listener

        host = self._client.own_host()
        folder = "" if host else str(self.maker.calls.make() / f"pool-{new_key()[:8]}")
        return listener(folder, host)

    def executor(self, **options: Unpack[JobOptions]) -> JobExecutor:
        """A ``concurrent.futures.Executor``: every call is a job with these options."""
        from rota.client.executors.executor import JobExecutor

        return JobExecutor(self, options)

    def pool(self, workers: int = 1, **options: Unpack[JobOptions]) -> WorkerPool:
        """An executor for many short calls: ``workers`` jobs stay and run one after another."""
        from rota.client.executors.pool import WorkerPool

        return WorkerPool(self, workers, options)

    def close(self, *, keep_calls: bool = False) -> None:
        """Let go of the cluster. Jobs go on, unless the cluster is our own; results stay.

        ``keep_calls``: a job may still need a large call that waits for it in a file.
        """
        OPEN.pop(self._number, None)
        unfinished = self._on_close is None and (keep_calls or bool(self._watcher.pending))
        self._watcher.close()
        with self._lock:
            self._client.close()
        if not unfinished:
            shutil.rmtree(self.maker.calls.path, ignore_errors=True)
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> ClusterContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def own_options(
    function: Callable[..., T], options: Mapping[str, Any]
) -> tuple[Callable[..., T], Mapping[str, Any]]:
    """What a function under ``@rota.job`` says about itself, then what the caller says."""
    if not isinstance(function, JobFunction):
        return function, options
    called = function if function.is_importable else function.function
    return called, asking.merged(function.given, options)


def results_of(record: Mapping[str, Any]) -> int:
    """How many results a job has: as many as tasks if it runs a function of ours, else none."""
    returns = (record.get("command") or [])[1:] == list(calls.COMMAND)
    return int(record.get("tasks") or 1) if returns else 0


def connect(
    url: str = "", token: str = "", *, folder: str = "", python: str = ""
) -> ClusterContext:
    """A running Rota: at ``url``, or found as the command line finds it; ``Unreachable`` where
    nothing answers.

    ``folder`` is for calls and items that are too large to travel with the job, and for results;
    where there are several machines, one that they share. ``python`` is the interpreter of jobs.
    """
    environment = dict(os.environ)
    if url:
        check_url(url, "url")
        environment["ROTA_URL"] = url
    environment |= {"ROTA_TOKEN": token} if token else {}
    client = Client.from_environment(environment)
    try:
        client.knock()
    except ClientError as error:
        # Where it was looked for inside of us helps nobody.
        raise error.with_traceback(None) from None
    return ClusterContext(client, folder=folder, python=python)
