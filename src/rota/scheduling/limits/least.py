"""What a job keeps from others at the least when it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.holdings import least_of
from rota.core.facts.resources import Amount

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape


def whole_nodes(cluster: Cluster, shape: Shape) -> list[Amount]:
    """What a job that has its nodes to itself keeps from others with each node that suits."""
    given, only = max((role.request.amount for role in shape.roles), key=size_of), shape.placement
    return [
        node.spec.kept_by(given)
        for name, node in cluster.nodes.items()
        if only.admits(name)
        and node.spec.cpu_milli >= given.cpu_milli
        and node.spec.memory_mib >= given.memory_mib
        and 1000 * len(node.spec.devices) >= given.device_milli
    ]


def size_of(amount: Amount) -> tuple[int, int]:
    return amount.cpu_milli, amount.device_milli


def least_on(cluster: Cluster, shape: Shape) -> Amount:
    """The same on the nodes that there are: in no dimension can a start hold less."""
    least = least_of(shape)
    wholes = whole_nodes(cluster, shape) if shape.placement.exclusive else []
    if not wholes:
        return least
    return Amount(
        max(least.cpu_milli, min(whole.cpu_milli for whole in wholes)),
        max(least.memory_mib, min(whole.memory_mib for whole in wholes)),
        max(least.disk_mib, min(whole.disk_mib for whole in wholes)),
        max(least.device_milli, min(whole.device_milli for whole in wholes)),
    )
