"""An event loop on virtual time: what is written for asyncio plays in a world, step by step.

It has no files, no threads and no clock of its own. What would be done in a thread is done at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVarTuple

from rota.store.memory import ProcessDied

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from rota.worlds.clock import OwnTime

Ts = TypeVarTuple("Ts")


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one process; ``end`` is its death, and nothing of it happens after that."""

    def __init__(
        self,
        time: OwnTime,
        failed: Callable[[BaseException], None],
        died: Callable[[ProcessDied], None],
    ) -> None:
        """``failed`` hears of errors that nobody awaits, ``died`` of its death in a thread."""
        super().__init__()
        self._time = time
        self._failed, self._died = failed, died
        self.set_exception_handler(self._hear)
        self._turns: deque[asyncio.Handle] = deque()
        #: Nobody else may have a reference to them.
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        self._tasks.append(self.create_task(work))
        return self._tasks[-1]

    def end(self) -> None:
        self._turns.clear()
        for task in self._tasks:
            work = task.get_coro()
            if (
                inspect.iscoroutine(work)
                and inspect.getcoroutinestate(work) == inspect.CORO_CREATED
            ):
                work.close()
        self.close()

    def time(self) -> float:
        return self._time.now_s

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._make_ready(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._time.after(max(0.0, when - self.time()), lambda: self._make_ready(handle))
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except ProcessDied as death:
            self._died(death)  # Nobody is there any more who could hear of the answer.
        except Exception as error:
            done.set_exception(error)
        return done

    def _hear(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.is_closed():
            self._failed(context.get("exception") or RuntimeError(context["message"]))

    def _make_ready(self, handle: asyncio.Handle) -> None:
        if self.is_closed() or handle.cancelled():
            return
        if not self._turns:
            self._time.after(0.0, self._turn)
        self._turns.append(handle)

    def _turn(self) -> None:
        """Whatever is ready, and what becomes ready by it."""
        asyncio._set_running_loop(self)
        try:
            while self._turns:
                handle = self._turns[0]
                if not handle.cancelled():
                    handle._run()
                if self._turns:
                    self._turns.popleft()
        finally:
            asyncio._set_running_loop(None)
