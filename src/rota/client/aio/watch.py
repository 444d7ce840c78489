"""One open line for the ends of all jobs, read by a task; see ``rota.client.watcher``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rota.client.ends import FIRST_S, KINDS, PATIENCE_S, RETRY_S, SILENCE_S, Ends, Frames
from rota.client.errors import Disconnected, Refused, Unreachable
from rota.client.outcomes import CallOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.client.aio.job import AsyncJob
    from rota.client.aio.line import AsyncLine


class EndWatch:
    """Settles the jobs that it was given."""

    def __init__(self, line: AsyncLine) -> None:
        self._line = line
        self._ends: Ends[AsyncJob[Any]] = Ends()
        self._task: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()
        #: How often the line was opened; see ``add``.
        self._opened = 0
        self._first = asyncio.Event()

    @property
    def pending(self) -> list[AsyncJob[Any]]:
        """The jobs that are not known to have ended."""
        return self._ends.waiting

    async def listen(self) -> int:
        """Have a line, or have tried to, before a submit. The answer is for ``add``."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="rota-watch")
        try:
            async with asyncio.timeout(FIRST_S):
                await self._first.wait()
        except TimeoutError:
            return self._opened
        return self._opened

    async def add(self, jobs: Iterable[AsyncJob[Any]], opened: int) -> None:
        """Settle these when they have ended; ask, if the line was opened anew since ``opened``."""
        for job, state in self._ends.add(jobs):
            self._settle(job, state)
        if opened != self._opened:
            await self._ask_for_all()

    async def close(self) -> None:
        """Let go: who still waits is told."""
        for task in [*self._settling, *([self._task] if self._task else [])]:
            task.cancel()
            await asyncio.wait([task])
        self._give_up("the connection was closed before job {} ended")

    def _give_up(self, words: str) -> None:
        for job in self._ends.let_go():
            job.become(CallOutcome(None, Disconnected(words.format(job.id))))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        away_since_s: float | None = None
        while True:
            try:
                frames = Frames()
                async with self._line.stream("/events", {"kinds": KINDS}, SILENCE_S) as pieces:
                    async for piece in pieces:
                        away_since_s = None
                        for frame in frames.feed(piece):
                            await self._heard(frame)
            except (Unreachable, Refused) as error:
                self._first.set()
                away_since_s = away_since_s or loop.time()
                if loop.time() - away_since_s > PATIENCE_S:
                    self._give_up(f"{error} (while waiting for job {{}})")
                    away_since_s = None
            await asyncio.sleep(RETRY_S)

    async def _heard(self, event: dict[str, Any] | None) -> None:
        if event is None:
            self._opened += 1
            self._first.set()
        if event is None or event["kind"] != "job-settled":
            await self._ask_for_all()
        else:
            self._ended(int(event["job"]), event["detail"]["outcome"]["state"])

    async def _ask_for_all(self) -> None:
        """Which of the jobs that we wait for have ended while we were not listening."""
        for ids in list(self._ends.questions()):
            asked = {"ids": ids, "timeout_s": 0}
            answer = await self._line.call("GET", "/jobs/wait", parameters=asked)
            for done in answer["done"]:
                self._ended(int(done["id"]), done["state"])

    def _ended(self, job_id: int, state: str) -> None:
        for job in self._ends.ended(job_id, state):
            self._settle(job, state)

    def _settle(self, job: AsyncJob[Any], state: str) -> None:
        """Reads the result; meanwhile others end."""
        task = asyncio.create_task(job.settle(state))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
