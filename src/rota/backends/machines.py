"""The machines of an engine as nodes of Rota: names, their cluster, and what keeps jobs off."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rota.backends.pace import PART_MAX
from rota.core.facts.placing import CLUSTER, Taint
from rota.core.facts.site.clusters import AWAY_KEY, AWAY_VALUE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rota.backends.api import EngineNode
    from rota.core.facts.node import NodeSpec

#: What keeps new jobs from a machine to which its engine gives none.
OUT_OF_SERVICE = Taint("engine", "out-of-service")
#: The same for all machines while the engine does not answer.
AWAY = Taint(AWAY_KEY, AWAY_VALUE)
#: They are looked at so often; while one is out of service, more often; and while others use some
#: of them, or where they are pools, as often as jobs, but not more often.
NODES_S, UNWELL_S, SHARED_S = 30.0, 5.0, 1.0


class Machines(NamedTuple):
    """Of one engine; ``cluster`` is what they belong to."""

    engine: str
    cluster: str
    inside_max: int = 0

    def name_of(self, inside: str) -> str:
        """Our name of a machine, by the engine's own."""
        return f"{inside}.{self.engine}"

    def spec_of(self, node: EngineNode, features: Collection[str] = (), early: int = 0) -> NodeSpec:
        """As the controller knows it."""
        spec = replace(
            node.spec,
            name=self.name_of(node.spec.name),
            engine=self.engine,
            labels={CLUSTER: self.cluster, **node.spec.labels},
            features=tuple(sorted(features)),
            pool=node.pool,
            inside_max=self.inside_max if node.pool else 0,
        )
        if node.usable:
            return with_early(spec, early)
        return out_of_service(spec, node.detail or "out of service in the engine")

    def away(self, spec: NodeSpec, why: str) -> NodeSpec:
        """Jobs that may go elsewhere shall; what runs here is held until the engine answers."""
        if AWAY in spec.taints:
            return spec
        remark = f"engine {self.engine} does not answer: {why}"
        return replace(spec, taints=(*spec.taints, AWAY), remarks=(*spec.remarks, remark))


def out_of_service(spec: NodeSpec, remark: str) -> NodeSpec:
    taints = tuple(taint for taint in spec.taints if taint != OUT_OF_SERVICE)
    return replace(spec, remarks=(remark,), taints=(*taints, OUT_OF_SERVICE), early=0)


def with_early(spec: NodeSpec, places: int) -> NodeSpec:
    """How many may be handed in before there is room, if the machine is in service at all."""
    if spec.early == places or OUT_OF_SERVICE in spec.taints:
        return spec
    return replace(spec, early=places)


def next_look_s(specs: Sequence[NodeSpec], poll_s: float, took_s: float) -> float:
    """How long until an engine is asked for its machines again, where these are known.

    What others give back is there for jobs of ours at once. An engine that takes long to answer is
    asked less often.
    """
    if any(spec.pool or spec.largest is not None for spec in specs):
        return max(SHARED_S, poll_s, took_s / PART_MAX)
    return UNWELL_S if any(OUT_OF_SERVICE in spec.taints for spec in specs) else NODES_S
