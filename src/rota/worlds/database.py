"""Where the controllers of a world keep their state: a disk of their own, or a server.

A server is what PostgreSQL is to Rota: one lock for all, which belongs to a connection and goes
with it, and a number of the reign that each write is held against. A connection may be dropped
without a word, answers may be lost, and the server may be out of a controller's reach.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from rota.core.facts.errors import Unavailable
from rota.store.errors import NotLeading, OutcomeUnknown
from rota.store.memory import MemoryStore, ProcessDied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from rota.core.changes.events import Recorded
    from rota.store.api import Batch, Snapshot
    from rota.store.memory import MemoryDisk

T = TypeVar("T")

#: How long it takes a controller to see that nobody answers, and that another one has the lock.
SILENT_S, LOCKED_S = 4.0, 2.0
#: The way of a question to the server; now and then it is long.
WAYS_S = (0.0005, 0.0005, 0.0005, 0.0005, 0.3)


class Database:
    """The disk with its lock. ``local``: it is the controller's own."""

    def __init__(
        self,
        disk: MemoryDisk,
        plan_fault: Callable[[], None],
        written: Callable[[Iterable[Recorded]], None],
        *,
        local: bool,
    ) -> None:
        """``plan_fault`` is asked before each write, ``written`` hears of what is on disk."""
        self.disk = disk
        self.plan_fault = plan_fault
        self.written = written
        self.local = local
        #: Who has the lock, and how many reigns there were.
        self.holder: WorldConnection | None = None
        self.epoch = 0


class WorldConnection(MemoryStore):
    """What one controller has of the database."""

    def __init__(self, database: Database) -> None:
        """Takes the lock, or raises ``NotLeading``."""
        super().__init__(database.disk)
        self.local = database.local
        self._database = database
        self._epoch = 0
        #: Nothing of the server reaches this controller.
        self.cut = False
        #: The answer to the next commit is lost.
        self.loses_answer = False
        self.lead()

    @property
    def leads(self) -> bool:
        return self._database.holder is self and self._epoch == self._database.epoch

    @property
    def is_locked(self) -> bool:
        return self._database.holder not in (None, self)

    @property
    def next_seq(self) -> int:
        """The number of the next event, by what is on disk."""
        return self.disk.tables.next_seq

    def lead(self) -> None:
        self._lock()
        self._database.epoch += 1
        self._epoch = self._database.epoch
        self.disk.recover()
        self._database.written(self.all_events())

    def prove(self) -> None:
        self._lock()
        if self._epoch != self._database.epoch:
            raise NotLeading("another controller has led meanwhile: nothing was changed")

    def _lock(self) -> None:
        """Have the lock, or get it again: the connection was dropped and nobody else came."""
        self._reach()
        if self.is_locked:
            raise NotLeading("another controller leads")
        self._database.holder = self

    def drop(self) -> None:
        """The server ends the connection: the lock is free. Its controller hears nothing."""
        if self._database.holder is self:
            self._database.holder = None

    def _reach(self) -> None:
        if self.cut:
            raise Unavailable("cannot use the database: nobody answers")

    def commit(self, batch: Batch) -> None:
        self.prove()
        self._database.plan_fault()
        super().commit(batch)
        self._database.written(batch.events)
        if self.loses_answer:
            self.loses_answer = False
            raise OutcomeUnknown("the database went away during a commit")

    def load(self, *, ended: bool = True) -> Snapshot:
        self._reach()
        return super().load(ended=ended)

    def set_bookmark(self, name: str, place: str) -> None:
        self.prove()
        self._database.plan_fault()
        super().set_bookmark(name, place)


class SlowWriter:
    """Commits take their time, there and back: whatever happens meanwhile has happened."""

    def __init__(
        self, store: WorldConnection, chance: Random, died: Callable[[ProcessDied], None]
    ) -> None:
        self._store = store
        self._chance = chance
        self._died = died

    async def commit(self, batch: Batch) -> None:
        await self.run(lambda: self._store.commit(batch))

    async def run(self, work: Callable[[], T]) -> T:
        await self._way()
        if self._store.cut:
            await asyncio.sleep(SILENT_S)
        elif self._store.is_locked:
            await asyncio.sleep(LOCKED_S)
        try:
            result = work()
        except ProcessDied as death:
            self._died(death)
            await asyncio.Event().wait()  # For ever: nobody is there any more.
            raise
        await self._way()
        return result

    async def _way(self) -> None:
        if not self._store.local:
            await asyncio.sleep(self._chance.choice(WAYS_S))

    async def close(self) -> None:
        """Nothing to wait for."""
