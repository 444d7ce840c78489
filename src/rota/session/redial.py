"""How long an agent waits before it dials again."""

from __future__ import annotations

import random

FIRST_S, MOST_S = 0.05, 2.0
#: The most where the lease is long: with thousands of agents each second more makes less of a rush.
LONGEST_S = 15.0
#: Even so often in a row no work is given up for it.
PAUSES_IN_LEASE = 20
#: A controller that is busy says for how long; more than this nobody believes.
BUSY_S_MAX = 5.0


class Pauses:
    """Each is about twice the one before, up to a bound.

    There is chance in them: agents that lost their controller together do not come back as one.
    """

    def __init__(self, most_s: float = MOST_S) -> None:
        self._most_s = most_s
        self._next_s = FIRST_S

    def reset(self, lease_s: float = 0.0) -> None:
        """The agent was taken in, with this lease; 0: with none."""
        self._next_s = FIRST_S
        if lease_s:
            self._most_s = min(max(MOST_S, lease_s / PAUSES_IN_LEASE), LONGEST_S)

    def take_s(self, busy_s: float = 0.0) -> float:
        """The pause for now, no shorter than a busy controller asks for; the next one is longer."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._most_s)
        return min(busy_s, BUSY_S_MAX) * random.uniform(1.0, 2.0) + pause_s * random.uniform(0.5, 1)
