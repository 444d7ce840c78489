"""Nodes by what they have left: those of one class with equal amounts share a bucket.

A bucket that empties is gone; amounts that come back get a new one with a new number, so that
wants can tell what is new. What is kept is what is alive.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heapify, heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING

from rota.scheduling.place.free import Free, ease
from rota.scheduling.place.node_room import WHOLE
from rota.scheduling.place.numbers import Numbers
from rota.scheduling.place.wants import (
    AMOUNTS,
    BUCKET_BITS,
    CLAIM_AT,
    FIELD,
    GUARDS,
    INFINITE,
    NUMBER_BITS,
    RANK_AT,
    SIGN_AT,
    TOP,
    content_of,
    finger,
    pack,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.facts.policy import PlaceRules
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import NodeClass

#: Free memory of each device that can be shared, most first; where the strategy asks, also the
#: thousandths that each has left.
DeviceState = tuple[tuple[int, ...], tuple[int, ...]]

#: Names of nodes that left a bucket are cleaned away once there are this many.
STALE_MAX = 16

_DOUBLE = Struct(">d")


#: The same few states of devices come again and again.
_content_of_shares = lru_cache(maxsize=4096)(content_of)


def left_parts(room: Room) -> tuple[int, ...]:
    """Thousandths of each device of a node with something left, most first."""
    lefts = [device.left_milli for device in room.devices.values()]
    return tuple(sorted(filter(None, lefts), reverse=True))


class Bucket:
    """Nodes that are interchangeable for now."""

    __slots__ = ("amounts", "claim_s", "count", "free", "kind", "left", "names", "number",
                 "sign", "tail", "term", "vector")  # fmt: skip

    def __init__(
        self, number: int, vector: int, kind: NodeClass, sign: int, state: DeviceState
    ) -> None:
        self.number = number
        self.vector = vector
        self.kind = kind
        #: The number of what its devices have left.
        self.sign = sign
        #: The amounts alone, as they compare with a request, and the same one by one: wants ask
        #: for them again and again.
        self.amounts = amounts = vector & AMOUNTS | GUARDS
        self.left = (
            amounts & TOP,
            amounts >> FIELD & TOP,
            amounts >> 2 * FIELD & TOP,
            amounts >> 3 * FIELD & TOP,
        )
        #: The same and what is left of devices, as scores are made of it.
        self.free = Free(*self.left, *state)
        #: The first moment for which another job has a claim on the nodes.
        self.claim_s = INFINITE
        #: The part of the score that a node has of itself, once it was asked for.
        self.term = 0
        #: What tells it from other buckets with the same score, and its number.
        self.tail = 0
        #: A heap of the names. It may hold names of nodes that left; ``count`` is the truth.
        self.names: list[str] = []
        self.count = 0


class Buckets:
    """The buckets of all nodes that take work and have anything left."""

    def __init__(self, rules: PlaceRules, *, ranked: bool) -> None:
        """``ranked``: each node has a bucket of its own, in the order of their names."""
        self._rules = rules
        self._ranked = ranked
        self._parts = ranked or rules.strategy == "score"
        self._live: dict[int, Bucket] = {}
        #: In order of their making.
        self.by_number: dict[int, Bucket] = {}
        self.at: dict[str, Bucket] = {}
        #: How many were ever made: the number of the next one.
        self.made = 0
        self.states: Numbers[DeviceState] = Numbers(NUMBER_BITS, self._states_used)
        #: The state of a node without devices has number 0.
        self.states.number(((), ()))

    def _states_used(self) -> set[int]:
        return {0, *(bucket.sign for bucket in self.by_number.values())}

    def put(self, name: str, room: Room, kind: NodeClass, claim_s: float, rank: int) -> None:
        """Move a node to the bucket of its free amounts, making one when needed."""
        idle, sign = self._device_state(room) if room.devices else (0, 0)
        amounts = pack(room.cpu_milli, room.memory_mib, room.disk_mib, idle)
        vector = amounts | kind.guarded
        if sign:
            vector |= sign << SIGN_AT
        if rank:
            vector |= rank << RANK_AT
        if claim_s != INFINITE:
            vector |= int.from_bytes(_DOUBLE.pack(claim_s), "big") << CLAIM_AT
        old = self.at.get(name)
        if old is not None:
            if old.vector == vector:
                return
            self.leave(name)
        bucket = self._live.get(vector)
        if bucket is None:
            bucket = Bucket(self.made, vector, kind, sign, self.states.of[sign])
            bucket.claim_s = claim_s
            told = rank or finger(amounts, self._content(kind, sign, claim_s))
            bucket.tail = told << BUCKET_BITS | self.made
            self._live[vector] = self.by_number[self.made] = bucket
            self.made += 1
        self.at[name] = bucket
        bucket.count += 1
        heappush(bucket.names, name)
        if len(bucket.names) > 2 * bucket.count + STALE_MAX:
            self._clean(bucket)

    def _content(self, kind: NodeClass, sign: int, claim_s: float) -> int:
        """What tells a bucket from others with the same amounts."""
        content = kind.content
        if sign:
            content += _content_of_shares(self.states.of[sign][0])
        if claim_s != INFINITE:
            content += content_of(claim_s)
        return content

    def weigh(self, bucket: Bucket) -> int:
        """How little is going on on its nodes, as a part of the score where jobs are spread."""
        easy = ease(bucket.free, bucket.kind.total)
        by_score = self._rules.strategy == "score"
        bucket.term = term = self._rules.weight_load * easy if by_score else easy // 101
        return term

    def leave(self, name: str) -> None:
        """The node is in no bucket any more."""
        bucket = self.at.pop(name, None)
        if bucket is None:
            return
        bucket.count -= 1
        if not bucket.count:
            del self._live[bucket.vector], self.by_number[bucket.number]

    def _device_state(self, room: Room) -> tuple[int, int]:
        """How many devices are idle, and the number of what all of them have left."""
        idle = 0
        free: list[int] = []
        parts: list[int] = []
        for device in room.devices.values():
            # As ``idle``, ``free_mib`` and ``left_milli`` say it, in one go.
            if device.taken or not device.usable:
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
        shares = tuple(filter(None, parts)) if self._parts else ()
        return idle, self.states.number((tuple(free), shares))

    def _clean(self, bucket: Bucket) -> None:
        at = self.at
        bucket.names = [*dict.fromkeys(name for name in bucket.names if at.get(name) is bucket)]
        heapify(bucket.names)

    def first(self, bucket: Bucket) -> str:
        """The first node of a bucket by name."""
        names, at = bucket.names, self.at
        while at.get(names[0]) is not bucket:
            heappop(names)
        return names[0]

    def members(self, bucket: Bucket) -> list[str]:
        """The nodes of a bucket in order."""
        if len(bucket.names) > bucket.count:
            self._clean(bucket)
        return sorted(bucket.names)

    def samples(self) -> Iterator[tuple[str, int]]:
        """The first node of each bucket, and how many nodes it stands for."""
        for bucket in self.by_number.values():
            yield self.first(bucket), bucket.count
