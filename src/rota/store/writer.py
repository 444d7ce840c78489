"""How asyncio code commits: at once where that is quick, in a thread where it is not.

A commit in another thread costs two switches between threads, and while the event loop is busy it
waits for the interpreter lock at every statement: 0.3 ms become 10 ms and more. A commit in the
loop's own thread stops the loop for as long as the disk takes. So a small batch on a disk that
syncs fast is committed at once; a large one, or any on a slow disk, in the writer's thread, which
also does the work that can wait. Either way batches are committed in the order of the calls.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rota.core.facts.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.api import Batch, Store

T = TypeVar("T")

log = logging.getLogger(__name__)

#: A disk that syncs slower than this is left to the thread.
SYNC_S_MAX = 0.001
#: A batch that should take longer than this is left to the thread.
INLINE_S_MAX = 0.015
#: What one row of a batch adds to a commit, roughly.
ROW_S = 0.000_015
#: A commit of no more rows than this took mostly the time of its sync.
PROBE_ROWS_MAX = 8
#: On a slow disk one commit in this number is done at once, to see whether it still is slow.
PROBE_EVERY = 32
#: How long nobody must have committed before the store tidies up.
QUIET_S = 0.25
#: After this many rows it tidies up in any case. Commits wait while it does, which
#: takes a few milliseconds; a row comes with up to four pages, which fit into SQLite's log as it
#: was set aside.
BACKLOG_MAX = 800


class Commits(Protocol):
    """What a controller needs of a writer."""

    async def commit(self, batch: Batch) -> None:
        """Returns once the batch is on disk; raises what ``Store.commit`` raises."""

    async def run(self, work: Callable[[], T]) -> T:
        """Do something else where commits are done, such as ``store.prune``."""

    async def close(self) -> None: ...


class InlineWriter:
    """Commits at once, in the caller's thread: for tests that want no thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def commit(self, batch: Batch) -> None:
        self._store.commit(batch)

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    async def close(self) -> None:
        """Nothing to wait for. The store stays open."""


class _Task:
    """Something to do in the thread, and where its result goes."""

    __slots__ = ("future", "loop", "work")

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()


class Writer:
    """Owns the writing side of a store for one event loop. See ``Commits``."""

    def __init__(self, store: Store, *, always_in_thread: bool = False) -> None:
        self._store = store
        # A server that went away would stop the loop for as long as we wait for its return.
        self._always_in_thread = always_in_thread or not store.local
        self._inbox: SimpleQueue[_Task | None] = SimpleQueue()
        #: Tasks that the thread has not finished: what is asked next must queue behind them.
        self._pending = 0
        self._closing = False
        #: How long a sync takes: the last fast one at once, slow ones by and by.
        self._sync_s = SYNC_S_MAX
        self._calls = 0
        self._timer: asyncio.TimerHandle | None = None
        self._calls_at_timer = 0
        self._thread = threading.Thread(target=self._serve, name="rota-writer", daemon=True)
        self._thread.start()

    async def commit(self, batch: Batch) -> None:
        if self._closing:
            raise Unavailable("the store is closing")
        store = self._store
        self._calls += 1
        row_count = len(batch.jobs) + len(batch.events)
        if self._at_once(row_count):
            start = perf_counter()
            store.commit(batch)
            if row_count <= PROBE_ROWS_MAX:
                self._learn(perf_counter() - start)
        else:
            await self._post(lambda: store.commit(batch))
        if store.backlog:
            self._plan_tidying()

    async def run(self, work: Callable[[], T]) -> T:
        if self._closing:
            raise Unavailable("the store is closing")
        result: T = await self._post(work)
        return result

    async def close(self) -> None:
        """Finish what was asked for, then end the thread. The store stays open."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    def _at_once(self, row_count: int) -> bool:
        """Whether to commit in the caller's thread."""
        if self._pending or self._always_in_thread:
            return False
        fast = self._sync_s <= SYNC_S_MAX or self._calls % PROBE_EVERY == 0
        return fast and row_count * ROW_S <= INLINE_S_MAX

    def _learn(self, sync_s: float) -> None:
        if sync_s < self._sync_s:
            self._sync_s = sync_s
        else:
            self._sync_s += (sync_s - self._sync_s) / 8

    def _plan_tidying(self) -> None:
        """At once when much has piled up, otherwise when nobody has committed for a moment."""
        if self._store.backlog >= BACKLOG_MAX:
            if not self._pending:
                self._post(self._tidy)
        elif self._timer is None:
            self._calls_at_timer = self._calls
            self._timer = asyncio.get_running_loop().call_later(QUIET_S, self._tidy_if_quiet)

    def _tidy_if_quiet(self) -> None:
        self._timer = None
        if self._closing or not self._store.backlog:
            return
        if self._calls == self._calls_at_timer and not self._pending:
            self._post(self._tidy)
        else:
            self._plan_tidying()

    def _tidy(self) -> None:
        try:
            self._store.tidy()
        except Exception:
            log.exception("the store could not tidy up")

    def _post(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        task = _Task(work, asyncio.get_running_loop())
        self._pending += 1
        self._inbox.put(task)
        return task.future

    def _serve(self) -> None:
        while (task := self._inbox.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = task.work()
            except BaseException as caught:
                error = caught
            try:
                task.loop.call_soon_threadsafe(self._resolve, task.future, result, error)
            except RuntimeError:
                # The loop was closed while we worked; nobody waits any more.
                log.debug("the result of a commit found no event loop")

    def _resolve(
        self, future: asyncio.Future[Any], result: object, error: BaseException | None
    ) -> None:
        self._pending -= 1
        if future.done():
            return  # The caller gave up waiting, which does not undo a commit.
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
