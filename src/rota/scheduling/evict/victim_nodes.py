"""Where victims may be found: nodes by the least that room on them could cost."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rota.core.facts.resources import Request
    from rota.scheduling.evict.victims import Least
    from rota.scheduling.place.node_room import Room

INFINITE = float("inf")


class Front:
    """Nodes by a lower bound of what room for a request costs there.

    In a pass rooms only shrink, so costs only grow and a bound stays one; a node where a victim
    leaves begins anew. What is kept serves the next job of the shape with the same rights.
    """

    def __init__(
        self,
        names: Sequence[str],
        rooms: Mapping[str, Room],
        leasts: Mapping[str, Least],
        request: Request,
        news: Sequence[str],
    ) -> None:
        """``leasts``: what units cost at the least on each node that has one. ``news`` grows by
        the names of nodes where a victim leaves."""
        self.names = names
        self._allowed = frozenset(names)
        self._news, self._read = news, len(news)
        cpu_milli, memory_mib = request.cpu_milli, request.memory_mib
        self._heap: list[tuple[float, str]] = []
        for name in names:
            room = rooms[name]
            cpu, memory = cpu_milli - room.cpu_milli, memory_mib - room.memory_mib
            if cpu <= 0 and memory <= 0:
                # It may have room as it is.
                self._heap.append((0.0, name))
            elif name in leasts:
                bound = leasts[name].bound(max(0, cpu), max(0, memory))
                self._heap.append((bound, name))
        heapify(self._heap)

    def catch_up(self) -> None:
        """Where victims leave by now, room may cost anything."""
        for name in self._news[self._read :]:
            if name in self._allowed:
                heappush(self._heap, (0.0, name))
        self._read = len(self._news)

    def search(
        self,
        barred: frozenset[str],
        price: Callable[[str], float | None],
        best: Callable[[], float],
    ) -> Iterator[tuple[str, dict[str, float]]]:
        """Each node that may be cheaper than the best one so far, the least bound first.

        The caller may write down what it found out about the least cost on a node.
        """
        heap, learnt = self._heap, dict[str, float]()
        while heap and heap[0][0] < best():
            least, name = heappop(heap)
            if name in learnt:
                continue
            bound = least if name in barred else price(name)
            if bound is not None and bound > least:
                heappush(heap, (bound, name))
                continue
            learnt[name] = INFINITE if bound is None else least
            if bound is not None and name not in barred:
                yield name, learnt
        for name, least in learnt.items():
            if least < INFINITE:
                heappush(heap, (least, name))
