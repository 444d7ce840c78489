"""Where victims may be found: nodes by the least that room on them could cost."""

from __future__ import annotations

from heapq import heapify, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.resources import Request
    from rota.scheduling.evict.search import Hunt

#: Nodes that could serve are gathered in portions of this size; who finds one in the first
#: portion does not look at the rest of a very large cluster.
PORTION = 512


class Front:
    """Nodes by the least cost at which they might have room for a request.

    In a pass rooms only shrink, so costs only grow; where somebody leaves, ``push`` says so. What
    is kept serves the next job of the shape, unless that may do more than this one.
    """

    def __init__(self, hunt: Hunt, request: Request) -> None:
        self._hunter = hunt.hunter
        self._request = request
        self._names = hunt.names
        self._allowed = frozenset(hunt.names)
        # Not always the same nodes bear it: each job begins somewhere else.
        start = hunt.entry.job * 7919 % max(1, len(hunt.names))
        self._rest = [*hunt.names[start:], *hunt.names[:start]]
        self._rest.reverse()
        self.heap: list[tuple[float, str]] = []

    def has_below(self, hunt: Hunt, cost: float | None) -> bool:
        """Whether a node may be cheaper than this; None: whether there is any at all."""
        if cost is None:
            return bool(self.heap) or self._gather(hunt)
        return bool(self.heap) and self.heap[0][0] < cost

    def _gather(self, hunt: Hunt) -> bool:
        """The next portion of nodes."""
        trial, count = hunt.trial(), 0
        while self._rest and count < PORTION:
            name = self._rest.pop()
            bound = trial.least_cost(name, self._request, hunt.units_on(name))
            if bound is not None:
                self.heap.append((bound, name))
                count += 1
        heapify(self.heap)
        return bool(self.heap)

    def serves(self, hunt: Hunt) -> bool:
        mine, other = self._hunter, hunt.hunter
        return (
            mine.priority >= other.priority
            and mine.reclaims == other.reclaims
            and self._names == hunt.names
        )

    def push(self, least: float, name: str) -> None:
        if name in self._allowed:
            heappush(self.heap, (least, name))
