"""Login names of callers on the local sockets, found without holding up anybody else.

A directory of users (LDAP, a network file system) may be slow or away. So a name is looked up in
a thread before the first byte of a connection is read: only that user's callers wait.
"""

from __future__ import annotations

import asyncio
import pwd
import threading


class Names:
    """The names that were found, by uid. One that has none is looked up again next time."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self._asked: dict[int, asyncio.Future[None]] = {}

    def __contains__(self, uid: int) -> bool:
        return uid in self._known

    def of(self, uid: int) -> str:
        """Its login name; where there is none the number is the name."""
        return self._known.get(uid) or str(uid)

    async def find(self, uid: int) -> None:
        """Ends when the name is known, or it is known that there is none."""
        asked = self._asked.get(uid)
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = self._asked[uid] = loop.create_future()
            # No pool: threads that hang would use it up, and be waited for at the end.
            threading.Thread(target=self._look, args=(uid, loop), daemon=True).start()
        await asyncio.shield(asked)

    def _look(self, uid: int, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._known[uid] = pwd.getpwuid(uid).pw_name
        except KeyError:
            pass  # There is none, so that the number has to do.
        finally:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._found, uid)

    def _found(self, uid: int) -> None:
        asked = self._asked.pop(uid)
        if not asked.done():
            asked.set_result(None)


#: Of this machine: they do not depend on who serves.
NAMES = Names()
