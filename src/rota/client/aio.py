"""The same API for programs that run an event loop.

async with rota.connect_async() as cluster:
    job = await cluster.submit(train, 0.1, resources={"cpu": 2})
    print(await job)

The requests are made in threads, and one thread for all jobs hears of their ends; nothing here
blocks the loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from rota.client.cluster import connect
from rota.client.local import local

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterable
    from types import TracebackType

    from rota.client.builder import Job
    from rota.client.cluster import ClusterContext
    from rota.client.handle import JobHandle
    from rota.client.status import JobStatus


class AsyncJob:
    """A job to await: ``await job`` gives what its function returned, or raises what it raised."""

    def __init__(self, handle: JobHandle) -> None:
        self.handle = handle
        self.id = int(handle)

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401, ASYNC109
        """As ``await job``, with ``TimeoutError`` when it takes longer. The job goes on then."""
        await self.ended(timeout)
        return self.handle.result()

    async def results(self) -> list[Any]:
        """What each task of a gang returned, in their order."""
        await self.ended()
        return await asyncio.to_thread(self.handle.results)

    async def exception(self) -> BaseException | None:
        """What the function raised; None if it returned."""
        await self.ended()
        return self.handle.exception()

    async def ended(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Until the job has ended, however."""
        loop = asyncio.get_running_loop()
        bell = asyncio.Event()
        self.handle.add_done_callback(partial(_ring, loop, bell))
        try:
            async with asyncio.timeout(timeout):
                await bell.wait()
        except TimeoutError:
            raise TimeoutError(f"job {self.id} has not ended after {timeout:g} s") from None

    def done(self) -> bool:
        return self.handle.done()

    async def status(self) -> JobStatus:
        return await asyncio.to_thread(self.handle.status)

    async def cancel(self) -> bool:
        """Ask for its end, also while it runs. False if it has ended already."""
        return await asyncio.to_thread(self.handle.cancel)

    async def logs(self, stream: str = "stdout", *, task: int = 0) -> str:
        return await asyncio.to_thread(self.handle.logs, stream, task=task)

    async def progress(self, task: int = 0) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.handle.progress, task)

    def __repr__(self) -> str:
        return f"<job {self.id}>"


def _ring(loop: asyncio.AbstractEventLoop, bell: asyncio.Event, _: object) -> None:
    """From the thread that hears of ends; a loop that is closed has nobody who waits."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(bell.set)


class AsyncCluster:
    """A connection for ``async with``; ``rota.connect_async`` and ``rota.local_async`` make one."""

    def __init__(self, open_it: Callable[[], ClusterContext]) -> None:
        self._open_it = open_it
        self._cluster: ClusterContext | None = None

    @property
    def plain(self) -> ClusterContext:
        """The connection below, for what has no twin here."""
        if self._cluster is None:
            raise RuntimeError("not open: use it as 'async with rota.connect_async() as cluster'")
        return self._cluster

    async def __aenter__(self) -> AsyncCluster:
        self._cluster = await asyncio.to_thread(self._open_it)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        await asyncio.to_thread(self.plain.close)

    async def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> AsyncJob:
        """As ``ClusterContext.submit``."""
        return AsyncJob(await asyncio.to_thread(self.plain.submit, function, *args, **options))

    async def map(
        self, function: Callable[..., Any], items: Iterable[Any], **options: Any
    ) -> list[AsyncJob]:
        """As ``ClusterContext.map``."""
        handles = await asyncio.to_thread(self.plain.map, function, items, **options)
        return [AsyncJob(handle) for handle in handles]

    async def launch(self, job: Job) -> AsyncJob:
        return AsyncJob(await asyncio.to_thread(self.plain.launch, job))

    async def job(self, job_id: int) -> AsyncJob:
        """The handle of a job that was submitted before."""
        return AsyncJob(await asyncio.to_thread(self.plain.job, job_id))

    async def as_completed(self, jobs: Iterable[AsyncJob]) -> AsyncIterator[AsyncJob]:
        """The jobs in the order in which they end."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Queue[AsyncJob] = asyncio.Queue()
        waiting = list(jobs)
        for job in waiting:
            job.handle.add_done_callback(partial(_put, loop, ended, job))
        for _ in waiting:
            yield await ended.get()

    async def wait(self, job: int | AsyncJob, timeout: float | None = None) -> JobStatus:  # noqa: ASYNC109
        """The status once the job has ended; ``TimeoutError`` when it takes longer."""
        return await asyncio.to_thread(self.plain.wait, _id(job), timeout)

    async def status(self, job: int | AsyncJob) -> JobStatus:
        return await asyncio.to_thread(self.plain.status, _id(job))

    async def cancel(self, job: int | AsyncJob) -> bool:
        return await asyncio.to_thread(self.plain.cancel, _id(job))

    async def logs(self, job: int | AsyncJob, stream: str = "stdout", *, task: int = 0) -> str:
        return await asyncio.to_thread(self.plain.logs, _id(job), stream, task=task)


def _put(
    loop: asyncio.AbstractEventLoop, ended: asyncio.Queue[AsyncJob], job: AsyncJob, _: object
) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(ended.put_nowait, job)


def _id(job: int | AsyncJob) -> int:
    return job.id if isinstance(job, AsyncJob) else int(job)


def connect_async(url: str = "", token: str = "", **options: Any) -> AsyncCluster:
    """As ``rota.connect``, for ``async with``."""
    return AsyncCluster(partial(connect, url, token, **options))


def local_async(**options: Any) -> AsyncCluster:
    """As ``rota.local``, for ``async with``."""
    return AsyncCluster(partial(local, **options))
