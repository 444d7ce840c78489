"""For each want the buckets that it fits in, best first: scored when the want is served.

``node_index.py`` tells the whole idea. A want learns of the buckets that were made since it was
last served, and the score of each follows from what its nodes have left and from their class.
"""

from __future__ import annotations

from heapq import heapify, heappush
from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.core.facts.resources import Amount
from rota.scheduling.api import NodeView
from rota.scheduling.place.buckets import left_parts
from rota.scheduling.place.fragments import Spare
from rota.scheduling.place.free import UNIT, Free
from rota.scheduling.place.gradient import Gradient
from rota.scheduling.place.scores import MEASURES, strategy, tightness
from rota.scheduling.place.stranding import FINEST, REMEMBERED_MAX, Spot, Stranding
from rota.scheduling.place.wants import (
    BUCKET_BITS,
    BUCKET_MASK,
    CLASS_AT,
    CLIP_MAX,
    DEVICES_MASK,
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
    from collections.abc import Callable, Container, Sequence

    from rota.core.derived.lanes import Shape
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Request
    from rota.scheduling.place.buckets import Buckets
    from rota.scheduling.place.devices import DeviceLike
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.place.free import Total
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import Classes, Standing
    from rota.scheduling.place.scores import Measure

#: States of which a want remembers the score; then its memory starts anew.
POINTS_MAX = 1024
#: Wants that are kept at once, and how many of them may be of shapes that no job waits with.
WANTS_MAX = 4096
SPARE_WANTS = 512
#: Buckets that were made since a heap was cleaned, or entries in it: so many more than there are
#: buckets, and it is cleaned again.
STALE_MAX = 512
#: Measures of what comes that are kept: a job that comes and goes changes them there and back.
MEASURES_MAX = 8


class Heaps:
    """The wants, and for each of them a heap of buckets."""

    def __init__(
        self, policy: Policy, buckets: Buckets, classes: Classes, *, picky: bool, ranked: bool
    ) -> None:
        """``picky``: something beyond integers (a plug-in) has a say in every placement."""
        self._policy = policy
        self._buckets = buckets
        self._classes = classes
        self._picky = picky
        #: Every node has a bucket of its own: what was found out about a state is remembered.
        self._ranked = ranked
        self._wants: dict[int, tuple[Want, ...]] = {}
        self._by_shape: dict[Shape, tuple[Want, ...]] = {}
        #: What a tight fit is worth; 0: the strategy looks at all amounts together.
        self._fit = _weight_of_fit(policy)
        #: Knows the shapes that usually come, for the strategies that keep room for them.
        self._measure: Measure | None = None
        #: The last ones, the newest at the end.
        self._measures: dict[tuple[Typical, ...], Measure] = {}
        #: Of the strategy ``score`` the devices of each state, by class and device state.
        self._stranding = Stranding(())
        self._spots: dict[int, tuple[Spot, Total]] = {}
        self._strategy = strategy(policy.place.strategy, policy)
        #: Plugged-in scorers: what they add for a shape on a node with so much left.
        self.extra: Callable[[Shape, NodeView], int] | None = None

    def expect(self, typical: Sequence[Typical]) -> None:
        """The shapes that usually come, for the strategies that keep room for them."""
        before, made = self._measure, self._made_for(tuple(typical)) if typical else None
        self._measure = made
        self._stranding = made if isinstance(made, Stranding) else Stranding(())
        self._spots = {}
        if (before is None) != (made is None):
            self.scores_changed()
        else:
            # Where a task may go at all is as it was: that is dearer to find out than the scores.
            self._score_anew()

    def _made_for(self, typical: tuple[Typical, ...]) -> Measure:
        """Of late ones the same again: what was scored by it still holds."""
        known = self._measures.pop(typical, None)
        if known is None:
            known = MEASURES[self._policy.place.strategy](typical)
        self._measures[typical] = known
        if len(self._measures) > MEASURES_MAX:
            del self._measures[next(iter(self._measures))]
        return known

    def scores_changed(self) -> None:
        """What all scores are measured against is another one now."""
        self._score_anew()
        self.forget()

    def _score_anew(self) -> None:
        name, largest = self._policy.place.strategy, self._classes.largest
        self._strategy = strategy(name, self._policy, self._measure, largest)

    def device_for(
        self, request: Request, room: Room, found: Sequence[DeviceLike]
    ) -> tuple[int, ...]:
        """The device on which a share makes the fewest others useless."""
        measure = self._measure
        if not isinstance(measure, Gradient) or not request.shared or request.device_count != 1:
            return ()
        lefts = [(device.device.index, device.left_milli) for device in found]
        return (measure.pick(request, self.spare(room), lefts),)

    def spare(self, room: Room) -> Spare:
        """What is left on a node, as the measure of fragments sees it."""
        total = self._classes.of[room.node.spec.name].total
        return Spare(
            room.cpu_milli, room.memory_mib, left_parts(room), total.device_mib, total.makes
        )

    def wants(self, number: int, shape: Shape) -> tuple[Want, ...]:
        """The wants of each role of the shape with this number."""
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
            spread = self._policy.place.spread or self._fit < 0 or shape.spread
            known = self._wants[number] = self._by_shape[shape] = tuple(
                Want(role.request, shape, min(role.count, CLIP_MAX), picky=picky, spread=spread)
                for role in shape.roles
            )
        return known

    def forget(self) -> None:
        """Drop all wants: they are made again as they are needed."""
        self._wants.clear()
        self._by_shape.clear()

    def forget_unused(self, waiting: Container[int], count: int) -> None:
        """Drop the wants of shapes other than the ``count`` that wait, if they are many."""
        if len(self._wants) > 2 * count + SPARE_WANTS:
            self._wants = {n: wants for n, wants in self._wants.items() if n in waiting}
            self._by_shape = {wants[0].shape: wants for wants in self._wants.values()}
        if len(self._wants) > WANTS_MAX:
            self.forget()

    def standing(self, want: Want, number: int) -> Standing | None:
        """What the class with this number means for a want; None: it never takes one."""
        if number in want.standings:
            return want.standings[number]
        dearest = self._classes.dearest_for(want.request, want.shape)
        graded = isinstance(self._measure, Stranding) and self._fit > 0 and not want.spread
        fit = -abs(self._fit) if want.spread else self._fit
        standing = want.standings[number] = self._classes.by_number[number].standing(
            want.request, want.shape, self._policy, fit, dearest, graded
        )
        return standing

    def catch_up(self, want: Want) -> None:
        """Score the live buckets that were made since this want was last served."""
        if want.measure is not self._measure:
            want.start_over(self._measure)
        made, seen = self._buckets.made, want.seen
        if seen == made:
            return
        want.seen = made
        if self._ranked:
            self._catch_up_by_state(want, seen)
        else:
            self._catch_up_by_bucket(want, seen)
        if made - want.cleaned > 2 * len(self._buckets.live) + STALE_MAX:
            self._clean(want)

    def _clean(self, want: Want) -> None:
        """Drop the entries of buckets that are gone: most never come to the top of a heap.

        Where few of the buckets were for this want, it has few entries to drop.
        """
        want.cleaned = want.seen
        alive = self._buckets.by_number
        if sum(map(len, want.heaps)) <= 2 * len(alive) + STALE_MAX:
            return
        for heap in want.heaps:
            heap[:] = [entry for entry in heap if entry & BUCKET_MASK in alive]
            heapify(heap)

    def _catch_up_by_bucket(self, want: Want, seen: int) -> None:
        packed, standings, clip, guards = want.packed, want.standings, want.clip, GUARDS
        fit, heaps, by_number = self._fit, want.heaps, self._buckets.by_number
        shared = want.request.shared and want.request.device_count > 0
        stranding, spots, cpu_milli = self._stranding, self._spots, want.request.cpu_milli
        spread, extra, takes, weigh = want.spread, self.extra, clip, self._buckets.weigh
        for vector, made in reversed(self._buckets.live.items()):
            if made < seen:
                break
            if (vector - packed) & guards != guards:
                continue
            number = vector >> CLASS_AT & NUMBER
            standing = standings[number] if number in standings else self.standing(want, number)
            if standing is None:
                continue
            if shared and not (takes := self._sharers(want, standing, vector)):
                continue
            if clip > 1:
                takes = beside(packed, vector, takes if shared else clip)
            bucket = by_number[made]
            if (taking := standing.taking) is not None:
                spot, total = spots.get(vector >> CLASS_AT & DEVICES_MASK) or self._spot(vector)
                fit_there = stranding.fit(taking, cpu_milli, spot, vector & TOP, total)
                score = standing.base + standing.slope * fit_there // FINEST
            else:
                term = (bucket.term if bucket.weighed else weigh(bucket)) if spread else 0
                if fit and not shared:
                    const, dimension, slope, most, *_ = standing
                    free = vector >> dimension * FIELD & TOP
                    score = const - slope * free // most + term
                else:
                    score = self._score(want, vector, standing, term)
            if extra is not None:
                score += extra(want.shape, self._view(vector))
            key = (SCORE_TOP - score) << FINGER_BITS | bucket.finger
            heappush(heaps[takes], key << BUCKET_BITS | made)

    def _catch_up_by_state(self, want: Want, seen: int) -> None:
        """The same where every node has a bucket of its own: what was found out about a state
        holds for all nodes that get into it."""
        packed, points, guards = want.packed, want.points, GUARDS
        heaps, by_number = want.heaps, self._buckets.by_number
        for vector, made in reversed(self._buckets.live.items()):
            if made < seen:
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
            key = (SCORE_TOP - score) << FINGER_BITS | by_number[made].finger
            heappush(heaps[takes], key << BUCKET_BITS | made)

    def _worth(self, want: Want, state: int) -> tuple[int, int] | None:
        """How many of a want a node in this state takes, and how good it is; None: none fits."""
        standing = self.standing(want, state >> CLASS_AT & NUMBER)
        if standing is None:
            return None
        request, takes = want.request, want.clip
        if (
            request.shared
            and request.device_count
            and not (takes := self._sharers(want, standing, state))
        ):
            return None
        if want.clip > 1:
            takes = beside(want.packed, state, takes)
        return takes, self._score(want, state, standing, 0)

    def count(self, want: Want, vector: int) -> int:
        """How many of a want integers let into a bucket, up to what matters."""
        if (vector - want.packed) & GUARDS != GUARDS:
            return 0
        standing = self.standing(want, vector >> CLASS_AT & NUMBER)
        if standing is None:
            return 0
        takes = want.clip
        if want.request.shared and want.request.device_count:
            takes = self._sharers(want, standing, vector)
        return beside(want.packed, vector, takes) if takes > 1 else takes

    def _sharers(self, want: Want, standing: Standing, vector: int) -> int:
        """How many of a want the shared devices of a bucket take, up to what matters."""
        count, share = want.request.device_count, standing.share
        free = self._buckets.states.of[vector >> SIGN_AT & NUMBER][0]
        if not share or len(free) < count or free[count - 1] < share:
            return 0
        if want.clip == 1:
            return 1
        places = sum(left // share for left in free)
        return max(1, min(want.clip, places // count))

    def _view(self, vector: int) -> NodeView:
        """A node of a bucket as scorers see it: any of them, they are alike."""
        kind = self._classes.by_number[vector >> CLASS_AT & NUMBER]
        free = Amount(
            vector & TOP,
            vector >> FIELD & TOP,
            vector >> 2 * FIELD & TOP,
            (vector >> 3 * FIELD & TOP) * 1000,
        )
        return NodeView(kind.spec, kind.labels, kind.taints, free)

    def _spot(self, vector: int) -> tuple[Spot, Total]:
        """The devices of a bucket as what is stranded of them is measured."""
        if len(self._spots) >= REMEMBERED_MAX:
            self._spots.clear()
        total = self._classes.by_number[vector >> CLASS_AT & NUMBER].total
        parts = self._buckets.states.of[vector >> SIGN_AT & NUMBER][1]
        spot = self._stranding.spot((parts, total.device_mib, total.makes))
        known = self._spots[vector >> CLASS_AT & DEVICES_MASK] = (spot, total)
        return known

    def _score(self, want: Want, vector: int, standing: Standing, term: int) -> int:
        """The score where one dimension does not say it all."""
        total = self._classes.by_number[vector >> CLASS_AT & NUMBER].total
        free = Free(
            vector & TOP,
            vector >> FIELD & TOP,
            vector >> 2 * FIELD & TOP,
            vector >> 3 * FIELD & TOP,
            *self._buckets.states.of[vector >> SIGN_AT & NUMBER],
        )
        if not self._fit:
            return self._strategy(want.request, free, total, standing.static) + standing.chosen
        return standing.base + standing.slope // UNIT * tightness(want.request, free, total) + term


def _weight_of_fit(policy: Policy) -> int:
    rules = policy.place
    known = {"score": rules.weight_fit, "spread": -100, "worst-fit": -100}
    return known.get(rules.strategy, 0)
