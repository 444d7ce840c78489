"""What the attempts of a job hold, or held, on each of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.slurm.records.records import HeldOnNode
from rota.slurm.records.tres import model_word, tres_text

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt
    from rota.slurm.records.records import JobRecord


def add_held(record: JobRecord, cluster: Cluster, attempts: list[Attempt], asked_mib: int) -> None:
    """What its attempts hold, or held, node by node; ``asked_mib`` where they hold no memory."""
    if not attempts:
        return
    parts: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        parts.setdefault(attempt.allocation.node, []).append(attempt)
    record.held = tuple(_held(cluster, node, mine) for node, mine in parts.items())
    record.nodes = tuple(parts)
    record.node_count = len(parts)
    record.node_range = str(len(parts))
    record.cpus = sum(held.cpus for held in record.held)
    gpus: dict[str, int] = {}
    for held in record.held:
        if held.gpus:
            gpus[held.gpu_type] = gpus.get(held.gpu_type, 0) + len(held.gpus)
    memory_mib = sum(held.memory_mib for held in record.held) or asked_mib
    record.tres_alloc = tres_text(record.cpus, memory_mib, record.node_count, gpus)


def _held(cluster: Cluster, node: str, attempts: list[Attempt]) -> HeldOnNode:
    held = [attempt.allocation for attempt in attempts]
    known = cluster.nodes.get(node)
    gpus = tuple(index for part in held for index in part.devices)
    models = {d.index: d.model for d in known.spec.devices} if known is not None and gpus else {}
    return HeldOnNode(
        node=node,
        cpus=max(1, -(-sum(part.cpu_milli for part in held) // 1000)),
        memory_mib=sum(part.memory_mib for part in held),
        cpu_ids=tuple(index for part in held for index in part.cpus),
        gpus=gpus,
        gpu_type=model_word(models.get(gpus[0], "")) if gpus else "",
    )
