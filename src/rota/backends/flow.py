"""How many attempts an engine is handed before there is room, node by node: as jobs end there.

Where many jobs end, one that waits inside the engine begins as soon as another ends, and not only
after our look, our pass and the engine's own look at what is new. Where few end, that saves nothing
worth having, and what waits inside has left our order: then there are no early places at all.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from rota.backends.api import EnginePhase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.backends.api import EngineJob
    from rota.backends.journal import EngineEntry

#: Ends count for so long. One early attempt waits about as long at the most: each has the room of
#: one that ends in such a time. It is longer than an engine takes between two looks at what is new.
RECENT_S = 10.0
#: What has run for less than that has ended at a rate: a burst of ends speaks for so long at least.
BURST_S = 2.5


class _Look(NamedTuple):
    at_s: float
    running: int
    ended: int


class Flow:
    """``share``: the most that are early for each one that runs there; 0: none ever."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._looks: dict[str, deque[_Look]] = {}
        #: Since when something has run on each node.
        self._busy_s: dict[str, float] = {}
        self._places: dict[str, int] = {}

    def places(self, node: str) -> int:
        return self._places.get(node, 0)

    def look(
        self,
        entries: Mapping[str, EngineEntry],
        seen: Mapping[str, EngineJob],
        over: Iterable[EngineEntry],
        now_s: float,
    ) -> None:
        """What the engine shows of living attempts, and those that it shows to be over."""
        running = (
            entries[uid].node for uid, job in seen.items() if job.phase is EnginePhase.RUNNING
        )
        ended = (entry.node for entry in over if entry.end is not None and entry.end.started_s)
        self.note(Counter(running), Counter(ended), now_s)

    def note(self, running: Mapping[str, int], ended: Mapping[str, int], now_s: float) -> None:
        """What a look at the engine shows: how many run on each node, and how many have ended."""
        if not self._share:
            return
        for node in {*running, *ended, *self._looks}:
            looks = self._looks.setdefault(node, deque())
            lasted_s = now_s - self._busy_s.setdefault(node, now_s)
            looks.append(_Look(now_s, running.get(node, 0), ended.get(node, 0)))
            while looks[0].at_s <= now_s - RECENT_S:
                looks.popleft()
            ends = sum(look.ended for look in looks)
            # One that began and ended between two looks ran, too.
            most = max(max(look.running, look.ended) for look in looks)
            expected = round(ends * RECENT_S / min(max(lasted_s, BURST_S), RECENT_S))
            self._move(node, expected, math.ceil(self._share * most))
            if not ends and not running.get(node):
                del self._looks[node], self._busy_s[node]

    def _move(self, node: str, expected: int, most: int) -> None:
        """Each change is told to the controller: they grow by doubling, and fall late."""
        before, wanted = self.places(node), min(expected, most)
        if wanted > before or 4 * wanted < before:
            self._places[node] = min(1 << (wanted - 1).bit_length(), most) if wanted else 0
