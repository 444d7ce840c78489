"""Whether the caller of a request still listens.

An answer that takes long is worth its work only while somebody waits for it. What changes something
goes on by itself: only a question ends with its caller.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rota.core.facts.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Where a request carries the end of its connection.
GONE = "rota.gone"
#: Done once the connection of the request at hand is lost; None: nobody can tell.
LOST: ContextVar[asyncio.Future[None] | None] = ContextVar("rota.lost", default=None)


def _hung_up() -> Unavailable:
    return Unavailable("the caller has hung up")


def refuse_gone() -> None:
    """For what cannot be broken off: it is not begun for nobody."""
    lost = LOST.get()
    if lost is not None and lost.done():
        raise _hung_up()


@asynccontextmanager
async def while_heard() -> AsyncIterator[None]:
    """What is done within is broken off when the caller hangs up."""
    lost = LOST.get()
    if lost is None:
        yield
        return

    def end(_: object) -> None:
        # It may be over by now.
        with suppress(RuntimeError):
            patience.reschedule(0.0)

    try:
        async with asyncio.timeout(None) as patience:
            lost.add_done_callback(end)
            try:
                yield
            finally:
                lost.remove_done_callback(end)
    except TimeoutError:
        if not patience.expired():
            raise
        raise _hung_up() from None
