"""The pass: which ready jobs start now, and where.

FIFO with skip inside priorities: a job that does not fit lets smaller ones behind it pass, and
keeps its place. Lanes of equal jobs share one answer, and lanes that were blocked last time are
not looked at again until something was given back, so the cost follows what changed.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

import msgspec

from rota.core.node import Allocation
from rota.core.states import QueueState
from rota.scheduling.fit import Room, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.job import Array, Role
    from rota.core.lanes import Lane
    from rota.core.resources import Request


class Start(msgspec.Struct, frozen=True):
    """A decision: this job (or this untouched element of an array) starts now."""

    job: int
    allocations: tuple[Allocation, ...]
    #: The array that the element must be taken out of first; 0 for a job of its own.
    array: int = 0


def run_pass(cluster: Cluster, limit: int = 1000) -> list[Start]:
    """Decide what starts. At most ``limit`` starts, so that one tick stays short."""
    if cluster.touched:
        cluster.touched.clear()
        cluster.lanes.reopen()
    if not cluster.lanes.fresh:
        return []
    desk = _Desk(cluster)
    if not desk.rooms:
        return []
    starts: list[Start] = []
    heads = [head for lane in cluster.lanes.fresh.values() if (head := _Head.open(cluster, lane))]
    heapify(heads)
    smallest = min((head.cpu_milli for head in heads), default=0)
    while heads and len(starts) < limit and desk.most_cpu() >= smallest:
        head = heads[0]
        start = desk.try_start(head)
        if start is not None:
            starts.append(start)
        else:
            cluster.lanes.block(head.lane)
        if start is not None and head.advance():
            heapreplace(heads, head)
        else:
            heappop(heads)
    if len(starts) < limit:
        for head in heads:
            cluster.lanes.block(head.lane)
    return starts


class _Head:
    """The next candidate of a lane; heads are merged in queue order."""

    __slots__ = ("_candidates", "array", "cpu_milli", "job", "key", "lane", "rank", "requests")

    def __init__(self, cluster: Cluster, lane: Lane) -> None:
        self.lane = lane
        self.rank = rank_of(cluster, lane.key.queue)
        self.requests = cluster.lanes.shapes[lane.key.shape].requests
        self.cpu_milli = min(request.cpu_milli for request in self.requests)
        self._candidates = _walk(cluster, lane)
        self.key: tuple[int, int, int] = (0, 0, 0)
        self.job = self.array = 0

    @classmethod
    def open(cls, cluster: Cluster, lane: Lane) -> _Head | None:
        head = cls(cluster, lane)
        return head if head.advance() else None

    def advance(self) -> bool:
        found = next(self._candidates, None)
        if found is None:
            return False
        priority, self.job, self.array = found
        self.key = (self.rank, priority, self.job)
        return True

    def __lt__(self, other: _Head) -> bool:
        return self.key < other.key


def _walk(cluster: Cluster, lane: Lane) -> Iterator[tuple[int, int, int]]:
    """Candidates in order: an element that has a record already stands among its siblings."""
    siblings: Iterator[tuple[int, int, int]] = iter(())
    sibling = None
    for priority, item in lane.walk():
        while sibling is not None and sibling[:2] < (priority, item):
            yield sibling
            sibling = next(siblings, None)
        array = cluster.arrays.get(item)
        if array is None:
            yield priority, item, 0
        else:
            siblings = _untouched(array, priority)
            sibling = next(siblings, None)
    while sibling is not None:
        yield sibling
        sibling = next(siblings, None)


def _untouched(array: Array, priority: int) -> Iterator[tuple[int, int, int]]:
    for position in array.pending().walk():
        yield priority, array.element_id(position), array.id


def rank_of(cluster: Cluster, queue: str) -> int:
    """Where a queue stands among queues: the lower, the earlier."""
    known = cluster.queues.get(queue)
    return -known.priority if known is not None else 0


def requests_of(roles: tuple[Role, ...]) -> tuple[Request, ...]:
    """One request per task, in task order."""
    return tuple(role.request for role in roles for _ in range(role.count))


class _Desk:
    """What the pass has left to give: rooms on nodes, and places under caps."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        nodes = sorted(
            (node for node in cluster.nodes.values() if node.takes_work), key=lambda n: n.name
        )
        self.rooms = [Room.now(node) for node in nodes]
        self.used: dict[tuple[str, str | int], int] = {}

    def most_cpu(self) -> int:
        return max(room.cpu_milli for room in self.rooms)

    def try_start(self, head: _Head) -> Start | None:
        key = head.lane.key
        queue = self.cluster.queues.get(key.queue)
        if queue is not None and queue.state not in (QueueState.ACTIVE, QueueState.DRAINING):
            return None
        if any(self._used(cap) >= limit for cap, limit in caps_on(self.cluster, head.lane)):
            return None
        allocations = place(head.requests, self.rooms)
        if isinstance(allocations, str):
            return None
        for cap, _ in caps_on(self.cluster, head.lane):
            self.used[cap] = self._used(cap) + 1
        return Start(head.job, tuple(allocations), head.array)

    def _used(self, cap: tuple[str, str | int]) -> int:
        if cap not in self.used:
            self.used[cap] = len(self.cluster.active_in.get(cap, ()))
        return self.used[cap]


def caps_on(cluster: Cluster, lane: Lane) -> list[tuple[tuple[str, str | int], int]]:
    """The limits on running jobs that bind this lane, with their values."""
    key = lane.key
    caps: list[tuple[tuple[str, str | int], int]] = []
    queue = cluster.queues.get(key.queue)
    if queue is not None and queue.max_running:
        caps.append((("queue", key.queue), queue.max_running))
    group = cluster.groups.get(key.group)
    if group is not None and group.max_concurrent:
        caps.append((("group", key.group), group.max_concurrent))
    if key.capped_array:
        caps.append((("array", key.capped_array), cluster.arrays[key.capped_array].cap))
    return caps
