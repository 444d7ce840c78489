"""Where victims may be found: nodes by the least that room on them could cost."""

from __future__ import annotations

from heapq import heapify, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.resources import Request
    from rota.scheduling.evict.search import Search

#: Nodes that could serve are gathered in portions of this size; a claimant that finds one in the
#: first portion does not look at the rest of a very large cluster.
PORTION = 256


class Front:
    """Nodes by the least cost at which they might have room for a request.

    In a pass rooms only shrink, so costs only grow; where a victim leaves, ``push`` says so. What
    is kept serves the next job of the shape, unless that one may do more than this one.
    """

    def __init__(self, search: Search, request: Request) -> None:
        #: The job that it is for where that holds something itself, and what could be reclaimed.
        self._rights = (search.claimant.job, search.claimant.turns)
        #: The lowest priority that costs were found out for.
        self._priority = search.claimant.priority
        self._request = request
        self._names = names = search.site.names
        self._allowed = search.preemption.rooms.keys() & names
        # Not always the same nodes bear it: each job begins somewhere else.
        start = search.entry.job * 7919 % max(1, len(names))
        self._rest = [*names[start:], *names[:start]]
        self._rest.reverse()
        self.heap: list[tuple[float, str]] = []
        #: Whether every claimant was above all units that it looked at.
        self.above = True

    def has_below(self, search: Search, cost: float | None) -> bool:
        """Whether a node may be cheaper than this; None: whether there is any at all."""
        if cost is None:
            return bool(self.heap) or self._gather(search)
        return bool(self.heap) and self.heap[0][0] < cost

    def _gather(self, search: Search) -> bool:
        """The next portion of nodes."""
        trial, count = search.trial(), 0
        while self._rest and count < PORTION:
            name = self._rest.pop()
            if name not in self._allowed:
                continue
            here = search.on(name)
            self.above = self.above and here.above
            least = here.least_cost(trial.lack(name, self._request))
            if least is not None:
                self.heap.append((least, name))
                count += 1
        heapify(self.heap)
        return bool(self.heap)

    def serves(self, search: Search) -> bool:
        """Whether a node that is not cheap by this is not cheap for another claimant either."""
        claimant = search.claimant
        return (
            (self.above or claimant.priority <= self._priority)
            and self._rights == (claimant.job, claimant.turns)
            and self._names == search.site.names
        )

    def begin(self, search: Search) -> None:
        """What this search finds out is kept, and holds for claimants that may do no more."""
        self._priority = min(self._priority, search.claimant.priority)

    def push(self, least: float, name: str) -> None:
        if name in self._allowed:
            heappush(self.heap, (least, name))
