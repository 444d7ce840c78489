"""What no node could ever run is refused at submit, naming what is missing."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from rota.core.derived.lanes import shape_of
from rota.core.facts.errors import Rejected
from rota.core.facts.job import ServiceClass
from rota.scheduling.place.node_room import Room
from rota.scheduling.place.trial_rooms import count_in, place_in

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape
    from rota.core.facts.job import JobSpec, Role
    from rota.core.facts.node import Node
    from rota.core.facts.resources import Request

#: Up to so many nodes are tried together.
FEW = 64


def refuse_impossible(cluster: Cluster, spec: JobSpec) -> None:
    """A job that no node could run even when empty is refused, naming the dimension.

    Without any node on record (the agent has not reported yet) nothing can be said, and a job
    with a scheduling timeout may wait for a node that does not exist yet. The same where pilots
    bring nodes that nobody knows yet. Labels and taints are
    not looked at: they change more easily than machines do.
    """
    if not cluster.nodes or cluster.pilots:
        return
    shape = shape_of(spec, cluster.policy.gang.partial)
    for role in shape.roles:
        _refuse_task(cluster, shape, role.request)
        if role.count > 1 or shape.placement.node_count:
            _refuse_gang(cluster, shape, role)
    if len(shape.roles) > 1:
        _refuse_together(cluster, shape)


def _refuse_task(cluster: Cluster, shape: Shape, request: Request) -> None:
    """One node that fits is enough, so most submits look at one."""
    firm = shape.service is ServiceClass.GUARANTEED
    rules = cluster.policy.place
    first = ""
    for node in cluster.nodes.values():
        short = Room.empty(_whole(node), rules).shortage(request, firm=firm)
        if not short:
            return
        first = first or short
    _refuse(first, request, nodes_have(cluster, first))


def _refuse_gang(cluster: Cluster, shape: Shape, role: Role) -> None:
    """Enough nodes must exist for all tasks of a role, or for the fewest that it starts with."""
    nodes = shape.placement.node_count
    share = -(-role.count // nodes) if nodes else 0
    wanted = role.min_count or role.count
    hosts = found = 0
    for node in cluster.nodes.values():
        count = count_in(Room.empty(_whole(node), cluster.policy.place), shape, role)
        found += count
        hosts += count >= max(share, 1)
        if found >= wanted and hosts >= nodes:
            return
    if nodes and hosts < nodes:
        why = f"{nodes} nodes asked for, but only {hosts} can take {share} of its tasks each"
        raise Rejected.because("nodes", nodes, why)
    why = f"{role.count} tasks of this size do not fit here: all nodes together take {found}"
    raise Rejected.because("tasks", role.count, why)


def _refuse_together(cluster: Cluster, shape: Shape) -> None:
    """Roles that fit one by one may not fit beside each other; on a large site nobody asks."""
    if len(cluster.nodes) > FEW or shape.placement.topology:
        return
    rooms = {n.name: Room.empty(_whole(n), cluster.policy.place) for n in cluster.nodes.values()}
    alone = msgspec.structs.replace(shape.placement, nodes=(), exclude=())
    if place_in(rooms, shape._replace(placement=alone), {}) is None:
        tasks = sum(role.count for role in shape.roles)
        raise Rejected.because(
            "tasks", tasks, f"the {tasks} tasks of its roles do not fit here together"
        )


def _whole(node: Node) -> Node:
    """The node with the devices that others have now, by an inventory outside: they come back."""
    if not node.elsewhere:
        return node
    twin = copy.copy(node)
    twin.spec = node.spec.with_closed(node.closed)
    return twin


def _refuse(dimension: str, request: Request, have: str) -> None:
    field, value = {
        "cpus": ("cpus", f"{request.cpu_milli / 1000:g}"),
        "memory": ("memory", f"{request.memory_mib} MiB"),
        "disk": ("disk", f"{request.disk_mib} MiB"),
    }.get(dimension, (dimension.replace(" ", "_"), _device_words(request)))
    raise Rejected.because(f"resources.{field}", value, f"{value} asked for, but {have}")


def _device_words(request: Request) -> str:
    kind = request.device.upper() if request.device in ("gpu", "tpu") else request.device
    kind = f"{request.device_type} {kind}".strip()
    memory = request.device_memory_mib
    numbers = ",".join(map(str, request.device_indices))
    named = f" with index {numbers}" if numbers else ""
    several = "" if request.device_count == 1 else "s"
    return (
        f"{request.device_count} {kind}{several}" + (f" of {memory} MiB" if memory else "") + named
    )


def nodes_have(cluster: Cluster, dimension: str) -> str:
    """What the largest node has in a dimension, in words."""
    specs = [_whole(node).spec for node in cluster.nodes.values()]
    if dimension == "cpus":
        return f"the largest node has {max(spec.cpu_milli for spec in specs) / 1000:g} CPUs"
    if dimension == "memory":
        return f"the largest node has {max(spec.memory_mib for spec in specs)} MiB of memory"
    if dimension == "disk":
        return f"the largest node has {max(spec.disk_mib for spec in specs)} MiB of disk"
    models = sorted({d.model or d.kind for spec in specs for d in spec.devices if d.usable})
    most = max(sum(device.usable for device in spec.devices) for spec in specs)
    what = "device" if most == 1 else "devices"
    return f"no node has more than {most} {what}" + (f" ({', '.join(models)})" if models else "")
