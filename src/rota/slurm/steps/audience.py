"""The watchers of a step that another command runs: what its tasks print, and how they end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.slurm.call import wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.slurm.steps.step_plan import StepPlan

#: A watcher with this number of pieces still to read is let go: the step waits for nobody.
PIECES_MAX = 4096


class Printed(NamedTuple):
    """Something that a task printed to stream 1 or 2."""

    rank: int
    stream: int
    text: bytes


class TaskEnd(NamedTuple):
    """How one task ended, as a wait status."""

    rank: int
    status: int


class StepWatcher:
    """What one command has still to be told; None: there will be no more."""

    def __init__(self) -> None:
        self.news: asyncio.Queue[Printed | TaskEnd | None] = asyncio.Queue()
        self.late = False


class Audience:
    """All watchers of one step. ``give`` sends frames to all starters of its tasks."""

    def __init__(self, plan: StepPlan, give: Callable[[bytes, bytes], Awaitable[None]]) -> None:
        self.plan = plan
        self._give = give
        self._watchers: list[StepWatcher] = []
        self._is_over = False

    async def join(self) -> StepWatcher:
        watcher = StepWatcher()
        self._watchers.append(watcher)
        if len(self._watchers) == 1:
            await self._tap(on=True)
        return watcher

    async def leave(self, watcher: StepWatcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        if not self._watchers and not self._is_over:
            await self._tap(on=False)

    async def _tap(self, *, on: bool) -> None:
        order = {"op": "tap", "step": self.plan.step, "on": on}
        await self._give(wire.ORDER, msgspec.json.encode(order))

    async def typed(self, part: bytes, rank: int | None) -> None:
        """Bytes for the standard input of all tasks, or of one."""
        mark = self.plan.step.to_bytes(4, "big")
        if rank is None:
            await self._give(wire.INPUT, mark + part)
        else:
            await self._give(wire.INPUT_OF_ONE, mark + rank.to_bytes(4, "big") + part)

    def printed(self, body: bytes) -> None:
        """The step, the rank, the stream, the text: as a process of the job's user sent it."""
        if self._watchers and body[8:9] in (b"\1", b"\2"):
            self._tell(Printed(int.from_bytes(body[4:8], "big"), body[8], body[9:]))

    def ended(self, rank: int, status: int) -> None:
        self._tell(TaskEnd(rank, status))

    def over(self) -> None:
        self._is_over = True
        self._tell(None)
        self._watchers.clear()

    def _tell(self, news: Printed | TaskEnd | None) -> None:
        for watcher in list(self._watchers):
            if watcher.news.qsize() >= PIECES_MAX:
                watcher.late = True
                watcher.news.put_nowait(None)
                self._watchers.remove(watcher)
            else:
                watcher.news.put_nowait(news)
