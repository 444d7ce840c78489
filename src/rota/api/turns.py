"""Whose turn it is to edit a record, or to be given a long list.

An edit looks at a record and then asks for the record as it shall be. Edits of one record come one
after the other, by whichever door they come in: nothing changes between the look and the edit.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: What the records of these kinds are part of: an edit of theirs is one of that, too.
_PARTS = {"vdc": ("policy", "")}


class EditTurns:
    """One lock for each record that is being edited: by its kind and its name."""

    def __init__(self) -> None:
        self._locks = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    @asynccontextmanager
    async def of(self, kind: str, *names: object) -> AsyncIterator[None]:
        """One's turn at these records; asked for in one order, lest two wait for each other."""
        keys = {_PARTS.get(kind, (kind, str(name))) for name in names}
        async with AsyncExitStack() as held:
            for key in sorted(keys):
                await held.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            yield


class UserTurns:
    """The places of one user at the same time; what comes beyond them waits for one."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._rooms = WeakValueDictionary[tuple[int, str], asyncio.Semaphore]()

    def of(self, user: str) -> asyncio.Semaphore:
        key = (id(asyncio.get_running_loop()), user)
        return self._rooms.setdefault(key, asyncio.Semaphore(self._at_once))
