"""Where victims may be found: nodes by the least that room on them could cost."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rota.core.facts.resources import Request
    from rota.scheduling.place.node_room import Room

INFINITE = float("inf")


class Least(NamedTuple):
    """No victims on a node cost less. What attempts that leave give back costs nothing."""

    #: Any victim, and each thousandth of a CPU and MiB of memory.
    any: float
    cpu: float
    memory: float
    free_cpu: float
    free_memory: float
    #: What whole devices cost at the least, from one to all of them.
    devices: tuple[float, ...]
    #: More memory of any one device than the most that is free.
    share: float
    free_share: int


def bounds(
    names: Iterable[str], rooms: Mapping[str, Room], request: Request, leasts: Mapping[str, Least]
) -> list[tuple[float, str]]:
    """(what room for a request costs at the least, the node) where it may be had at all."""
    cpu_milli, memory_mib = request.cpu_milli, request.memory_mib
    count, shared, share_mib = request.device_count, request.shared, request.device_memory_mib
    found: list[tuple[float, str]] = []
    for name in names:
        room = rooms[name]
        least, cpu_rate, memory_rate, cpu, memory, devices, share, free_share = leasts[name]
        cpu, memory = cpu_milli - room.cpu_milli - cpu, memory_mib - room.memory_mib - memory
        price = 0.0
        if cpu > 0:
            price = cpu_rate * cpu
        elif memory <= 0:
            least = 0.0
        if memory > 0 and memory_rate * memory > price:
            price = memory_rate * memory
        if price > least:
            least = price
        if shared and share_mib > free_share:
            least = share if share > least else least
        elif count and not shared:
            price = devices[count - 1] if count <= len(devices) else INFINITE
            least = price if price > least else least
        if least < INFINITE:
            found.append((least, name))
    return found


class NodeFront:
    """Nodes by a lower bound of what room for a request costs there.

    In a pass rooms only shrink, so costs only grow and a bound stays one; a node where a victim
    leaves begins anew. What is kept serves the next job of the shape with the same rights.
    """

    def __init__(
        self,
        names: Sequence[str],
        bounds: Callable[[Sequence[str]], list[tuple[float, str]]],
        news: Sequence[str],
    ) -> None:
        """``bounds``: the least costs where room may be had. ``news`` grows by the names of nodes
        where a victim leaves."""
        self.names = names
        self._allowed = frozenset(names)
        self._bounds = bounds
        self._news, self._read = news, len(news)
        self._heap = bounds(names)
        heapify(self._heap)

    def catch_up(self) -> None:
        """Where victims leave by now, room may cost less."""
        if self._read < len(self._news):
            names = [name for name in self._news[self._read :] if name in self._allowed]
            self._read = len(self._news)
            for each in self._bounds(names):
                heappush(self._heap, each)

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
