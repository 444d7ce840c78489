"""How much of what a node says of itself is put on record: one that was taken over fills no disk.

Ends of jobs are not counted: there are no more of them than jobs that were sent there. What a node
says of itself has no such bound, and each time it becomes an event.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Of one node: a machine says some hundred bytes when its devices are used by others.
BYTES_PER_S, BURST_BYTES = 8 * 1024, 8 * 1024 * 1024
#: A record has a row around it.
ROW_BYTES = 256
#: An engine stands for this many machines, and tells of all of them whenever one changes.
MACHINES_OF_ENGINE = 100


class NewsBudget:
    """What is left of each node's, and when that was."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait_s(self, node: str) -> float:
        """How long nothing more is heard of a node; 0: it is heard."""
        return max(0.0, -self._now(node)[0] / BYTES_PER_S)

    def spend(self, node: str, size: int, *, engine: bool) -> None:
        left, now_s = self._now(node)
        spent = (size + ROW_BYTES) / (MACHINES_OF_ENGINE if engine else 1)
        self._left[node] = (left - spent, now_s)

    def _now(self, node: str) -> tuple[float, float]:
        now_s = self._clock()
        left, then_s = self._left.get(node, (float(BURST_BYTES), now_s))
        return min(BURST_BYTES, left + (now_s - then_s) * BYTES_PER_S), now_s
