"""From Ray's nodes to what there is for jobs of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.backends.api import EngineNode
from rota.backends.ray.records import RayAmount
from rota.core.facts.node import Device, Machine, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.backends.ray.records import RayNode

POOL = "pool"
LOST = "Ray has lost it"


def usable(nodes: Iterable[RayNode]) -> dict[str, RayNode]:
    """Living nodes with something to compute on, by name; the head often has nothing."""
    living = [node for node in nodes if node.alive and (node.has.cpu_milli or node.has.gpus)]
    names = [node.node_name or node.node_ip for node in living]
    found = {}
    for name, node in zip(names, living, strict=True):
        # Names are given freely, addresses are not.
        found[name if names.count(name) == 1 else f"{name}-{node.node_ip}"] = node
    return dict(sorted(found.items()))


def as_nodes(
    living: Mapping[str, RayNode], foreign: Mapping[str, RayAmount], before: Iterable[NodeSpec]
) -> list[EngineNode]:
    """Every node that lives, and those of ``before`` that do so no longer."""
    shown = [EngineNode(spec=_spec(name, node, foreign[name])) for name, node in living.items()]
    gone = [spec for spec in before if spec.name not in living]
    return shown + [EngineNode(spec=spec, usable=False, detail=LOST) for spec in gone]


def as_pool(living: Mapping[str, RayNode], foreign: Mapping[str, RayAmount]) -> EngineNode:
    specs = [_spec(name, node, foreign[name]) for name, node in living.items()]
    models = {device.model for spec in specs for device in spec.devices}
    count = sum(len(spec.devices) for spec in specs)
    spec = NodeSpec(
        name=POOL,
        cpu_milli=sum(spec.cpu_milli for spec in specs),
        memory_mib=sum(spec.memory_mib for spec in specs),
        devices=_devices(POOL, count, models.pop() if len(models) == 1 else ""),
        system="ray",
    )
    if specs:
        one = max((_spec(name, node, RayAmount()) for name, node in living.items()), key=_size)
        machine = Machine(one.cpu_milli, one.memory_mib, devices=one.devices, count=len(specs))
        spec = replace(spec, largest=machine)
    why = "" if specs else "Ray has no node with processors"
    return EngineNode(spec=spec, usable=bool(specs), detail=why, pool=True)


def _size(spec: NodeSpec) -> tuple[int, int, int]:
    return (len(spec.devices), spec.cpu_milli, spec.memory_mib)


def _spec(name: str, node: RayNode, foreign: RayAmount) -> NodeSpec:
    free = node.has.less(foreign)
    return NodeSpec(
        name=name,
        cpu_milli=free.cpu_milli,
        memory_mib=free.memory_mib,
        devices=_devices(name, free.gpus, node.model),
        labels={k: v for k, v in (node.labels or {}).items() if k != "ray.io/node-id"},
        address=node.node_ip,
        system="ray",
    )


def _devices(owner: str, count: int, model: str) -> tuple[Device, ...]:
    return tuple(
        Device(index=index, uuid=f"{owner}/{index}", model=model) for index in range(count)
    )
