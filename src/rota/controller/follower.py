"""A host that takes nothing in: it follows the log that another one writes.

So a head that stands by can be read. Each event is applied to its own Cluster as the one that leads
has applied it; how far it is behind is known by when it last found nothing newer.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from rota.controller.clock import Clock
from rota.controller.loop import Host
from rota.core.changes.apply import apply
from rota.core.facts.errors import Unavailable
from rota.store.writer import InlineWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.commands.commands import Command
    from rota.core.changes.events import Recorded
    from rota.store.api import Batch, Store

log = logging.getLogger("rota.controller")

#: Events that are read at a time.
PAGE = 2000


class SharedClock(Clock):
    """The times on record are those of the head that leads: there is nothing to move."""

    def moved_s(self, store: Store, next_seq: int) -> float:
        return 0.0


class Follower(Host):
    """``snapshot`` shows one moment, ``ahead`` what is committed at each."""

    def __init__(self, snapshot: Store, ahead: Store, clock: Clock | None = None) -> None:
        super().__init__(snapshot, InlineWriter(snapshot), clock=clock or SharedClock())
        self.store = ahead
        self._level_s = time.monotonic()

    @property
    def lag_s(self) -> float:
        """How far it may be behind."""
        return time.monotonic() - self._level_s

    async def catch_up(self) -> None:
        """Apply what was committed by now."""
        while True:
            begun_s = time.monotonic()
            found = await self.read(partial(_events, self.newest_seq))
            self._apply(found)
            if len(found) < PAGE:
                self._level_s = begun_s
                return

    def _apply(self, found: list[Recorded]) -> None:
        for record in found:
            if record.seq != self.newest_seq + 1:
                raise Unavailable(f"event {self.newest_seq + 1} is not on record: read anew")
            apply(self.cluster, record.event, record.at_s)
            self._controller.next_seq = record.seq + 1
        # Nothing is written and nothing rings here.
        self.cluster.take_dirty()
        while self.cluster.agenda.pop_due(self.clock.now_s()) is not None:
            pass

    def let_go(self) -> None:
        """Of its state, at once: frozen as it is, the collector would not find it."""
        del self._controller, self.forecast

    async def ask(self, command: Command) -> Any:  # noqa: ANN401 - as of the host
        raise Unavailable("this head stands by, and takes nothing in")

    async def write(self, work: Callable[[Store], Any]) -> Any:  # noqa: ANN401 - as of the host
        raise Unavailable("this head stands by, and writes nothing")

    async def keep(self, batch: Batch) -> None:
        """Only the head that leads writes the audit; this one has its log."""
        for record in batch.audit:
            log.info("asked of this head: %s", record)


def _events(after: int, store: Store) -> list[Recorded]:
    return store.events(after=after, limit=PAGE)
