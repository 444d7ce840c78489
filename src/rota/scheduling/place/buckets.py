"""Nodes by what they have left: those of one class with equal amounts share a bucket.

A bucket that empties is retired; amounts that come back get a new number, so that whoever keeps
numbers can tell what is new.
"""

from __future__ import annotations

from functools import reduce
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from rota.scheduling.place.node_room import WHOLE, Room
from rota.scheduling.place.nodeclass import NodeClass, class_key
from rota.scheduling.place.ranks import Ranks
from rota.scheduling.place.scores import COARSE, SMALLEST, Total, cost_of, ease
from rota.scheduling.place.wants import (
    CLAIM_AT,
    INFINITE,
    RANK_AT,
    SIGN_AT,
    content_of,
    finger,
    pack,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.node import Allocation, Node
    from rota.core.facts.policy import Policy
    from rota.scheduling.place.node_room import Prefer


def left_parts(room: Room) -> tuple[int, ...]:
    """Thousandths of each device of a node with something left, most first."""
    lefts = [device.left_milli for device in room.devices.values()]
    return tuple(sorted(filter(None, lefts), reverse=True))


class Buckets:
    """All nodes that take work, by what they have left."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.rooms: dict[str, Room] = {}
        self.class_of: dict[str, NodeClass] = {}
        #: What each class was told from: while these very objects stay, so does the class.
        self._told: dict[str, tuple[object, object, object]] = {}
        self._classes: dict[object, NodeClass] = {}
        self._class_list: list[NodeClass] = []
        # One entry per bucket, never used again: a vector that comes back gets a new number.
        self._vectors: list[int] = []
        self._nodes: list[list[str]] = []
        self._counts: list[int] = []
        self._terms: list[int] = []
        self._fingers: list[int] = []
        self._live: dict[int, int] = {}
        self._at: dict[str, int] = {}
        #: Where many nodes are equally good the first by name is taken: each has a bucket of its
        #: own then, which stands in that order.
        self._ranks = Ranks() if policy.place.strategy in COARSE else None
        #: Interned device states: free memory of each shareable device, most first; where the
        #: strategy asks, also the thousandths of each.
        self._signs: list[tuple[int, ...]] = [()]
        self._parts: list[tuple[int, ...]] = [()]
        self._sign_ids: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {((), ()): 0}
        #: Interned claims on a node: the first moment that somebody else wants it.
        self._claims: list[float] = [INFINITE]
        self._claim_ids: dict[float, int] = {INFINITE: 0}
        self.claimed_from: dict[str, float] = {}
        #: What a node of the dearest class costs.
        self._dearest = 0.0
        #: How many nodes each class has, and the most that any node has in each dimension.
        self._population: dict[NodeClass, int] = {}
        self._largest = SMALLEST
        #: How the strategy chooses among devices, for the rooms of all nodes.
        self._prefer: Prefer | None = None
        self._names: list[str] | None = None
        #: Changes whenever room is given back: where a want found nothing, it may now.
        self.grown = 0
        #: Changes whenever anything is taken or given back.
        self.shifts = 0

    def refresh(self, cluster: Cluster, name: str) -> None:
        """Take a node's present state in; it may be new, changed, or out of service."""
        node = cluster.nodes.get(name)
        if node is None or not node.takes_work:
            self._leave(name)
            self.rooms.pop(name, None)
            self._sort_in(name, None)
            self._told.pop(name, None)
            self._names = None
            return
        self._sort_in(name, self._class(node))
        if name not in self.rooms:
            self._names = None
        before = self._at.get(name)
        room = self.rooms.get(name)
        if room is None or not room.follow(node):
            room = self.rooms[name] = Room.now(node, self.policy.place)
        room.prefer = self._prefer
        if self._ranks is not None and name not in self._ranks.of and self._ranks.add(name):
            for other in self.rooms:
                self.put(other)
            self._scores_changed()
        self.put(name)
        # What a pass itself took is no news: where it found nothing there is nothing still.
        self.grown += self._at.get(name) != before

    def _class(self, node: Node) -> NodeClass:
        told = (node.spec, node.labels, node.taints)
        before = self._told.get(node.name)
        if before is not None and all(old is new for old, new in zip(before, told, strict=True)):
            return self.class_of[node.name]
        self._told[node.name] = told
        key = class_key(node)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = NodeClass(len(self._class_list), node, self.policy)
            self._class_list.append(known)
            if cost_of(known.labels) > self._dearest:
                self._dearest = cost_of(known.labels)
                self._scores_changed()
        return known

    def _sort_in(self, name: str, kind: NodeClass | None) -> None:
        """A node is of this class now, or of none; see whether another one is the largest."""
        before = self.class_of.get(name)
        if before is kind:
            return
        largest = self._largest
        if kind is not None:
            self.class_of[name] = kind
            self._population[kind] = self._population.get(kind, 0) + 1
            largest = largest.larger(kind.total)
        if before is not None:
            if kind is None:
                del self.class_of[name]
            self._population[before] -= 1
            if not self._population[before]:
                del self._population[before]
                if largest.is_reached_by(before.total):
                    largest = reduce(Total.larger, (k.total for k in self._population), SMALLEST)
        if self._ranks is not None and largest != self._largest:
            self._largest = largest
            self._scores_changed()

    def _scores_changed(self) -> None:
        """A class came that changes how the others score."""

    def claim(self, name: str, from_s: float) -> None:
        """Somebody wants the node from then on: tasks that stay longer are looked at singly."""
        if from_s < self.claimed_from.get(name, INFINITE) and name in self.rooms:
            self.claimed_from[name] = from_s
            self.put(name)

    def set_claim(self, name: str, from_s: float) -> None:
        """The earliest claim on a node is another one now."""
        self.grown += 1
        if from_s == INFINITE:
            self.claimed_from.pop(name, None)
        else:
            self.claimed_from[name] = from_s
        if name in self.rooms:
            self.put(name)

    def unclaim(self) -> None:
        """Forget all claims."""
        claimed, self.claimed_from = self.claimed_from, {}
        self.grown += bool(claimed)
        for name in claimed:
            if name in self.rooms:
                self.put(name)

    def put(self, name: str) -> None:
        """Move a node to the bucket of its free amounts, making one when needed."""
        room, kind = self.rooms[name], self.class_of[name]
        self.shifts += 1
        if room.alone:
            # Somebody has it to himself: not even a task that asks for nothing fits beside him.
            self._leave(name)
            return
        idle, sign = self._device_state(room) if room.devices else (0, 0)
        amounts = pack(room.cpu_milli, room.memory_mib, room.disk_mib, idle)
        vector = amounts | kind.guarded
        if sign:
            vector |= sign << SIGN_AT
        if self.claimed_from and name in self.claimed_from:
            vector |= self._claim_number(self.claimed_from[name]) << CLAIM_AT
        rank = 0
        if self._ranks is not None:
            rank = self._ranks.of[name]
            vector |= rank << RANK_AT
        old = self._at.get(name)
        if old is not None:
            if self._vectors[old] == vector:
                return
            self._leave(name)
        bucket = self._live.get(vector)
        if bucket is None:
            bucket = self._live[vector] = len(self._vectors)
            self._vectors.append(vector)
            self._nodes.append([name])
            self._counts.append(1)
            self._terms.append(self._term(room, kind))
            self._fingers.append(rank or finger(amounts, self._content(name, kind, sign)))
        else:
            heappush(self._nodes[bucket], name)
            self._counts[bucket] += 1
        self._at[name] = bucket

    def _content(self, name: str, kind: NodeClass, sign: int) -> int:
        """What tells a bucket from others with the same amounts."""
        content = kind.content
        if sign:
            content += content_of(self._signs[sign])
        if name in self.claimed_from:
            content += content_of(self.claimed_from[name])
        return content

    def _term(self, room: Room, kind: NodeClass) -> int:
        """The part of the score that a node has of itself: how little is going on there."""
        if self._ranks is not None:
            return 0
        easy = ease((max(0, room.cpu_milli), max(0, room.memory_mib)), kind.total)
        if self.policy.place.strategy == "score":
            return self.policy.place.weight_load * easy
        return easy // 101

    def _leave(self, name: str) -> None:
        bucket = self._at.pop(name, None)
        if bucket is None:
            return
        self._counts[bucket] -= 1
        if not self._counts[bucket]:
            del self._live[self._vectors[bucket]]
            self._nodes[bucket] = []

    def _device_state(self, room: Room) -> tuple[int, int]:
        idle = 0
        free: list[int] = []
        parts: list[int] = []
        for device in room.devices.values():
            # As ``idle``, ``free_mib`` and ``left_milli`` say it, in one go.
            if device.taken or not device.device.usable:
                continue
            memory_mib = device.device.memory_mib
            left = memory_mib - device.shared_mib - device.foreign_mib
            if not device.sharers and not device.foreign_pids:
                idle += 1
                parts.append(WHOLE)
            elif left > 0:
                parts.append(WHOLE * left // memory_mib)
            if left > 0:
                free.append(left)
        free.sort(reverse=True)
        parts.sort(reverse=True)
        sign = (tuple(free), tuple(filter(None, parts)) if self._ranks is not None else ())
        number = self._sign_ids.get(sign)
        if number is None:
            number = self._sign_ids[sign] = len(self._signs)
            self._signs.append(sign[0])
            self._parts.append(sign[1])
        return idle, number

    def _claim_number(self, from_s: float) -> int:
        number = self._claim_ids.get(from_s)
        if number is None:
            number = self._claim_ids[from_s] = len(self._claims)
            self._claims.append(from_s)
        return number

    def _members(self, bucket: int) -> list[str]:
        """The nodes of a bucket in order; entries of nodes that left are cleaned away."""
        names = self._nodes[bucket]
        if len(names) > self._counts[bucket]:
            names = [*dict.fromkeys(name for name in names if self._at.get(name) == bucket)]
            heapify(names)
            self._nodes[bucket] = names
        return sorted(names)

    def samples(self) -> Iterator[tuple[str, int]]:
        """The first node of each bucket, and how many nodes it stands for."""
        for bucket in self._live.values():
            names = self._nodes[bucket]
            while self._at.get(names[0]) != bucket:
                heappop(names)
            yield names[0], self._counts[bucket]

    def take(self, name: str, allocation: Allocation) -> None:
        self.rooms[name].take(allocation)
        self.put(name)

    def give_back(self, name: str, allocation: Allocation) -> None:
        self.rooms[name].give_back(allocation)
        self.grown += 1
        self.put(name)
