"""From tasks to nodes: how many nodes a job of Slurm takes, and what it takes on each.

Rota gives a job equal shares, one on each node; what runs inside is the script's affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.node import Node
    from rota.slurm.orders.orders import JobOrder


class Share(NamedTuple):
    """What a job gets on each of its nodes."""

    nodes: int
    ntasks: int
    #: On the first nodes; the last ones may have one less.
    tasks_per_node: int
    cpus: int
    memory_mib: int
    gpus: int

    def tasks_on(self, node: int) -> int:
        """Tasks in blocks: the first nodes have one more where they do not come out even."""
        even, more = divmod(self.ntasks, self.nodes)
        return even + (node < more)


class _PerTask(NamedTuple):
    cpus: int
    memory_mib: int
    gpus: int


def share_of(order: JobOrder, known: Iterable[Node]) -> Share:
    """The share of an order on a site with these nodes."""
    each = _per_task(order)
    ntasks = _ntasks(order)
    nodes = order.nodes_min or _fewest(order, ntasks, each, known)
    ntasks = ntasks or nodes * (order.ntasks_per_node or 1)
    nodes = min(nodes, ntasks)
    here = -(-ntasks // nodes)
    gpus = max(order.gpus_per_node, order.gpus_per_task * here, -(-order.gpus // nodes))
    # Tasks that share CPUs take as many of a node as one of them.
    many = 1 if order.has("overcommit") else here
    cpus = max(many * each.cpus, gpus * order.cpus_per_gpu, order.mincpus, 1)
    if order.job.get("exclusive"):
        # All of a node is the job's: as many CPUs as any node has that could be it.
        cpus = _all_of_smallest(cpus, known)
    return Share(nodes, ntasks, here, cpus, _memory(order, cpus, gpus), gpus)


def _all_of_smallest(cpus: int, known: Iterable[Node]) -> int:
    sizes = [node.spec.cpu_milli // 1000 for node in known]
    return min((size for size in sizes if size >= cpus), default=cpus)


def _per_task(order: JobOrder) -> _PerTask:
    cpus = order.cpus_per_task or 1
    memory = order.mem_per_cpu_mb * cpus
    return _PerTask(cpus, memory, order.gpus_per_task)


def _ntasks(order: JobOrder) -> int:
    """As many as were named; 0 when only nodes were."""
    if order.ntasks:
        return order.ntasks
    gpus = order.gpus or order.gpus_per_node * max(order.nodes_min, 1)
    if order.ntasks_per_gpu and gpus:
        return gpus * order.ntasks_per_gpu
    if order.gpus and order.gpus_per_task:
        return max(1, order.gpus // order.gpus_per_task)
    return 0


def _memory(order: JobOrder, cpus: int, gpus: int) -> int:
    if order.mem_mb is not None:
        return order.mem_mb
    return order.mem_per_cpu_mb * cpus + order.mem_per_gpu_mb * gpus


def _fewest(order: JobOrder, ntasks: int, each: _PerTask, known: Iterable[Node]) -> int:
    """The fewest nodes that could hold these tasks, were they empty."""
    if order.ntasks_per_node:
        return max(1, -(-ntasks // order.ntasks_per_node))
    shared = order.has("overcommit")
    most = ntasks if shared else max((_room(node, each) for node in known), default=0)
    by_tasks = -(-ntasks // most) if most and ntasks else 1
    gpus = max((len(node.spec.devices) for node in known), default=0)
    by_gpus = -(-order.gpus // gpus) if gpus and order.gpus else 1
    return max(by_tasks, by_gpus)


def _room(node: Node, each: _PerTask) -> int:
    """How many tasks fit on an empty node."""
    limits = [node.spec.cpu_milli // (1000 * each.cpus)]
    if each.memory_mib:
        limits.append(node.spec.memory_mib // each.memory_mib)
    if each.gpus:
        limits.append(len(node.spec.devices) // each.gpus)
    return min(limits)
