"""Places at the door: how many connections one caller may hold, and which are kept for the site.

Each connection is an open file of the controller, whatever its caller does with it: listens to
events, reads slowly, or never comes to the point. On the unix socket the kernel says who calls
before a word is read; over the network an address counts until a request says who it is. The last
descriptors are for agents and for root: nobody can keep those out.
"""

from __future__ import annotations

import logging
import os
import resource
import time
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rota.api.auth import LOCAL
from rota.api.gate import FREE
from rota.core.facts.errors import Busy

if TYPE_CHECKING:
    from rota.core.facts.tenant import Actor

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
        self._said_s: dict[str, float] = {}

    def take(self, host: str) -> DoorPlace:
        """For a caller as the kernel names it: ``uid:1000``, or an address."""
        uid = host.removeprefix(LOCAL) if host.startswith(LOCAL) else ""
        whose = _FREE if uid in {"0", str(os.geteuid())} else host
        place = DoorPlace(self, whose)
        if whose and not self._fits(whose):
            place.refused = self._why(whose)
            self._say(whose, place.refused)
        self._held[whose] += 1
        return place

    def _fits(self, whose: str) -> bool:
        if self.most and self._held[whose] >= self.most:
            return False
        return self._held.total() < self._room

    def _why(self, whose: str) -> str:
        if self.most and self._held[whose] >= self.most:
            return (
                f"connections: {whose} has too many; allowed are {self.most} at one time "
                "(limits.connections)"
            )
        return f"connections: {self._room} are open; the rest is kept for agents and root"

    def hands_off(self, place: DoorPlace) -> bool:
        """Whether the caller came too often for even a refusal."""
        return self._held[place.whose] > PATIENCE * max(self.most, KEPT_MIN)

    def pass_to(self, place: DoorPlace, whose: str) -> None:
        """It is known now who calls; raises ``Busy`` where that one has all places taken."""
        if whose and self.most and self._held[whose] >= self.most:
            place.refused = self._why(whose)
            self._say(whose, place.refused)
            raise Busy(place.refused, AGAIN_S)
        self.leave(place)
        place.whose = whose
        self._held[whose] += 1

    def leave(self, place: DoorPlace) -> None:
        self._held[place.whose] -= 1
        if not self._held[place.whose]:
            del self._held[place.whose]
            self._said_s.pop(place.whose, None)

    def _say(self, whose: str, why: str) -> None:
        now_s = time.monotonic()
        if now_s >= self._said_s.get(whose, 0.0):
            self._said_s[whose] = now_s + SAY_S
            log.warning("%s is refused: %s", whose, why)


class DoorPlace:
    """One connection's."""

    __slots__ = ("_left", "_places", "refused", "whose")

    def __init__(self, places: Places, whose: str) -> None:
        self._places = places
        self._left = False
        self.whose = whose
        #: Why nothing that comes over it is heard; empty: it is.
        self.refused = ""

    @property
    def is_local(self) -> bool:
        """The kernel has said whose it is."""
        return self.whose.startswith(LOCAL)

    @property
    def hands_off(self) -> bool:
        return self._places.hands_off(self)

    def known(self, actor: Actor) -> None:
        """A request says who calls. What the kernel said stays, but of who has all rights."""
        whose = _FREE if actor.access in FREE else actor.user
        if self._left or whose == self.whose or (whose and self.is_local):
            return
        self._places.pass_to(self, whose)

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._places.leave(self)
