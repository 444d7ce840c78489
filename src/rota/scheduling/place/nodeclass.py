"""Classes of nodes that differ in nothing but their names and what runs on them.

For each want a class has one ``ClassFit``: whether it may run there at all, and all that its
score needs beyond what is left on the single node.
"""

from __future__ import annotations

from functools import reduce
from operator import is_not
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.place.filters import Case, first_problem
from rota.scheduling.place.free import SMALLEST, UNIT, Total
from rota.scheduling.place.scores import (
    LAST_RESORT,
    class_cost,
    class_score,
    cost_of,
    vdc_fit,
    vdc_points,
)
from rota.scheduling.place.stranding import Asked, asked_of
from rota.scheduling.place.wants import CLASS_AT, GUARDS, NUMBER, content_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Node
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Request

#: The last dimension of a free vector, after CPUs, memory and disk: idle devices.
DEVICES = 3

#: Classes without a node are dropped once there are this many more of them than others.
SPARE = 64


def class_key(node: Node) -> object:
    """Everything that filters and scores may look at beyond a node's name and use."""
    spec = node.spec
    devices = tuple(
        (d.index, d.kind, d.model, d.memory_mib, d.numa, d.links, d.parent, d.usable)
        for d in spec.devices
    )
    labels = tuple(sorted(node.all_labels.items()))
    total, taints = (spec.cpu_milli, spec.memory_mib, spec.disk_mib), node.all_taints
    key: tuple[object, ...] = (*total, devices, labels, taints)
    # Equals are told apart by this: nodes without an owner stand where they always did.
    key = (*key, spec.user) if spec.user else key
    if not spec.engine:
        return key
    return (*key, "engine", spec.engine, spec.features, spec.pool, spec.largest)


class ClassFit(NamedTuple):
    """What a class means for a want.

    With the strategies that look at one dimension, the score of a node with ``free`` left in
    ``dimension`` is ``const - slope * free // total``, plus a term of the node alone.
    """

    const: int
    dimension: int
    slope: int
    total: int
    #: What the class adds to the score, and the same before the strategy had a word in it.
    base: int
    static: int
    #: What a shared request takes of one device, in MiB; 0: it cannot share one here. Where
    #: devices differ in size, of the smallest and of the largest.
    share: int
    most: int
    #: What of it is the choice of a virtual data centre.
    chosen: int
    #: What the request takes of a node here, if the fit is what is stranded of its devices.
    asked: Asked | None


class NodeClass:
    """Nodes that filters and scores cannot tell apart."""

    __slots__ = ("content", "guarded", "id", "labels", "mixed", "sizes", "spec", "taints", "total")

    def __init__(self, number: int, node: Node, policy: Policy) -> None:
        spec = node.spec
        self.id = number
        #: What the vectors of all its buckets have in common.
        self.guarded = GUARDS | number << CLASS_AT
        self.content = content_of(class_key(node))
        self.spec = spec
        self.labels = node.all_labels
        self.taints = node.all_taints
        self.total = Total(
            int(spec.cpu_milli * policy.place.overcommit_cpu) or 1,
            int(spec.memory_mib * policy.place.overcommit_memory) or 1,
            spec.disk_mib or 1,
            len(spec.devices) or 1,
            max((device.memory_mib for device in spec.devices), default=0),
            tuple(dict.fromkeys((device.kind, device.model) for device in spec.devices)),
        )
        self.sizes = tuple(sorted({d.memory_mib for d in spec.devices if d.memory_mib}))
        #: Devices of several kinds or sizes: counting them does not say which are free.
        self.mixed = len({(d.kind, d.model, d.memory_mib) for d in spec.devices}) > 1 or any(
            device.parent >= 0 for device in spec.devices
        )
        #: Its engine may keep tasks out for reasons of its own.
        self.mixed = self.mixed or spec.pool

    def standing(
        self, request: Request, shape: Shape, policy: Policy, fit: int, dearest: float, graded: bool
    ) -> ClassFit | None:
        """None when no node of this class could ever take the request."""
        case = self.case(request, shape, policy)
        if first_problem(case).filter:
            return None
        static, chosen = class_score(case, dearest), vdc_points(case, dearest)
        asked = (request.cpu_milli, request.memory_mib, request.disk_mib, request.device_count)
        # Devices matter most to a request that wants some, else what the request takes most of.
        dimension = DEVICES
        if not request.device_count:
            parts = [asked[d] / self.total[:3][d] for d in range(3)]
            dimension = parts.index(max(parts))
        total = self.total[:4][dimension]
        slope = (fit + vdc_fit(case)) * UNIT if fit else 0
        # UNIT - UNIT * (free - asked) / total, times the weight of the fit.
        tight = slope + slope * asked[dimension] // total
        base = -LAST_RESORT if static < 0 else 0
        if policy.place.strategy == "score":
            base = static
        base += chosen
        share = most = 0
        if request.shared:
            share, most = self.share(request), request.share_of(self.total.device_mib)
        graded = graded and bool(self.spec.devices)
        takes = asked_of(request, self.total.device_mib) if graded else None
        line = (base + tight, dimension, slope, total)
        return ClassFit(*line, base, static, share, most, chosen, takes)

    def case(self, request: Request, shape: Shape, policy: Policy) -> Case:
        return Case(shape, request, self.spec, self.labels, self.taints, policy)

    def share(self, request: Request) -> int:
        """What a shared request takes of one of the devices here, in MiB.

        Half of a small device is less than half of a large one: where sizes differ the least
        counts, so that no node is passed over, and the node itself has the last word.
        """
        return min(map(request.share_of, self.sizes), default=0)


