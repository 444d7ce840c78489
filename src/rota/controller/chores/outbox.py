"""The courier of a live host: where it begins, what wakes it and where its bookmark is kept."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rota.notify.collect import NoticeCollector
from rota.notify.courier import BOOKMARK, Bookmark, Courier

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.notify.receiver import Receiver
    from rota.settings.notify import Notify
    from rota.store.api import Store


class Outbox:
    """Tells others what was committed. Made by ``open_outbox`` before the first tick."""

    def __init__(self, host: Host, courier: Courier) -> None:
        self._host = host
        self._courier = courier

    def status(self) -> tuple[int, list[Receiver]]:
        """How many events were not looked at yet, and how each receiver is doing."""
        return self._courier.status()

    async def close(self) -> None:
        """After the last tick: end, and note how far receivers were told."""
        self._host.watch.listeners.remove(self._courier.publish)
        place = await self._courier.close()
        await self._host.write(partial(_keep, place))


def open_outbox(host: Host, settings: Notify) -> Outbox:
    """Begin where the last life of this store ended; a store that never told begins now.

    The beginning is on disk before anything happens, so that a crash right after the first event
    finds it. Raises ``Rejected`` when a notifier cannot be loaded.
    """
    loop = asyncio.get_running_loop()
    store = host.store
    collector = NoticeCollector(store, settings, host.cluster.ids.cluster_id)
    newest = host.newest_seq
    place = store.bookmark(BOOKMARK)
    if not place:
        place = msgspec.json.encode(Bookmark(newest)).decode()
        store.set_bookmark(BOOKMARK, place)

    async def save(place: str) -> None:
        kept = asyncio.run_coroutine_threadsafe(host.write(partial(_keep, place)), loop)
        await asyncio.wrap_future(kept)

    courier = Courier(collector, store, place, save)
    items: list[Job | Array] = [*host.cluster.jobs.values(), *host.cluster.arrays.values()]
    courier.start(newest, [item.id for item in items if item.spec.notify])
    host.watch.listeners.append(courier.publish)
    return Outbox(host, courier)


def _keep(place: str, store: Store) -> None:
    store.set_bookmark(BOOKMARK, place)
