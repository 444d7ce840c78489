"""Users and groups of this machine: looked up outside of the loop.

A directory of users (LDAP, a network file system) may be slow or away. So entries are found in a
thread: the name of a caller on a local socket before the first byte of its connection is read, and
what a command shows before the command begins. Only a request that needs an entry waits for it.
"""

from __future__ import annotations

import asyncio
import grp
import pwd
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A name, or the number of a user.
Key: TypeAlias = str | int
#: An entry is asked for again after this time; the most that are kept.
FRESH_S = 600.0
ENTRIES_MAX = 100_000


class PersonEntry(NamedTuple):
    name: str
    uid: int
    gid: int
    group: str
    home: str
    shell: str


class NotLookedUp(Exception):
    """It is not known yet whether there is such a user."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"user {key} was not looked up")
        self.key = key


class People:
    """What was found, by name and by number. That there is no such user is an answer, too."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[PersonEntry | None, float]] = {}
        self._asked: dict[Key, Future[None]] = {}

    def entry(self, key: Key) -> PersonEntry | None:
        """The user of this name or number; None: there is none. Raises ``NotLookedUp``."""
        known = self._known.get(key)
        if known is None:
            raise NotLookedUp(key)
        entry, found_s = known
        if time.monotonic() - found_s > FRESH_S and key not in self._asked:
            self._ask([key])
        return entry

    def __contains__(self, key: Key) -> bool:
        """Whether there is such a user, as far as is known."""
        return self._known.get(key, (None, 0.0))[0] is not None

    def name_of(self, uid: int) -> str:
        """Its login name; where there is none, or none is known, the number is the name."""
        entry, _ = self._known.get(uid, (None, 0.0))
        return entry.name if entry is not None else str(uid)

    async def look_up(self, keys: Iterable[Key], *, again: bool = False) -> None:
        """Ends when all of them are known. ``again``: where there was none there may be one now."""
        missing = {key for key in keys if key not in (self if again else self._known)}
        if fresh := [key for key in missing if key not in self._asked]:
            self._ask(fresh)
        for asked in [self._asked[key] for key in missing if key in self._asked]:
            await asyncio.shield(asyncio.wrap_future(asked))

    def _ask(self, keys: list[Key]) -> None:
        self._asked |= {key: Future() for key in keys}
        # No pool: threads that hang would use it up, and be waited for at the end.
        threading.Thread(target=self._look, args=(keys,), daemon=True).start()

    def _look(self, keys: list[Key]) -> None:
        for key in keys:
            entry = _find(key)
            if len(self._known) >= ENTRIES_MAX:
                self._known.clear()
            self._known[key] = entry, time.monotonic()
            self._asked.pop(key).set_result(None)


def _find(key: Key) -> PersonEntry | None:
    try:
        found = pwd.getpwnam(key) if isinstance(key, str) else pwd.getpwuid(key)
    except (KeyError, OverflowError, ValueError):
        return None
    shell = found.pw_shell or "/bin/sh"
    group = group_name(found.pw_gid)
    return PersonEntry(found.pw_name, found.pw_uid, found.pw_gid, group, found.pw_dir, shell)


def group_name(gid: int) -> str:
    """For threads."""
    try:
        return grp.getgrgid(gid).gr_name
    except (KeyError, OverflowError):
        return str(gid)


#: Of this machine: they do not depend on who serves.
PEOPLE = People()
