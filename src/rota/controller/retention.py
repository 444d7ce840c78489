"""Forgetting on purpose: finished jobs older than the site wants to keep them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.store.api import Store

DAY_S = 86_400.0
#: How often somebody looks whether there is something to forget.
EVERY_S = 3600.0


async def forget_old_jobs(host: Host, days: int) -> None:
    """For ever: drop what ended more than so many days ago, a little at a time between ticks."""
    while True:
        await prune_once(host, host.clock.now_s() - days * DAY_S)
        await asyncio.sleep(EVERY_S)


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
