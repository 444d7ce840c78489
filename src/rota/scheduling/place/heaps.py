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
from rota.scheduling.place.free import UNIT
from rota.scheduling.place.gradient import Gradient
from rota.scheduling.place.scores import MEASURES, shared_tightness, strategy
from rota.scheduling.place.stranding import FINEST, Stranding
from rota.scheduling.place.wants import (
    BUCKET_MASK,
    CLIP_MAX,
    GUARDS,
    SCORE_AT,
    SCORE_TOP,
    STATE_MASK,
    Want,
    beside,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from rota.core.derived.lanes import Shape
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Request
    from rota.scheduling.place.buckets import Bucket, Buckets
    from rota.scheduling.place.devices import DeviceLike
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import Classes, ClassFit
    from rota.scheduling.place.scores import Measure
    from rota.scheduling.place.stranding import Fits

#: States of which a want remembers the score; then its memory starts anew.
POINTS_MAX = 1024
#: Wants that are kept at once, and how many of them may be of shapes that no job waits with.
WANTS_MAX = 4096
SPARE_WANTS = 512
#: Buckets that were made since a heap was cleaned, or entries in it: this many more than there are
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
        self._measures: list[tuple[tuple[Typical, ...], Measure]] = []
        self._stranding = Stranding(())
        self._strategy = strategy(policy.place.strategy, policy)
        #: Plugged-in scorers: what they add for a shape on a node with this amount left.
        self.extra: Callable[[Shape, NodeView], int] | None = None

    def expect(self, typical: Sequence[Typical]) -> None:
        """The shapes that usually come, for the strategies that keep room for them."""
        before, made = self._measure, self._made_for(tuple(typical)) if typical else None
        self._measure = made
        self._stranding = made if isinstance(made, Stranding) else Stranding(())
        if (before is None) != (made is None):
            self.scores_changed()
        else:
            # Where a task may go at all is as it was: that is dearer to find out than the scores.
            self._score_anew()

    def _made_for(self, typical: tuple[Typical, ...]) -> Measure:
        """Of late ones the same again: what was scored by it still holds."""
        # A list: a look at the first share tells most of them apart, and hashes are long-winded.
        measures = self._measures
        at = next((at for at, (made_for, _) in enumerate(measures) if made_for == typical), None)
        if at is not None:
            measures.append(measures.pop(at))
        else:
            measures.append((typical, MEASURES[self._policy.place.strategy](typical)))
            del measures[:-MEASURES_MAX]
        return measures[-1][1]

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

    def standing(self, want: Want, number: int) -> ClassFit | None:
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
        if made - want.cleaned > 2 * len(self._buckets.by_number) + STALE_MAX:
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
        heaps, asks, extra, weigh = want.heaps, want.asks, self.extra, self._buckets.weigh
        shared, count, fit = want.shared, want.request.device_count, self._fit
        spread = want.spread and fit
        stranding, known = self._stranding, self._stranding.fits
        for bucket in reversed(self._buckets.by_number.values()):
            made = bucket.number
            if made < seen:
                break
            if (bucket.amounts - packed) & guards != guards:
                continue
            number, left, takes = bucket.kind.id, bucket.left, clip
            standing = standings[number] if number in standings else self.standing(want, number)
            if standing is None or (
                shared
                and (
                    not (share := standing.share)
                    or len(free := bucket.free[4]) < count
                    or free[count - 1] < share
                )
            ):
                continue
            if clip > 1:
                takes = beside(asks, left, _sharers(want, share, free) if shared else clip)
            if (asked := standing.asked) is not None:
                fits = known.get((number, bucket.sign, left[0])) or self._fits(bucket)
                fit_there = fits.known.get(asked) or stranding.fit(asked, fits)
                score = standing.base + standing.slope * fit_there // FINEST
            elif fit and not shared:
                const, dimension, slope, most, *_ = standing
                score = const - slope * left[dimension] // most
            elif fit:
                tight = shared_tightness(standing.most, free, bucket.kind.total[4])
                score = standing.base + standing.slope // UNIT * tight
            else:
                score = self._score(want, bucket, standing)
            score += (bucket.term or weigh(bucket)) if spread else 0
            if extra is not None:
                score += extra(want.shape, _view(bucket))
            heappush(heaps[takes], (SCORE_TOP - score) << SCORE_AT | bucket.tail)

    def _catch_up_by_state(self, want: Want, seen: int) -> None:
        """The same where every node has a bucket of its own: what was found out about a state
        holds for all nodes that get into it."""
        packed, points, heaps, guards = want.packed, want.points, want.heaps, GUARDS
        for bucket in reversed(self._buckets.by_number.values()):
            if bucket.number < seen:
                break
            if (bucket.amounts - packed) & guards != guards:
                continue
            state = bucket.vector & STATE_MASK
            if state in points:
                known = points[state]
            else:
                if len(points) >= POINTS_MAX:
                    points.clear()
                known = points[state] = self._worth(want, bucket)
            if known is None:
                continue
            takes, score = known
            if self.extra is not None:
                score += self.extra(want.shape, _view(bucket))
            heappush(heaps[takes], (SCORE_TOP - score) << SCORE_AT | bucket.tail)

    def _worth(self, want: Want, bucket: Bucket) -> tuple[int, int] | None:
        """How many of a want such a node takes, and how good it is; None: none fits."""
        standing, takes = self.standing(want, bucket.kind.id), self.count(want, bucket)
        if standing is None or not takes:
            return None
        return takes, self._score(want, bucket, standing)

    def count(self, want: Want, bucket: Bucket) -> int:
        """How many of a want integers let into a bucket, up to what matters."""
        if (bucket.amounts - want.packed) & GUARDS != GUARDS:
            return 0
        number, takes = bucket.kind.id, want.clip
        known = want.standings
        standing = known[number] if number in known else self.standing(want, number)
        if standing is None:
            return 0
        if want.shared:
            count, share, free = want.request.device_count, standing.share, bucket.free[4]
            if not share or len(free) < count or free[count - 1] < share:
                return 0
            takes = _sharers(want, share, free)
        return beside(want.asks, bucket.left, takes) if takes > 1 else takes

    def _fits(self, bucket: Bucket) -> Fits:
        """How good the nodes of a bucket are by their devices, whatever memory they have left."""
        total, state = bucket.kind.total, (bucket.kind.id, bucket.sign, bucket.left[0])
        devices = (bucket.free.device_milli, total.device_mib, total.makes)
        return self._stranding.fits_in(state, devices, total)

    def _score(self, want: Want, bucket: Bucket, standing: ClassFit) -> int:
        """The score where the strategy looks at all amounts together."""
        free, total = bucket.free, bucket.kind.total
        return self._strategy(want.request, free, total, standing.static) + standing.chosen


def _sharers(want: Want, share: int, free: tuple[int, ...]) -> int:
    """How many of a want devices with this free memory take that take one, up to what matters."""
    places = sum([left // share for left in free])
    return max(1, min(want.clip, places // want.request.device_count))


def _view(bucket: Bucket) -> NodeView:
    """A node of a bucket as scorers see it: any of them, they are alike."""
    kind, (cpu_milli, memory_mib, disk_mib, idle) = bucket.kind, bucket.left
    free = Amount(cpu_milli, memory_mib, disk_mib, idle * 1000)
    return NodeView(kind.spec, kind.labels, kind.taints, free)


def _weight_of_fit(policy: Policy) -> int:
    rules = policy.place
    known = {"score": rules.weight_fit, "spread": -100, "worst-fit": -100}
    return known.get(rules.strategy, 0)
