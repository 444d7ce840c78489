"""Kinds of jobs that are over almost as soon as they have begun, as their latest ends show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.derived.lanes import LaneKey

#: Who is over within this time was brisk.
BRISK_S = 0.05
#: So many in a row make a kind brisk; one that lets somebody wait in vain needs more than once.
ENOUGH, PENALTY = 4, 32
#: Kinds come and go: when there are so many, what is known is forgotten and learned again.
KINDS_MAX = 1024


class Brisk:
    """For each lane how many of its jobs in a row were over at once."""

    def __init__(self) -> None:
        self._streaks: dict[LaneKey, int] = {}

    def knows(self, key: LaneKey) -> bool:
        """Whether the next job of this kind will be over at once, as far as anybody can tell."""
        return self._streaks.get(key, 0) >= ENOUGH

    def ran(self, key: LaneKey, ran_s: float) -> None:
        """A job of this kind has ended."""
        if ran_s > BRISK_S:
            self._streaks.pop(key, None)
            return
        if len(self._streaks) >= KINDS_MAX:
            self._streaks.clear()
        self._streaks[key] = min(self._streaks.get(key, 0) + 1, ENOUGH)

    def disappoint(self, key: LaneKey) -> None:
        """One of this kind was not started, or not in the time that it was told."""
        self._streaks[key] = -PENALTY

    def clear(self) -> None:
        self._streaks.clear()
