"""Virtual time: actions in a heap, one after the other. One seed, one world."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class WorldTimeline:
    """What happens when. Equal times happen in the order in which they were planned."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._planned, (self.now_s + delay_s, self._count, action))

    def step(self) -> bool:
        """Do the next thing; False when nothing is planned."""
        if not self._planned:
            return False
        at_s, _, action = heappop(self._planned)
        self.now_s = max(self.now_s, at_s)
        action()
        return True


class OwnTime:
    """Virtual time as one machine sees it: what is due while it sleeps is done when it wakes up.

    So it is on a clock that goes on meanwhile, which is the one that leases are held by.
    """

    def __init__(self, timeline: WorldTimeline) -> None:
        self._timeline = timeline
        self.asleep = False
        #: How often it woke up.
        self.wakes = 0
        self._missed: list[Callable[[], None]] = []

    @property
    def now_s(self) -> float:
        return self._timeline.now_s

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        self._timeline.after(delay_s, lambda: self._do(action))

    def _do(self, action: Callable[[], None]) -> None:
        if self.asleep:
            self._missed.append(action)
        else:
            action()

    def wake(self) -> None:
        self.asleep = False
        self.wakes += 1
        missed, self._missed = self._missed, []
        for action in missed:
            action()
