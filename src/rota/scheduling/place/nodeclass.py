"""Classes of nodes that differ in nothing but their names and what runs on them.

For each want a class has one ``Standing``: whether it may run there at all, and all that its
score needs beyond what is left on the single node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.place.filters import static_problem
from rota.scheduling.place.scores import LAST_RESORT, UNIT, Total, class_score
from rota.scheduling.place.wants import CLASS_AT, GUARDS, content_of

if TYPE_CHECKING:
    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Node
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Request

#: The dimensions of a free vector: CPUs, memory, disk, idle devices.
CPU, MEMORY, DISK, DEVICES = range(4)


def class_key(node: Node) -> object:
    """Everything that filters and scores may look at beyond a node's name and use."""
    spec = node.spec
    devices = tuple(
        (d.index, d.kind, d.model, d.memory_mib, d.numa, d.links, d.parent, d.usable)
        for d in spec.devices
    )
    labels = tuple(sorted(node.all_labels.items()))
    return spec.cpu_milli, spec.memory_mib, spec.disk_mib, devices, labels, node.all_taints


class Standing(NamedTuple):
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


class NodeClass:
    """Nodes that filters and scores cannot tell apart."""

    __slots__ = (
        *("_shares", "content", "guarded", "id", "labels", "mixed", "spec", "taints", "total"),
    )

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
        #: Devices of several kinds or sizes: counting them does not say which are free.
        self.mixed = len({(d.kind, d.model, d.memory_mib) for d in spec.devices}) > 1 or any(
            device.parent >= 0 for device in spec.devices
        )
        self._shares: dict[Request, int] = {}

    def standing(
        self, request: Request, shape: Shape, policy: Policy, fit: int, dearest: float
    ) -> Standing | None:
        """None when no node of this class could ever take the request."""
        if static_problem(shape, request, self.spec, self.labels, self.taints, policy):
            return None
        static = class_score(shape, request, self.spec, self.labels, self.taints, policy, dearest)
        dimension = self._dimension(request)
        total = self.total[:4][dimension]
        slope = fit * UNIT
        # UNIT - UNIT * (free - asked) / total, times the weight of the fit.
        tight = slope + slope * _asked(request, dimension) // total
        base = -LAST_RESORT if static < 0 else 0
        if policy.place.strategy == "score":
            base = static
        return Standing(base + tight, dimension, slope, total, base, static)

    def _dimension(self, request: Request) -> int:
        """Devices matter most to whoever wants some, else what the request takes most of."""
        if request.device_count:
            return DEVICES
        return max((CPU, MEMORY, DISK), key=lambda d: _asked(request, d) / self.total[:4][d])

    def share(self, request: Request) -> int:
        """What a shared request takes of one of the devices here, in MiB.

        Half of a small device is less than half of a large one: where sizes differ the least
        counts, so that no node is passed over, and the node itself has the last word.
        """
        known = self._shares.get(request)
        if known is None:
            sizes = {device.memory_mib for device in self.spec.devices if device.memory_mib}
            known = self._shares[request] = min(map(request.share_of, sizes), default=0)
        return known


def _asked(request: Request, dimension: int) -> int:
    if dimension == CPU:
        return request.cpu_milli
    if dimension == MEMORY:
        return request.memory_mib
    return request.disk_mib if dimension == DISK else request.device_count
