"""Long lists of one user are made one after the other: each of them is in memory as a whole.

A command asks for its turn once its list grows long. It is refused where the user has many answers
that were not read yet. The turn is given back when the text is made.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rota.api.gate import FREE
from rota.api.turns import UserTurns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from rota.api.context import Context
    from rota.core.facts.tenant import Actor


class ListTurn:
    """The turn of one call; taken once, however often it is asked for on the way."""

    def __init__(self, context: Context, actor: Actor) -> None:
        self._room: asyncio.Semaphore = _ROOMS.of(actor.user)
        self._unread, self._actor = context.unread, actor
        self._taken = False

    async def take(self) -> None:
        if self._taken:
            return
        await self._room.acquire()
        self._taken = True
        if self._actor.access not in FREE:
            self._unread.refuse_more(self._actor.user)

    def give_back(self) -> None:
        if self._taken:
            self._taken = False
            self._room.release()


_ROOMS = UserTurns(1)
#: That of the call at hand; None: nobody waits for it.
_TURN: ContextVar[ListTurn | None] = ContextVar("rota.list_turn", default=None)


@asynccontextmanager
async def lists_of(context: Context, actor: Actor) -> AsyncIterator[None]:
    """One call: what it has taken is given back at its end."""
    turn = ListTurn(context, actor)
    before = _TURN.set(turn)
    try:
        yield
    finally:
        _TURN.reset(before)
        turn.give_back()


async def long_list() -> None:
    """The list that is being made is a long one."""
    if turn := _TURN.get():
        await turn.take()


def made() -> None:
    """It is a text now; the next one of the same call begins anew."""
    if turn := _TURN.get():
        turn.give_back()
