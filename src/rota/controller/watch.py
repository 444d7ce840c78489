"""Who waits for news: subscribers to the event stream, callers that wait for jobs to end, and
callers that have to leave when the token goes that they came in with."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rota.core.changes import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from rota.core.changes.events import Recorded

log = logging.getLogger("rota.controller")

#: A subscriber that falls this far behind is dropped; it reads the log from where it was.
BACKLOG_MAX = 10_000


class Subscription:
    """Committed events from now on. ``lost`` is set when the reader was too slow."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Recorded] = asyncio.Queue(BACKLOG_MAX)
        self.lost = False


def _note_nodes(records: Sequence[Recorded]) -> None:
    """Nodes that are gone are news for the log, too: it is read when nothing else answers."""
    for record in records:
        event = record.event
        if isinstance(event, ev.NodesVanished):
            log.warning("%s", ": ".join([event.note, ", ".join(event.nodes)]).removesuffix(": "))
        elif isinstance(event, ev.NodeLost):
            log.warning("node %s is %s", event.node, event.note)


class NewsWatch:
    """Publishes what was committed."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        #: By the id of a job, or of a token.
        self._waiters: dict[int | str, set[asyncio.Event]] = {}
        #: Called with everything that was committed, in the loop: they must be quick.
        self.listeners: list[Callable[[Sequence[Recorded]], None]] = [_note_nodes]

    def subscribe(self) -> Subscription:
        subscription = Subscription()
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def publish(self, records: Sequence[Recorded]) -> None:
        if self._waiters:
            self._wake_waiters(records)
        for listener in self.listeners:
            listener(records)
        for subscription in list(self._subscriptions):
            try:
                for record in records:
                    subscription.queue.put_nowait(record)
            except asyncio.QueueFull:
                subscription.lost = True
                self._subscriptions.discard(subscription)

    def _wake_waiters(self, records: Sequence[Recorded]) -> None:
        for record in records:
            event = record.event
            if isinstance(event, ev.JobSettled):
                self._wake(event.job)
            elif isinstance(event, ev.TokenRevoked):
                self._wake(event.token)
            elif isinstance(event, ev.ArrayCancelled):
                for item in list(self._waiters):
                    self._wake(item)

    def _wake(self, item: int | str) -> None:
        for waiter in self._waiters.get(item, ()):
            waiter.set()

    def settled(self, ids: Iterable[int | str], timeout_s: float) -> Coroutine[None, None, None]:
        """To await: ends when one of the jobs was settled or of the tokens revoked, or in time.

        It counts from this call on, not from the first await: what is settled in between is not
        missed. It may end for nothing.
        """
        ids = list(ids)
        bell = asyncio.Event()
        for item in ids:
            self._waiters.setdefault(item, set()).add(bell)
        return self._await_bell(bell, ids, timeout_s)

    async def _await_bell(
        self, bell: asyncio.Event, ids: list[int | str], timeout_s: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await bell.wait()
        except TimeoutError:
            return
        finally:
            for item in ids:
                self._waiters[item].discard(bell)
                if not self._waiters[item]:
                    del self._waiters[item]
