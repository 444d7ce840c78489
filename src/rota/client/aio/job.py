"""A job to await."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from rota.client import outcomes
from rota.client.errors import ClientError
from rota.client.handle import JobReference, lines_wanted, tasks_that_tell, tell_tail, wrote
from rota.client.outcomes import CallOutcome, ResultGone
from rota.client.status import JobCancelled, failure_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

    from rota.client.aio.verbs import AsyncVerbs
    from rota.client.handle import Family
    from rota.client.status import JobStatus, Why

T = TypeVar("T")


class AsyncJob(JobReference, Generic[T]):
    """A job to await: ``await job`` gives what its function returned, or raises what it raised.

    If the task that awaits it is cancelled, the job goes on.
    """

    def __init__(
        self,
        job_id: int,
        desk: AsyncVerbs,
        tasks: int = 1,
        *,
        name: str = "",
        family: Family | None = None,
        parents: tuple[JobReference, ...] = (),
    ) -> None:
        super().__init__(job_id, desk.home, tasks, name, family)
        self._desk = desk
        self._parents = parents
        self._told = False
        self._end: asyncio.Future[CallOutcome] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    async def result(self, timeout: float | None = None) -> T:  # noqa: ASYNC109
        """As ``await job``, with ``TimeoutError`` when it takes longer. The job goes on then."""
        error = await self.exception(timeout)
        if error is not None:
            raise error
        value: T = self._end.result().value
        return value

    async def results(self, timeout: float | None = None) -> list[T]:  # noqa: ASYNC109
        """What each task of a gang returned, in their order."""
        await self.result(timeout)
        bodies = [await self._desk.line.left_by(self.id, task) for task in range(self.tasks)]
        return [outcomes.read(body).give() for body in bodies if body is not None]

    async def exception(self, timeout: float | None = None) -> BaseException | None:  # noqa: ASYNC109
        """What the function raised; None if it returned.

        It brings the last lines of standard error, as ``stderr_tail``.
        """
        await self.ended(timeout)
        error = self._end.result().error
        if error is not None and not self._told and wrote(error):
            self._told = True
            with contextlib.suppress(ClientError):
                tell_tail(error, await self.logs("stderr", tail=lines_wanted(error)))
        return error

    async def ended(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Until the job has ended, however."""
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._end)
        except TimeoutError:
            raise TimeoutError(f"job {self.id} has not ended after {timeout:g} s") from None

    def when_ended(self, call: Callable[[AsyncJob[T]], object]) -> None:
        """Call this with the job once it has ended, soon if it has."""
        self._end.add_done_callback(lambda _: call(self))

    def done(self) -> bool:
        """Whether it is known to have ended."""
        return self._end.done()

    def cancelled(self) -> bool:
        """Whether it has ended because somebody cancelled it."""
        return self.done() and isinstance(self._end.result().error, JobCancelled)

    async def status(self) -> JobStatus:
        """The job as it is now."""
        return await self._desk.status(self)

    async def why(self) -> Why:
        """Why it waits and what would start it, or how it ended."""
        return await self._desk.why(self)

    async def cancel(self) -> bool:
        """Ask for its end, also while it runs. False if it has ended already."""
        return not self.done() and await self._desk.cancel(self)

    @overload
    async def logs(
        self, stream: str = ..., *, task: int = ..., tail: int | None = ...,
        follow: Literal[False] = ...,
    ) -> str: ...  # fmt: skip

    @overload
    async def logs(
        self, stream: str = ..., *, task: int = ..., tail: int | None = ..., follow: Literal[True]
    ) -> AsyncIterator[str]: ...

    async def logs(
        self, stream: str = "stdout", *, task: int = 0, tail: int | None = None,
        follow: bool = False,
    ) -> str | AsyncIterator[str]:  # fmt: skip
        """All that it has written so far; with ``follow`` pieces as they come, until it ends."""
        pieces = self._desk.log_pieces(self, stream, task, tail, follow=follow)
        return pieces if follow else "".join([piece async for piece in pieces])

    async def stderr(self, *, task: int = 0, tail: int | None = None) -> str:
        """What it has written to standard error so far: ``logs("stderr")``."""
        return await self.logs("stderr", task=task, tail=tail)

    async def progress(self, task: int = 0) -> dict[str, Any] | None:
        """What it last said with ``rota.context().progress()``; None before it said anything."""
        return await self._desk.progress(self, task)

    async def settle(self, state: str) -> None:
        """The job has ended: have its result or its exception. Called by the connection."""
        self.ended_as = state
        try:
            self.become(await self._outcome(state))
        except Exception as error:
            self.become(CallOutcome(None, error))
        # A chain of jobs shall not keep all its handles alive.
        self._parents = ()

    def become(self, outcome: CallOutcome) -> None:
        """Have an end, unless there is one."""
        if not self._end.done():
            self._end.set_result(outcome)

    async def _outcome(self, state: str) -> CallOutcome:
        if state == "completed" and not self.tasks:
            return CallOutcome(None, None)
        for task in range(tasks_that_tell(state, self.tasks)):
            body = await self._desk.line.left_by(self.id, task)
            found = None if body is None else outcomes.read(body)
            if found is not None and (found.error is not None or state == "completed"):
                return found
        if state == "completed":
            raise ResultGone(self.id)
        raise failure_of(await self.status()) from self._broken_parent()

    def _broken_parent(self) -> BaseException | None:
        """What came of the first job whose result this one would have needed, and has none."""
        ended = (job for job in self._parents if isinstance(job, AsyncJob) and job.done())
        return next((error for job in ended if (error := job._end.result().error)), None)
