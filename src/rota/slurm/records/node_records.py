"""From the controller's nodes and queues to the records that the showing commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.states import NodeState, QueueState
from rota.hostlist import natural
from rota.slurm.records.records import NodeRecord, PartitionRecord
from rota.slurm.records.tres import count_models, gres_text, gres_used_text, model_word, tres_text

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node
    from rota.core.facts.tenant import Queue, Reservation
    from rota.scheduling.api import Promise

#: The queue that a job goes to when nobody names one.
DEFAULT_QUEUE = "default"


def node_records(cluster: Cluster, promises: dict[int, Promise] | None = None) -> list[NodeRecord]:
    """Every node, by name; ``promises`` say which of them are kept for a job that waits."""
    queues = tuple(partition_names(cluster))
    planned = {held.node for promise in (promises or {}).values() for held in promise.allocations}
    order = sorted(cluster.nodes, key=natural)
    return [_node(cluster.nodes[name], queues, name in planned) for name in order]


def reservation_name(item: Reservation) -> str:
    """Its note where that is one word, as the Slurm commands write it; else a number."""
    return item.note if item.note and " " not in item.note else f"r{item.id}"


def partition_names(cluster: Cluster) -> list[str]:
    """The default one first, then as they were made."""
    names = list(cluster.queues)
    default = default_partition(cluster)
    return sorted(names, key=lambda name: name != default)


def default_partition(cluster: Cluster) -> str:
    if DEFAULT_QUEUE in cluster.queues:
        return DEFAULT_QUEUE
    return next(iter(cluster.queues), DEFAULT_QUEUE)


def _node(node: Node, queues: tuple[str, ...], planned: bool) -> NodeRecord:
    spec, free = node.spec, node.headroom()
    cpus = max(1, spec.cpu_milli // 1000)
    used = -(-(spec.cpu_milli - free.cpu_milli) // 1000)
    busy = [index for held in node.live.values() for index in held.devices]
    state, flags = _state(node, used, cpus, planned)
    gpus = count_models(spec.devices)
    words = spec.system.split()
    return NodeRecord(
        name=node.name,
        host=node.name,
        address=spec.address or node.name,
        state=state,
        flags=flags,
        silent=node.lost or (node.state is NodeState.DOWN and not node.drained),
        cpus=cpus,
        cpus_used=min(used, cpus),
        memory_mib=spec.memory_mib,
        memory_used_mib=spec.memory_mib - free.memory_mib,
        memory_free_mib=max(0, free.memory_mib),
        disk_mib=spec.disk_mib,
        sockets=cpus,
        gres=gres_text(spec.devices),
        gres_used=gres_used_text(spec.devices, busy),
        features=_features(node),
        reason=_reason(node),
        reason_by="root" if _reason(node) else "",
        # Since when it is away is known, since when it is drained is not.
        reason_s=node.seen_s if node.state is NodeState.DOWN else 0.0,
        since_s=node.seen_s,
        busy_s=node.seen_s,
        system=spec.system,
        arch=words[-1] if len(words) > 2 else "x86_64",
        partitions=queues,
        tres=tres_text(cpus, spec.memory_mib, 0, gpus),
        tres_used=_used(node, used, spec.memory_mib - free.memory_mib, busy),
    )


def _used(node: Node, cpus: int, memory_mib: int, busy: list[int]) -> str:
    if not node.live or not cpus:
        return ""
    models = {device.index: model_word(device.model) for device in node.spec.devices}
    gpus: dict[str, int] = {}
    for index in busy:
        word = models.get(index, "")
        gpus[word] = gpus.get(word, 0) + 1
    return tres_text(cpus, memory_mib, 0, gpus, billing=False)


def _state(node: Node, used: int, cpus: int, planned: bool) -> tuple[str, tuple[str, ...]]:
    """The base word, and what is said beside it."""
    if node.state is NodeState.DOWN or node.lost:
        return "DOWN", ("DRAIN",) if node.drained else ()
    base = "IDLE" if not used and not node.live else "ALLOCATED" if used >= cpus else "MIXED"
    flags = []
    if node.drained or node.state is NodeState.DRAINED:
        flags.append("DRAIN")
    if planned and base == "IDLE":
        flags.append("PLANNED")
    return base, tuple(flags)


def _reason(node: Node) -> str:
    if node.drained or node.state is NodeState.DRAINED:
        return node.note or "drained"
    if node.state is NodeState.DOWN or node.lost:
        return node.note or "Not responding"
    return ""


def _features(node: Node) -> str:
    """Labels as features: the key alone where it says all."""
    return ",".join(
        key if value in ("", "true", "1") else f"{key}={value}"
        for key, value in node.all_labels.items()
    )


#: A queue's state as that of a partition.
_PARTITION_STATES = {
    QueueState.ACTIVE: "UP",
    QueueState.PAUSED: "DOWN",
    QueueState.DRAINING: "DRAIN",
    QueueState.CLOSED: "INACTIVE",
}


def partition_records(cluster: Cluster) -> list[PartitionRecord]:
    """Every queue. Rota's queues share all nodes."""
    nodes = tuple(sorted(cluster.nodes, key=natural))
    cpus = sum(max(1, node.spec.cpu_milli // 1000) for node in cluster.nodes.values())
    memory = sum(node.spec.memory_mib for node in cluster.nodes.values())
    devices = [device for node in cluster.nodes.values() for device in node.spec.devices]
    tres = tres_text(cpus, memory, len(nodes), count_models(devices)) if nodes else ""
    default = default_partition(cluster)
    return [
        _partition(cluster.queues[name], nodes, cpus, tres, name == default)
        for name in partition_names(cluster)
    ]


def _partition(
    queue: Queue, nodes: tuple[str, ...], cpus: int, tres: str, default: bool
) -> PartitionRecord:
    return PartitionRecord(
        name=queue.name,
        default=default,
        state="DOWN" if queue.outside else _PARTITION_STATES[queue.state],
        nodes=nodes,
        cpus=cpus,
        tres=tres,
        priority=queue.priority,
        preempts="REQUEUE" if queue.preemptible else "OFF",
    )
