"""Forgetting on purpose: finished jobs and working folders older than the site wants to keep."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rota.controller.agents.bundles import in_use
from rota.controller.chores.trusted_time import trusted_s
from rota.store.archive.writing import write as write_archive
from rota.store.sql import SqlStore

if TYPE_CHECKING:
    from rota.controller.agents.bundles import BundleShelf
    from rota.controller.loop import Host
    from rota.store.api import Store

log = logging.getLogger("rota.controller")

DAY_S = 86_400.0
#: What is younger may be written again soon.
PACKED_S = 3600.0
#: Nobody waits for old rows to become smaller.
PACK_PAUSE_S = 0.05
#: Blobs that one write drops: they may be large.
PAGE = 64


async def forget_old_jobs(host: Host, days: int, archive: str = "") -> None:
    """Drop what ended more than ``days`` days ago, a little at a time between ticks.

    Where there is an archive, jobs are in it before they go: of whole days, so that it gets a file
    in a day and not in an hour.
    """
    before_s = await trusted_s(host, "old jobs") - days * DAY_S
    if archive:
        before_s -= before_s % DAY_S
        await host.read(partial(_archive, archive, before_s))
    await prune_once(host, before_s)
    await drop_unused_blobs(host, before_s)


def _archive(place: str, before_s: float, store: Store) -> None:
    assert isinstance(store, SqlStore)
    folder = Path(place).expanduser()
    written = write_archive(store, folder, before_s)
    if written.jobs:
        log.info("%d finished jobs were added to the archive %s", written.jobs, folder)


async def drop_unused_blobs(host: Host, before_s: float) -> int:
    """Environments, scripts and inputs that no job on record refers to. How many were found."""
    found = await host.read(lambda store: store.unused_blobs(before_s))
    for at in range(0, len(found), PAGE):
        chosen = found[at : at + PAGE]
        await host.write(partial(_drop_blobs, chosen, before_s))
    return len(found)


def _drop_blobs(digests: list[str], before_s: float, store: Store) -> None:
    store.drop_blobs(digests, before_s)


async def forget_old_audit(host: Host, days: int) -> None:
    """A page at a time, so that commits come in between."""
    before_s = await trusted_s(host, "old records of the audit") - days * DAY_S
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
    now_s = host.clock.now_s()
    while await host.write(partial(_pack, now_s)):  # noqa: ASYNC110 - pauses between pieces
        await asyncio.sleep(PACK_PAUSE_S)


def _pack(now_s: float, store: Store) -> int:
    return store.pack(now_s - PACKED_S, now_s=now_s)


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
    before_s = await trusted_s(host, "old bundles") - days * DAY_S
    await asyncio.to_thread(shelf.drop_unused, in_use(host.cluster), before_s)
