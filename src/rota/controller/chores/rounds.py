"""How a chore is done for ever: whatever one round meets, the next one comes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rota.core.facts.errors import RotaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger("rota.controller")

#: How often most chores look whether there is something to do.
EVERY_S = 3600.0
#: How soon a round that was broken off is tried again: a database is seldom away for long.
AGAIN_S = 60.0


async def rounds(
    what: str,
    work: Callable[[], Awaitable[object]],
    every_s: float = EVERY_S,
    again_s: float = AGAIN_S,
) -> None:
    """Until cancelled. A database that is away, or a bug of ours, puts off the round alone."""
    while True:
        pause_s = every_s
        try:
            await work()
        except RotaError as error:
            pause_s = again_s
            log.warning("%s is put off for %g s: %s", what, pause_s, error)
        except Exception as error:
            pause_s = again_s
            log.error("%s broke, and is put off for %g s: %s", what, pause_s, error, exc_info=error)
        await asyncio.sleep(pause_s)


def begin(
    what: str, work: Callable[[], Awaitable[object]], every_s: float = EVERY_S
) -> asyncio.Task[None]:
    """Work that never ends by itself is begun again when it does."""
    return asyncio.create_task(rounds(what, work, every_s, min(every_s, AGAIN_S)), name=what)
