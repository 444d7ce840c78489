"""How long an agent waits before it dials again."""

from __future__ import annotations

import random

FIRST_S, MOST_S = 0.05, 2.0


class Pauses:
    """Each is about twice the one before, up to a bound.

    There is chance in them: agents that lost their controller together do not come back as one.
    """

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s = most_s
        self._next_s = FIRST_S

    def reset(self) -> None:
        self._next_s = FIRST_S

    def take_s(self) -> float:
        """The pause for now; the next one is longer."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._most_s)
        return pause_s * random.uniform(0.5, 1.0)
