"""Where a task fits best, without looking at every node.

Three ideas keep a placement cheap:

* Nodes of one class with equal free amounts are interchangeable, so they share a *bucket*.
* Each *want* (a request with its constraints) keeps a heap of the buckets that it fits in, best
  first. A bucket that emptied is dropped when it comes to the top of some heap.
* A want learns of new buckets only when it is served: live buckets stand in order of creation
  and are walked backwards to the last one that it has seen. Most die before anybody looks.

A bucket's free amounts are one integer of guarded fields: one subtraction and one mask answer
"does it fit?" in all dimensions at once. What integers cannot say (claims of others from some
moment on, named nodes, neighbours, several models in one node, plug-ins) is asked of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rota.core.job import ServiceClass
from rota.core.resources import Amount
from rota.scheduling.api import NodeView
from rota.scheduling.buckets import Buckets
from rota.scheduling.room import Room
from rota.scheduling.scores import Free, strategy, tightness
from rota.scheduling.wants import (
    BUCKET_BITS,
    BUCKET_MASK,
    CLAIM_AT,
    CLASS_AT,
    CLIP_MAX,
    FIELD,
    FINGER_BITS,
    GUARDS,
    NUMBER,
    SCORE_TOP,
    SIGN_AT,
    TOP,
    Want,
    beside,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.core.lanes import Shape
    from rota.core.policy import Policy
    from rota.scheduling.fragments import Typical
    from rota.scheduling.nodeclass import Standing

#: What a node offers to a picky want: the room to choose from, or None.
Ask = Callable[[str], Room | None]


class Space(Buckets):
    """All nodes that take work, and for each want the best of them first."""

    def __init__(self, policy: Policy, *, picky: bool = False) -> None:
        """``picky``: something beyond integers (a plug-in) has a say in every placement."""
        super().__init__(policy)
        self._picky = picky
        self._wants: dict[int, tuple[Want, ...]] = {}
        self._by_shape: dict[Shape, tuple[Want, ...]] = {}
        #: What a tight fit is worth; 0: the strategy looks at all amounts together.
        self._fit = _weight_of_fit(policy)
        self._strategy = strategy(policy.place.strategy, policy)
        #: Plugged-in scorers: what they add for a shape on a node with so much left.
        self.extra: Callable[[Shape, NodeView], int] | None = None
        #: Nodes are taken in the order of their names, whatever they have left.
        self.in_order = policy.place.strategy == "first-fit"

    def expect(self, typical: Sequence[Typical]) -> None:
        """The shapes that usually come, for the strategy that keeps room for them."""
        self._strategy = strategy(self.policy.place.strategy, self.policy, typical)
        self.forget_wants()

    def _scores_changed(self) -> None:
        self.forget_wants()

    def wants(self, number: int, shape: Shape) -> tuple[Want, ...]:
        """The heaps for each role of the shape with this number."""
        known = self._wants.get(number)
        if known is None:
            # A shape that comes back has another number; what was found out about it holds.
            known = self._by_shape.get(shape)
            if known is not None:
                self._wants[number] = known
                return known
            picky = self._picky or shape.service is ServiceClass.GUARANTEED
            picky = picky or shape.placement.asks_nodes
            known = self._wants[number] = self._by_shape[shape] = tuple(
                Want(role.request, shape, min(role.count, CLIP_MAX), picky) for role in shape.roles
            )
        return known

    def forget_wants(self) -> None:
        """Drop all heaps: they are made again as they are needed."""
        self._wants.clear()
        self._by_shape.clear()

    @property
    def want_count(self) -> int:
        return len(self._wants)

    def _standing(self, want: Want, number: int) -> Standing | None:
        standing = self._class_list[number].standing(
            want.request, want.shape, self.policy, self._fit, self._dearest
        )
        want.standings[number] = standing
        return standing

    def catch_up(self, want: Want) -> None:
        """Score the live buckets that were made since this want was last served."""
        total, seen = len(self._vectors), want.seen
        if seen == total or self.in_order:
            return
        want.seen = total
        packed, standings, clip, guards = want.packed, want.standings, want.clip, GUARDS
        terms, fit, heaps, fingers = self._terms, self._fit, want.heaps, self._fingers
        shared = want.request.shared and want.request.device_count > 0
        for vector, bucket in reversed(self._live.items()):
            if bucket < seen:
                break
            if (vector - packed) & guards != guards:
                continue
            number = vector >> CLASS_AT & NUMBER
            standing = standings[number] if number in standings else self._standing(want, number)
            if standing is None:
                continue
            takes = clip
            if shared and not (takes := self._sharers(want, vector)):
                continue
            if clip > 1:
                takes = beside(packed, vector, takes)
            if fit and not shared:
                const, dimension, slope, most, _, _ = standing
                free = vector >> dimension * FIELD & TOP
                score = const - slope * free // most + terms[bucket]
            else:
                score = self._score(want, vector, standing, terms[bucket])
            if self.extra is not None:
                score += self.extra(want.shape, self._view(vector))
            key = (SCORE_TOP - score) << FINGER_BITS | fingers[bucket]
            heappush(heaps[takes], key << BUCKET_BITS | bucket)

    def _sharers(self, want: Want, vector: int) -> int:
        """How many of a want the shared devices of a bucket take, up to what matters."""
        count = want.request.device_count
        share = self._class_list[vector >> CLASS_AT & NUMBER].share(want.request)
        free = self._signs[vector >> SIGN_AT & NUMBER]
        if not share or len(free) < count or free[count - 1] < share:
            return 0
        if want.clip == 1:
            return 1
        places = sum(left // share for left in free)
        return max(1, min(want.clip, places // count))

    def _view(self, vector: int) -> NodeView:
        """A node of a bucket as scorers see it: any of them, they are alike."""
        kind = self._class_list[vector >> CLASS_AT & NUMBER]
        free = Amount(
            vector & TOP,
            vector >> FIELD & TOP,
            vector >> 2 * FIELD & TOP,
            (vector >> 3 * FIELD & TOP) * 1000,
        )
        return NodeView(kind.spec, kind.labels, kind.taints, free)

    def _score(self, want: Want, vector: int, standing: Standing, term: int) -> int:
        """The score where one dimension does not say it all."""
        total = self._class_list[vector >> CLASS_AT & NUMBER].total
        free = Free(
            vector & TOP,
            vector >> FIELD & TOP,
            vector >> 2 * FIELD & TOP,
            vector >> 3 * FIELD & TOP,
            self._signs[vector >> SIGN_AT & NUMBER],
        )
        if not self._fit:
            return self._strategy(want.request, free, total, standing.static)
        return standing.base + self._fit * tightness(want.request, free, total) + term

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


def _weight_of_fit(policy: Policy) -> int:
    rules = policy.place
    known = {"score": rules.weight_fit, "best-fit": 100, "spread": -100, "worst-fit": -100}
    return known.get(rules.strategy, 0)
