"""What the web page keeps for one app: links that are good once, and the pages that are open."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from rota.web.live import PageNews

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.facts.tenant import Actor

#: A link is used at once or not at all.
LINK_S = 120.0
#: Of one user: the oldest makes way, and nobody else's does.
LINKS_MAX = 10


class EntryLink(NamedTuple):
    """Lets its maker in, once, until a moment of the monotonic clock."""

    actor: Actor
    until_s: float


class EntryRoom:
    """Of one app; lost with its process: a link is made again in a moment."""

    def __init__(self) -> None:
        self.news = PageNews()
        #: How many terminals each user has open in pages.
        self.screens: Counter[str] = Counter()
        #: By the digest of the code: what is in memory here opens nothing elsewhere.
        self._links: dict[bytes, EntryLink] = {}

    def make_link(self, actor: Actor) -> str:
        """A code that lets the actor in once."""
        now_s = time.monotonic()
        self._links = {key: link for key, link in self._links.items() if link.until_s > now_s}
        own = [key for key, link in self._links.items() if link.actor.user == actor.user]
        if len(own) >= LINKS_MAX:
            del self._links[own[0]]
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = EntryLink(actor, now_s + LINK_S)
        return code

    def use_link(self, code: str) -> Actor | None:
        """The actor that made it; None: it was used, is too old, or never was."""
        link = self._links.pop(_digest(code), None)
        return link.actor if link is not None and link.until_s > time.monotonic() else None


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


_ROOMS: WeakKeyDictionary[Context, EntryRoom] = WeakKeyDictionary()


def room_of(context: Context) -> EntryRoom:
    """The room of an app, made when first asked for."""
    if context not in _ROOMS:
        _ROOMS[context] = EntryRoom()
    return _ROOMS[context]
