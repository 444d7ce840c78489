"""The twin of ``ClusterContext``.

async with rota.connect_async() as cluster:
    job = await cluster.options(cpus=2).submit(train, 0.1)
    print(await job)
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from rota.client import asking
from rota.client.aio.job import AsyncJob
from rota.client.aio.line import AsyncLine
from rota.client.aio.verbs import AsyncVerbs
from rota.client.aio.watch import EndWatch
from rota.client.builder import Job
from rota.client.cluster import connect, own_options, results_of
from rota.client.handle import Family
from rota.client.http import new_key
from rota.client.local import local
from rota.client.making import RequestOrder
from rota.client.status import Plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Unpack

    from rota.client.asking import JobOptions
    from rota.client.cluster import ClusterContext
    from rota.client.status import JobStatus

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
CLOSED = "not open: use it as 'async with rota.connect_async() as cluster'"


class AsyncOptions:
    """A cluster with options for the calls that follow; ``cluster.options()`` makes one."""

    def __init__(self, cluster: AsyncCluster, given: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._given = dict(given)

    def options(self, **options: Unpack[JobOptions]) -> AsyncOptions:
        """The same with more options; what is said last counts."""
        return AsyncOptions(self._cluster, asking.merged(self._given, options))

    async def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncJob[T]:
        """Run ``function(*args, **kwargs)`` as a job with these options."""
        return await self._cluster.submit_call(function, args, kwargs, self._given)

    async def map(
        self,
        function: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        max_concurrent: int = 0,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[AsyncJob[T]]:
        """One job per item, or per set of items of several iterables."""
        given: Any = {**self._given, "max_concurrent": max_concurrent, "kwargs": kwargs}
        return await self._cluster.map(function, *iterables, **given)

    async def plan(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """What would become of such a job now; nothing is submitted."""
        return await self._cluster.plan_call(function, args, kwargs, self._given)


class AsyncCluster(AsyncVerbs):
    """A connection for ``async with``; ``rota.connect_async`` and ``rota.local_async`` make one."""

    def __init__(self, open_it: Callable[[], ClusterContext]) -> None:
        self._open_it = open_it
        self._cluster: ClusterContext | None = None
        self._line: AsyncLine | None = None
        self._watch: EndWatch | None = None

    @property
    def plain(self) -> ClusterContext:
        """The same cluster for code that blocks, such as executors and pools in threads."""
        if self._cluster is None:
            raise RuntimeError(CLOSED)
        return self._cluster

    @property
    def line(self) -> AsyncLine:
        """The connection to the server."""
        if self._line is None:
            raise RuntimeError(CLOSED)
        return self._line

    @property
    def home(self) -> str:
        """What tells the jobs of this cluster from those of another one; it never changes."""
        return self.plain.home

    @property
    def watch(self) -> EndWatch:
        """The open line for ends."""
        if self._watch is None:
            raise RuntimeError(CLOSED)
        return self._watch

    @property
    def unfinished(self) -> list[AsyncJob[Any]]:
        """The jobs of this connection that are not known to have ended."""
        return self.watch.pending

    async def __aenter__(self) -> AsyncCluster:
        # Starts a whole Rota, where it is one of our own.
        self._cluster = await asyncio.to_thread(self._open_it)
        self._line = AsyncLine(self._cluster.client)
        self._watch = EndWatch(self._line)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        unfinished = bool(self.unfinished)
        await self.watch.close()
        await self.line.close()
        await asyncio.to_thread(self.plain.close, keep_calls=unfinished)

    def options(self, **options: Unpack[JobOptions]) -> AsyncOptions:
        """This cluster with options for the calls that follow: ``options(gpus=1, time="2h")``."""
        return AsyncOptions(self, asking.merged({}, options))

    @overload
    async def submit(
        self, function: Callable[..., T], /, *args: Any, name: str, **options: Any
    ) -> AsyncJob[T]: ...

    @overload
    async def submit(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        resources: Mapping[str, Any],
        **options: Any,
    ) -> AsyncJob[T]: ...

    @overload
    async def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncJob[T]: ...

    @overload
    async def submit(
        self, function: Callable[[A], T], first: A | AsyncJob[A], /
    ) -> AsyncJob[T]: ...

    async def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> AsyncJob[T]:
        """Run ``function(*args, **kwargs)`` as a job; see ``ClusterContext.submit``."""
        given, options = asking.sort_keywords(function, args, kwargs)
        return await self.submit_call(function, args, given, options)

    async def submit_call(
        self,
        function: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> AsyncJob[T]:
        """One call as a job, with what is for the function apart from what is for the job."""
        return await self._send(self._order(function, args, kwargs, options))

    def _order(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> RequestOrder:
        function, options = own_options(function, options)
        return self.plain.maker.call(function, args, kwargs, options, self.home)

    async def map(
        self,
        function: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        max_concurrent: int = 0,
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[JobOptions],
    ) -> list[AsyncJob[T]]:
        """One job per item, in one request; see ``ClusterContext.map``."""
        function, given = own_options(function, options)
        rows, maker = zip(*iterables, strict=False), self.plain.maker
        jobs: list[AsyncJob[T]] = []
        for order in maker.family(function, rows, kwargs or {}, given, self.home, max_concurrent):
            opened = await self.watch.listen()
            array = (await self._post(order))["id"]
            made: list[AsyncJob[T]] = [
                AsyncJob(
                    array + 1 + place, self, order.tasks, name=order.request["name"],
                    family=Family(array, order.elements, place), parents=order.parents,
                )
                for place in range(order.elements)
            ]  # fmt: skip
            await self.watch.add(made, opened)
            jobs += made
        return jobs

    async def launch(self, job: Job) -> AsyncJob[None]:
        """Submit a job that a builder made. It has an end and output, but no result."""
        return await self._send(RequestOrder(job.request(), 0, 0, ()))

    async def plan(self, function: Callable[..., Any] | Job, /, *args: Any, **kwargs: Any) -> Plan:
        """What would become of such a call, or of a ``rota.Job``; nothing is submitted."""
        if isinstance(function, Job):
            return Plan(await self.line.call("POST", "/plan", function.request()))
        given, options = asking.sort_keywords(function, args, kwargs)
        return await self.plan_call(function, args, given, options)

    async def plan_call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Plan:
        """As ``submit_call``, without submitting anything."""
        order = self._order(function, args, kwargs, options)
        return Plan(await self.line.call("POST", "/plan", order.request))

    async def job(self, job_id: int | str) -> AsyncJob[Any]:
        """The handle of a job that was submitted before, by this program or another one."""
        opened = await self.watch.listen()
        status = await self.status(job_id)
        job: AsyncJob[Any] = AsyncJob(status.id, self, results_of(status.record), name=status.name)
        await self.watch.add([job], opened - 1)
        return job

    async def _send(self, order: RequestOrder) -> AsyncJob[Any]:
        opened = await self.watch.listen()
        answer, name = await self._post(order), order.request.get("name", "")
        job: AsyncJob[Any] = AsyncJob(
            answer["id"], self, order.tasks, name=name, parents=order.parents
        )
        await self.watch.add([job], opened)
        return job

    async def _post(self, order: RequestOrder) -> dict[str, Any]:
        answer: dict[str, Any] = await self.line.call("POST", "/jobs", order.request, key=new_key())
        return answer

    async def wait(self, job: int | str | AsyncJob[Any], timeout: float | None = None) -> JobStatus:  # noqa: ASYNC109
        """The status once the job has ended; ``TimeoutError`` when it takes longer."""
        number = self._id(job)
        waited = job if isinstance(job, AsyncJob) else await self.job(number)
        await waited.ended(timeout)
        return await self.status(waited)

    async def gather(
        self, *jobs: AsyncJob[T] | Iterable[AsyncJob[T]], return_exceptions: bool = False
    ) -> list[T]:
        """What the jobs returned, in their order; the first that fails raises at once."""
        listed = [one for job in jobs for one in ([job] if isinstance(job, AsyncJob) else job)]
        results = (job.result() for job in listed)
        found: list[Any] = await asyncio.gather(*results, return_exceptions=return_exceptions)
        return found

    async def as_completed(self, jobs: Iterable[AsyncJob[T]]) -> AsyncIterator[AsyncJob[T]]:
        """The jobs in the order in which they end."""
        ended: asyncio.Queue[AsyncJob[T]] = asyncio.Queue()
        listed = list(jobs)
        for job in listed:
            job.when_ended(ended.put_nowait)
        for _ in listed:
            yield await ended.get()


def connect_async(url: str = "", token: str = "", **options: Any) -> AsyncCluster:
    """As ``rota.connect``, for ``async with``."""
    return AsyncCluster(partial(connect, url, token, **options))


def local_async(**options: Any) -> AsyncCluster:
    """As ``rota.local``, for ``async with``."""
    return AsyncCluster(partial(local, **options))
