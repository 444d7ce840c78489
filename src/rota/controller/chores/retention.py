"""Forgetting on purpose: finished jobs and working folders older than the site wants to keep."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from rota.controller.agents.bundles import in_use
from rota.core.facts.errors import RotaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.controller.agents.bundles import BundleShelf
    from rota.controller.loop import Host
    from rota.store.api import Store

log = logging.getLogger("rota.controller")

DAY_S = 86_400.0
#: How often somebody looks whether there is something to forget.
EVERY_S = 3600.0
#: Nobody waits for old rows to become smaller.
PACK_PAUSE_S = 0.05


async def hourly(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """For ever; a database that is away puts it off until the next time."""
    while True:
        try:
            await work()
        except RotaError as error:
            log.warning("%s is put off for an hour: %s", what, error)
        await asyncio.sleep(EVERY_S)


async def forget_old_jobs(host: Host, days: int) -> None:
    """Drop what ended more than so many days ago, a little at a time between ticks."""
    await prune_once(host, host.clock.now_s() - days * DAY_S)


async def forget_old_audit(host: Host, days: int) -> None:
    """A page at a time, so that commits come in between."""
    before_s = host.clock.now_s() - days * DAY_S
    while await host.write(partial(_prune_audit, before_s)):
        pass


def _prune_audit(before_s: float, store: Store) -> int:
    return store.prune_audit(before_s)


async def seal_outcomes(host: Host) -> None:
    """What ended long ago is read as a whole at the next start."""
    while await host.write(_seal):
        pass


def _seal(store: Store) -> int:
    return store.seal_outcomes()


async def pack_old_rows(host: Host) -> None:
    """A few at a time between ticks."""
    before_s = host.clock.now_s() - EVERY_S
    while await host.write(partial(_pack, before_s)):  # noqa: ASYNC110 - pauses between pieces
        await asyncio.sleep(PACK_PAUSE_S)


def _pack(before_s: float, store: Store) -> int:
    return store.pack(before_s)


async def prune_once(host: Host, before_s: float) -> int:
    """Drop all that ended before a time; parents that somebody waits for stay. How many went."""
    total = 0
    while True:
        parents = frozenset(host.cluster.families.children)
        went = await host.write(partial(_prune, before_s, parents))
        total += went
        if not went:
            return total


def _prune(before_s: float, keep: frozenset[int], store: Store) -> int:
    return store.prune(before_s, keep=keep)


async def drop_unused_bundles(host: Host, shelf: BundleShelf, days: int) -> None:
    before_s = time.time() - days * DAY_S
    await asyncio.to_thread(shelf.drop_unused, in_use(host.cluster), before_s)
