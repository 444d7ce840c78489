"""Copies of what attempts printed, where the engine drops it with them: they go as old jobs do."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.believed_time import DAY_S, believed_s

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from rota.backends.journal import EngineJournal

LOOK_S = 3600.0
#: In the journal: how late it was at the last look.
LOOKED = "copies-looked"


async def hold_down(folder: Path, days: int, journal: EngineJournal) -> None:
    """Hour by hour; with no ``days`` they stay for ever."""
    while days:
        await look(folder, days, journal, time.time())
        await asyncio.sleep(LOOK_S)


async def look(folder: Path, days: int, journal: EngineJournal, now_s: float) -> None:
    """Drop what is older, but nothing of attempts whose end is not known for good."""
    known = journal.fact(LOOKED)
    found_s = believed_s(now_s, float(known) if known else None)
    journal.note(LOOKED, repr(found_s))
    await asyncio.to_thread(_drop, folder, found_s - days * DAY_S, frozenset(journal.entries))


def _drop(folder: Path, before_s: float, alive: Collection[str]) -> None:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # What cannot be dropped now is looked at again.
                if entry.stat().st_ctime < before_s and entry.name.rpartition(".")[0] not in alive:
                    os.unlink(entry.path)
