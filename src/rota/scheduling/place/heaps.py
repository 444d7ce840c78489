"""For each want the buckets that it fits in, best first: scored when the want is served.

``space.py`` tells the whole idea. A want learns of the buckets that were made since it was last
served, and each one's score follows from what its nodes have left and from their class.
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.core.facts.resources import Amount
from rota.scheduling.api import NodeView
from rota.scheduling.place.buckets import Buckets, left_parts
from rota.scheduling.place.fragments import Spare
from rota.scheduling.place.gradient import Gradient
from rota.scheduling.place.scores import Free, strategy, tightness
from rota.scheduling.place.wants import (
    BUCKET_BITS,
    CLASS_AT,
    CLIP_MAX,
    FIELD,
    FINGER_BITS,
    GUARDS,
    NUMBER,
    SCORE_TOP,
    SIGN_AT,
    STATE_MASK,
    TOP,
    Want,
    beside,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.core.derived.lanes import Shape
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Request
    from rota.scheduling.place.devices import DeviceLike
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import Standing

#: States of which a want remembers the score; then its memory starts anew.
POINTS_MAX = 4096


class Heaps(Buckets):
    """All nodes that take work, and for each want a heap of them."""

    def __init__(self, policy: Policy, *, picky: bool = False) -> None:
        """``picky``: something beyond integers (a plug-in) has a say in every placement."""
        super().__init__(policy)
        self._picky = picky
        self._wants: dict[int, tuple[Want, ...]] = {}
        self._by_shape: dict[Shape, tuple[Want, ...]] = {}
        #: What a tight fit is worth; 0: the strategy looks at all amounts together.
        self._fit = _weight_of_fit(policy)
        #: Knows the shapes that usually come, for the strategy that keeps room for them.
        self._gradient: Gradient | None = None
        self._strategy = strategy(policy.place.strategy, policy)
        if policy.place.strategy == "fgd":
            self._prefer = self._device_for
        #: Plugged-in scorers: what they add for a shape on a node with so much left.
        self.extra: Callable[[Shape, NodeView], int] | None = None
        #: Nodes are taken in the order of their names, whatever they have left.
        self.in_order = policy.place.strategy == "first-fit"

    def expect(self, typical: Sequence[Typical]) -> None:
        """The shapes that usually come, for the strategy that keeps room for them."""
        self._gradient = Gradient(typical) if typical else None
        self._scores_changed()

    def _scores_changed(self) -> None:
        name = self.policy.place.strategy
        self._strategy = strategy(name, self.policy, self._gradient, self._largest)
        self.forget_wants()

    def _device_for(
        self, request: Request, room: Room, found: Sequence[DeviceLike]
    ) -> tuple[int, ...]:
        """The device on which a share makes the fewest others useless."""
        if self._gradient is None or not request.shared or request.device_count != 1:
            return ()
        lefts = [(device.device.index, device.left_milli) for device in found]
        return (self._gradient.pick(request, self._spare(room), lefts),)

    def spare(self, name: str) -> Spare:
        """What is left on a node, for those who mind fragments."""
        return self._spare(self.rooms[name])

    def _spare(self, room: Room) -> Spare:
        total = self.class_of[room.node.spec.name].total
        return Spare(
            room.cpu_milli, room.memory_mib, left_parts(room), total.device_mib, total.makes
        )

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
            # Which numbers are free stands in no sum.
            picky = picky or any(role.request.device_indices for role in shape.roles)
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
        if self._ranks is not None:
            self._catch_up_by_state(want, seen)
        else:
            self._catch_up_by_bucket(want, seen)

    def _catch_up_by_bucket(self, want: Want, seen: int) -> None:
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

    def _catch_up_by_state(self, want: Want, seen: int) -> None:
        """The same where every node has a bucket of its own: what was found out about a state
        holds for all nodes that get into it."""
        packed, points, guards = want.packed, want.points, GUARDS
        heaps, fingers = want.heaps, self._fingers
        for vector, bucket in reversed(self._live.items()):
            if bucket < seen:
                break
            if (vector - packed) & guards != guards:
                continue
            state = vector & STATE_MASK
            if state in points:
                known = points[state]
            else:
                if len(points) >= POINTS_MAX:
                    points.clear()
                known = points[state] = self._worth(want, state)
            if known is None:
                continue
            takes, score = known
            if self.extra is not None:
                score += self.extra(want.shape, self._view(vector))
            key = (SCORE_TOP - score) << FINGER_BITS | fingers[bucket]
            heappush(heaps[takes], key << BUCKET_BITS | bucket)

    def _worth(self, want: Want, state: int) -> tuple[int, int] | None:
        """How many of a want a node in this state takes, and how good it is; None: none fits."""
        request, takes = want.request, want.clip
        if request.shared and request.device_count and not (takes := self._sharers(want, state)):
            return None
        number = state >> CLASS_AT & NUMBER
        known = number in want.standings
        standing = want.standings[number] if known else self._standing(want, number)
        if standing is None:
            return None
        if want.clip > 1:
            takes = beside(want.packed, state, takes)
        return takes, self._score(want, state, standing, 0)

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
            self._parts[vector >> SIGN_AT & NUMBER],
        )
        if not self._fit:
            return self._strategy(want.request, free, total, standing.static)
        return standing.base + self._fit * tightness(want.request, free, total) + term


def _weight_of_fit(policy: Policy) -> int:
    rules = policy.place
    known = {"score": rules.weight_fit, "spread": -100, "worst-fit": -100}
    return known.get(rules.strategy, 0)
