"""Where a task fits best, without looking at every node.

Three ideas keep a placement cheap:

* Nodes of one class with equal free amounts are interchangeable, so they share a *bucket*.
* Each *want* (a request with its constraints) keeps a heap of the buckets that it fits in, best
  first. A bucket that emptied is dropped when it comes to the top of some heap.
* A want learns of new buckets only when it is served: live buckets stand in order of creation
  and are walked backwards to the last one that it has seen. Most die before anybody looks.

Where a strategy finds very many nodes equally good, the first by name is taken: every node has a
bucket of its own then, and wants remember the score of each state instead.

A bucket's free amounts are one integer of guarded fields: one subtraction and one mask answer
"does it fit?" in all dimensions at once. What integers cannot say (claims of others from some
moment on, named nodes, neighbours, several models in one node, plug-ins) is asked of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rota.scheduling.place.heaps import Heaps
from rota.scheduling.place.node_room import Room
from rota.scheduling.place.wants import (
    BUCKET_BITS,
    BUCKET_MASK,
    CLAIM_AT,
    CLASS_AT,
    FINGER_BITS,
    GUARDS,
    NUMBER,
    Want,
    beside,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: What a node offers to a picky want: the room to choose from, or None.
Ask = Callable[[str], Room | None]


class Space(Heaps):
    """All nodes that take work, and for each want the best of them first."""

    def best(
        self,
        want: Want,
        takes: int,
        until_s: float,
        ask: Ask,
        bonus: Callable[[str], int] | None = None,
    ) -> tuple[str, Room] | None:
        """The best node among those that take so many of a want, and the room to choose from.

        ``until_s`` is when the task will be gone. Nodes that somebody claims before that, and
        all nodes of picky wants, are asked one by one. With ``bonus`` every single node has
        points of its own, so all of them are looked at.
        """
        if self.in_order:
            return self._first(want, until_s, ask)
        heap, counts = want.heaps[takes], self._counts
        if bonus is not None:
            return self._best_of_all(heap, ask, bonus)
        skipped: list[int] = []
        found: tuple[str, Room] | None = None
        while heap:
            bucket = heap[0] & BUCKET_MASK
            if not counts[bucket]:
                heappop(heap)
                continue
            found = self._node_in(bucket, want, until_s, ask)
            if found is not None:
                break
            skipped.append(heappop(heap))
        for entry in skipped:
            heappush(heap, entry)
        return found

    def _best_of_all(
        self, heap: list[int], ask: Ask, bonus: Callable[[str], int]
    ) -> tuple[str, Room] | None:
        ranked = sorted(
            ((entry >> BUCKET_BITS + FINGER_BITS) - bonus(name), name)
            for entry in set(heap)
            if self._counts[entry & BUCKET_MASK]
            for name in self._members(entry & BUCKET_MASK)
        )
        for _, name in ranked:
            room = ask(name)
            if room is not None:
                return name, room
        return None

    def _first(self, want: Want, until_s: float, ask: Ask) -> tuple[str, Room] | None:
        """The first node by name that fits. Room only shrinks in between, so go on from there."""
        if self._names is None:
            self._names = sorted(self.rooms)
        names = self._names
        at = want.cursor[1] if want.cursor[0] == self.grown else 0
        passed_all = True
        for index in range(at, len(names)):
            name = names[index]
            if not self.may_fit(want, name):
                continue
            if passed_all:
                want.cursor, passed_all = (self.grown, index), False
            room = self._offered(self._at[name], name, want, until_s, ask)
            if room is not None:
                return name, room
        if passed_all:
            want.cursor = (self.grown, len(names))
        return None

    def _offered(self, bucket: int, name: str, want: Want, until_s: float, ask: Ask) -> Room | None:
        return ask(name) if self._must_ask(bucket, want, until_s) else self.rooms[name]

    def must_ask(self, name: str, want: Want, until_s: float) -> bool:
        """Whether integers do not say all about a want on this node."""
        bucket = self._at.get(name)
        return bucket is None or self._must_ask(bucket, want, until_s)

    def _must_ask(self, bucket: int, want: Want, until_s: float) -> bool:
        vector = self._vectors[bucket]
        return (
            want.picky
            or until_s > self._claims[vector >> CLAIM_AT & NUMBER]
            or self._class_list[vector >> CLASS_AT & NUMBER].mixed
        )

    def _node_in(
        self, bucket: int, want: Want, until_s: float, ask: Ask
    ) -> tuple[str, Room] | None:
        if not self._must_ask(bucket, want, until_s):
            names, at = self._nodes[bucket], self._at
            while at.get(names[0]) != bucket:
                heappop(names)
            return names[0], self.rooms[names[0]]
        for name in self._members(bucket):
            room = ask(name)
            if room is not None:
                return name, room
        return None

    def open_nodes(self, want: Want) -> Iterator[str]:
        """Every node that integers let one of a want on: those that take most of it first."""
        if self.in_order:
            yield from (name for name in sorted(self.rooms) if self.may_fit(want, name))
        self.catch_up(want)
        for heap in reversed(want.heaps):
            for entry in sorted(set(heap)):
                if self._counts[entry & BUCKET_MASK]:
                    yield from self._members(entry & BUCKET_MASK)

    def classes_for(self, wants: Sequence[Want]) -> set[int]:
        """The classes of nodes that can ever take one of these."""
        return {
            kind.id
            for kind in self._class_list
            for want in wants
            if (
                want.standings[kind.id]
                if kind.id in want.standings
                else self._standing(want, kind.id)
            )
            is not None
        }

    def takes(self, want: Want, name: str) -> int:
        """How many of a want integers let on this node, up to what matters."""
        if not self.may_fit(want, name):
            return 0
        vector = self._vectors[self._at[name]]
        shared = want.request.shared and want.request.device_count > 0
        return beside(want.packed, vector, self._sharers(want, vector) if shared else want.clip)

    def may_ever_fit(self, want: Want, name: str) -> bool:
        """Whether a node of this kind takes one of a want when nothing else is there."""
        number = self.class_of[name].id
        known = number in want.standings
        return (want.standings[number] if known else self._standing(want, number)) is not None

    def may_fit(self, want: Want, name: str) -> bool:
        """Whether integers let one of a want on this node."""
        bucket = self._at.get(name)
        if bucket is None:
            return False
        vector = self._vectors[bucket]
        if (vector - want.packed) & GUARDS != GUARDS:
            return False
        number = vector >> CLASS_AT & NUMBER
        known = number in want.standings
        if (want.standings[number] if known else self._standing(want, number)) is None:
            return False
        shared = want.request.shared and want.request.device_count > 0
        return not shared or self._sharers(want, vector) > 0