class Classes:
    """The class of each node that takes work, and what all scores are measured against."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.of: dict[str, NodeClass] = {}
        #: What each class was told from: while these very objects stay, so does the class.
        self._told: dict[str, tuple[object, object, object]] = {}
        self._by_key: dict[object, NodeClass] = {}
        #: No number is given out twice.
        self.by_number: dict[int, NodeClass] = {}
        self._next = 0
        #: How many nodes each class has; some that have none now are kept for their return.
        self._population: dict[NodeClass, int] = {}
        #: The most that any node has in each dimension, and what a node of the dearest class costs.
        self.largest = SMALLEST
        self.dearest = 0.0
        #: With prices it depends on the request what the dearest of the classes costs.
        self._dearest_for: dict[Request, float] = {}

    def dearest_for(self, request: Request, shape: Shape) -> float:
        """What the dearest class costs that has what the request asks for."""
        if not self._policy.prices.rates:
            return self.dearest
        known = self._dearest_for.get(request)
        if known is None:
            costs = (class_cost(k.case(request, shape, self._policy)) for k in self._population)
            known = self._dearest_for[request] = max(costs, default=0.0)
        return known

    @property
    def there(self) -> Iterable[NodeClass]:
        """The classes that have a node."""
        return self._population

    @property
    def measure(self) -> object:
        """What costs are measured against: with prices, all classes that there are."""
        return frozenset(self._population) if self._policy.prices.rates else self.dearest

    def sort_in(self, node: Node) -> None:
        """See what class the node is of now."""
        name, told = node.spec.name, (node.spec, node.labels, node.taints)
        before = self._told.get(name)
        if before is not None and not any(map(is_not, before, told)):
            return
        self._told[name] = told
        key = class_key(node)
        kind = self._by_key.get(key)
        if kind is None:
            kind = self._by_key[key] = self._make(node)
        old = self.of.get(name)
        if old is kind:
            return
        self.of[name] = kind
        if kind not in self._population:
            self._population[kind] = 0
            self._dearest_for.clear()
            self.largest = self.largest.larger(kind.total)
            self.dearest = max(self.dearest, cost_of(kind.labels))
        self._population[kind] += 1
        if old is not None:
            self._one_less(old)

    def _make(self, node: Node) -> NodeClass:
        if self._next > NUMBER:
            raise OverflowError(f"all {self._next} numbers of classes have been given out")
        kind = self.by_number[self._next] = NodeClass(self._next, node, self._policy)
        self._next += 1
        return kind

    def drop(self, name: str) -> None:
        """The node takes no work any more."""
        self._told.pop(name, None)
        kind = self.of.pop(name, None)
        if kind is not None:
            self._one_less(kind)

    def _one_less(self, kind: NodeClass) -> None:
        self._population[kind] -= 1
        if self._population[kind]:
            return
        del self._population[kind]
        self._dearest_for.clear()
        left = self._population
        if self.largest.is_reached_by(kind.total):
            self.largest = reduce(Total.larger, (other.total for other in left), SMALLEST)
        if cost_of(kind.labels) >= self.dearest:
            self.dearest = max((cost_of(other.labels) for other in left), default=0.0)

    def forget_empty(self) -> bool:
        """Drop the classes without a node, if they are many; whether any were dropped."""
        if len(self.by_number) <= 2 * len(self._population) + SPARE:
            return False
        self.by_number = {kind.id: kind for kind in self._population}
        self._by_key = {key: k for key, k in self._by_key.items() if k in self._population}
        return True
