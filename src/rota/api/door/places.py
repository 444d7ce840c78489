"""Places at the door: how many connections one caller may hold, and which are kept for the site.

Each connection is an open file of the controller, whatever its caller does with it: listens to
events, reads slowly, or never comes to the point. On the unix socket the kernel says who calls
before a word is read; over the network an address counts until a request says who it is. Of
callers without a name there is only half of the room, because one may have many addresses.
The last descriptors are for agents and for root: nobody can keep those out.
"""

from __future__ import annotations

import logging
import os
import resource
import time
from collections import Counter
from contextvars import ContextVar
from ipaddress import IPv6Address, IPv6Network, ip_address

from rota.api.auth import LOCAL
from rota.core.facts.errors import Busy

log = logging.getLogger("rota.api")

#: Where a request carries the place of its connection.
PLACE = "rota.place"
#: The same for what has no scope.
HELD: ContextVar[DoorPlace | None] = ContextVar("rota.place", default=None)
#: One part in this number of all descriptors, and 64 at least, are for agents and root.
KEPT_PART, KEPT_MIN = 8, 64
#: Who goes on knocking is answered no more, from this many times the limit on.
PATIENCE = 2
AGAIN_S = 5.0
SAY_S = 60.0
_FREE = ""


class Places:
    """All connections, by whose they are."""

    def __init__(self, most: int, descriptors: int = 0) -> None:
        """``most`` of one caller, 0: any number; ``descriptors``: as the kernel says."""
        limit = descriptors or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = most
        self._room = limit - max(KEPT_MIN, limit // KEPT_PART)
        self._held: Counter[str] = Counter()
        #: Connections of which nobody knows yet whose they are.
        self.strangers = 0
        self._said_s: dict[str, float] = {}

    def take(self, host: str) -> DoorPlace:
        """For a caller as the kernel names it: ``uid:1000``, or an address."""
        uid = host.removeprefix(LOCAL) if host.startswith(LOCAL) else ""
        whose = _FREE if uid in {"0", str(os.geteuid())} else host if uid else _one_of(host)
        place = DoorPlace(self, whose, stranger=not uid)
        if whose and (why := self._why_not(whose, stranger=not uid)):
            place.refused = why
            self._say(whose, why)
        self._held[whose] += 1
        self.strangers += not uid
        return place

    def _why_not(self, whose: str, *, stranger: bool) -> str:
        """Why there is no room for one more of these; empty: there is."""
        if self.most and self._held[whose] >= self.most:
            return (
                f"connections: {whose} has too many; allowed are {self.most} at one time "
                "(limits.connections)"
            )
        if self._held.total() >= self._room:
            return f"connections: {self._room} are open; the rest is kept for agents and root"
        if stranger and self.strangers >= self._room // 2:
            return (
                f"connections: {self.strangers} callers have not said their name; the rest is "
                "kept for known users"
            )
        return ""

    def hands_off(self, place: DoorPlace) -> bool:
        """Whether the caller came too often for even a refusal."""
        return self._held[place.whose] > PATIENCE * max(self.most, KEPT_MIN)

    def pass_to(self, place: DoorPlace, whose: str) -> None:
        """It is known now who calls; raises ``Busy`` where that one has all places taken."""
        if whose and self.most and self._held[whose] >= self.most:
            place.refused = self._why_not(whose, stranger=False)
            self._say(whose, place.refused)
            raise Busy(place.refused, AGAIN_S)
        self.leave(place)
        place.whose, place.stranger = whose, False
        self._held[whose] += 1

    def leave(self, place: DoorPlace) -> None:
        self._held[place.whose] -= 1
        self.strangers -= place.stranger
        if not self._held[place.whose]:
            del self._held[place.whose]
            self._said_s.pop(place.whose, None)

    def _say(self, whose: str, why: str) -> None:
        now_s = time.monotonic()
        if now_s >= self._said_s.get(whose, 0.0):
            self._said_s[whose] = now_s + SAY_S
            log.warning("%s is refused: %s", whose, why)


def _one_of(host: str) -> str:
    """What stands for all the addresses that one machine can choose from."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_loopback:
        return "127.0.0.1"
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, 64), strict=False))
    return str(address)


class DoorPlace:
    """One connection's."""

    __slots__ = ("_left", "_places", "refused", "stranger", "whose")

    def __init__(self, places: Places, whose: str, *, stranger: bool) -> None:
        self._places = places
        self._left = False
        self.whose = whose
        #: Nobody knows yet whose it is.
        self.stranger = stranger
        #: Why nothing that comes over it is heard; empty: it is.
        self.refused = ""

    @property
    def is_local(self) -> bool:
        """The kernel has said whose it is."""
        return self.whose.startswith(LOCAL)

    @property
    def hands_off(self) -> bool:
        return self._places.hands_off(self)

    def known(self, whose: str) -> None:
        """A request says who calls. What the kernel said stays, but of who has all rights."""
        if self._left or whose == self.whose or (whose and self.is_local):
            return
        self._places.pass_to(self, whose)

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._places.leave(self)
