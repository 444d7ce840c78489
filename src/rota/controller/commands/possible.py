"""What no node could ever run is refused at submit, naming what is missing."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from rota.core.derived.lanes import shape_of
from rota.core.facts.errors import Rejected
from rota.core.facts.features import WITHOUT
from rota.core.facts.job import ServiceClass
from rota.core.words.units import counted
from rota.scheduling.place.filters import missing_feature
from rota.scheduling.place.node_room import Room
from rota.scheduling.place.trial_rooms import count_in, place_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape
    from rota.core.facts.job import JobSpec, Role
    from rota.core.facts.node import Node
    from rota.core.facts.resources import Request

#: Up to this many nodes are tried together.
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
    _refuse_unable(cluster, shape)
    for role in shape.roles:
        _refuse_task(cluster, shape, role.request)
        if role.count > 1 or shape.placement.node_count:
            _refuse_gang(cluster, shape, role)
    if len(shape.roles) > 1:
        _refuse_together(cluster, shape)


def _able(cluster: Cluster, shape: Shape) -> Iterator[Node]:
    """The nodes that can do what the job needs, one by one: most callers look at the first."""
    wanted = shape.placement.nodes
    named = [node for name in wanted if (node := cluster.nodes.get(name)) is not None]
    nodes = named or cluster.nodes.values()
    return (node for node in nodes if missing_feature(shape, node.spec) is None)


def _refuse_unable(cluster: Cluster, shape: Shape) -> None:
    """What its engines cannot do, where there is nowhere else to run."""
    if next(_able(cluster, shape), None) is not None:
        return
    specs = [node.spec for name, node in cluster.nodes.items() if name in shape.placement.nodes]
    elsewhere = "the job names no other nodes" if specs else "all nodes here are those of engines"
    lacking = [
        f"engine {spec.engine} {WITHOUT[missing]}"
        for spec in specs or [node.spec for node in cluster.nodes.values()]
        if (missing := missing_feature(shape, spec)) is not None
    ]
    raise Rejected(f"{'; '.join(dict.fromkeys(lacking))}, and {elsewhere}")


def _refuse_task(cluster: Cluster, shape: Shape, request: Request) -> None:
    """One node that fits is enough, so most submits look at one."""
    firm = shape.service is ServiceClass.GUARANTEED
    rules = cluster.policy.place
    first = ""
    for node in _able(cluster, shape):
        short = Room.empty(_whole(node), rules).shortage(request, firm=firm)
        if not short:
            return
        first = first or short
    _refuse(first, request, nodes_have([*_able(cluster, shape)], first))


def _refuse_gang(cluster: Cluster, shape: Shape, role: Role) -> None:
    """Enough nodes must exist for all tasks of a role, or for the fewest that it starts with.

    All of them lie on one side: on machines of ours, or in one engine or pool.
    """
    nodes = shape.placement.node_count
    share = -(-role.count // nodes) if nodes else 0
    wanted = role.min_count or role.count
    sides: dict[str, tuple[int, int]] = {}
    for node in _able(cluster, shape):
        machines = node.spec.largest.count if node.spec.pool and node.spec.largest else 1
        count = count_in(Room.empty(_whole(node), cluster.policy.place), shape, role)
        found, hosts = sides.get(node.spec.side, (0, 0))
        found, hosts = found + count * machines, hosts + machines * (count >= max(share, 1))
        if found >= wanted and hosts >= nodes:
            return
        sides[node.spec.side] = (found, hosts)
    most_hosts = max((hosts for _, hosts in sides.values()), default=0)
    together = "all nodes together take" if len(sides) < 2 else "no engine takes more than"
    if nodes and most_hosts < nodes:
        why = f"{nodes} nodes asked for, but only {most_hosts} can take {share} of its tasks each"
        raise Rejected.because("nodes", nodes, why)
    most = max((found for found, _ in sides.values()), default=0)
    why = f"{role.count} tasks of this size do not fit here: {together} {most}"
    raise Rejected.because("tasks", role.count, why)


def _refuse_together(cluster: Cluster, shape: Shape) -> None:
    """Roles that fit one by one may not fit beside each other; on a large site nobody asks."""
    if len(cluster.nodes) > FEW or shape.placement.topology:
        return
    nodes = [*_able(cluster, shape)]
    if any(node.spec.pool for node in nodes):
        return
    rooms = {node.name: Room.empty(_whole(node), cluster.policy.place) for node in nodes}
    alone = msgspec.structs.replace(shape.placement, nodes=(), exclude=())
    if place_in(rooms, shape._replace(placement=alone), {}) is None:
        tasks = sum(role.count for role in shape.roles)
        raise Rejected.because(
            "tasks", tasks, f"the {tasks} tasks of its roles do not fit here together"
        )


def _whole(node: Node) -> Node:
    """One machine of the node, with what others have of it now: that comes back."""
    largest = node.spec.largest
    if not node.elsewhere and largest is None:
        return node
    twin = copy.copy(node)
    twin.spec = node.spec.with_closed(node.closed) if node.elsewhere else node.spec
    if largest is not None:
        twin.spec = msgspec.structs.replace(
            twin.spec,
            cpu_milli=largest.cpu_milli,
            memory_mib=largest.memory_mib,
            disk_mib=largest.disk_mib,
            devices=largest.devices,
        )
    return twin


def _refuse(dimension: str, request: Request, have: str) -> None:
    kind = request.device
    known: dict[str, tuple[str, object, str]] = {
        "cpus": ("cpus", request.cpu_milli / 1000, f"{request.cpu_milli / 1000:g}"),
        "memory": ("memory_mib", request.memory_mib, f"{request.memory_mib} MiB"),
        "disk": ("disk_mib", request.disk_mib, f"{request.disk_mib} MiB"),
        f"{kind} type": ("gpu_type", request.device_type, _device_words(request)),
        f"{kind} memory": ("gpu_memory_mib", request.device_memory_mib, _device_words(request)),
        f"{kind} indices": ("gpu_indices", [*request.device_indices], _device_words(request)),
    }
    # What is left is how many.
    name, value, words = known.get(
        dimension, (dimension, request.device_count, _device_words(request))
    )
    detail = f"resources.{name}: {words} asked for, but {have}"
    raise Rejected(detail, field=f"resources.{name}", value=value, allowed=have)


def _device_words(request: Request) -> str:
    kind = request.device.upper() if request.device in ("gpu", "tpu") else request.device
    kind = f"{request.device_type} {kind}".strip()
    memory = request.device_memory_mib
    numbers = ",".join(map(str, request.device_indices))
    named = f" with index {numbers}" if numbers else ""
    count = counted(request.device_count, f"{kind}s")
    return count + (f" of {memory} MiB" if memory else "") + named


def nodes_have(nodes: Sequence[Node], dimension: str) -> str:
    """What the largest of these nodes has in a dimension, in words."""
    specs = [_whole(node).spec for node in nodes]
    if dimension == "cpus":
        return (
            f"the largest node has {counted(max(spec.cpu_milli for spec in specs) / 1000, 'CPUs')}"
        )
    if dimension == "memory":
        return f"the largest node has {max(spec.memory_mib for spec in specs)} MiB of memory"
    if dimension == "disk":
        return f"the largest node has {max(spec.disk_mib for spec in specs)} MiB of disk"
    models = sorted({d.model or d.kind for spec in specs for d in spec.devices if d.usable})
    most = max(sum(device.usable for device in spec.devices) for spec in specs)
    if not most:
        return "no node has any"
    kinds = {device.kind for spec in specs for device in spec.devices if device.usable}
    what = counted(most, "GPUs" if kinds == {"gpu"} else "devices")
    return f"no node has more than {what}" + (f" ({', '.join(models)})" if models else "")
