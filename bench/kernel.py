"""How fast this machine places in the simplest way: a bare kernel, on the same nodes and queue.

The kernel lies in the shared folder. It knows five sums per node and nothing else: no single
CPUs and devices, no order of users, no gangs, no promises, no records. It says how fast the
machine is, not what a scheduler could reach.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from typing import TYPE_CHECKING

from bench import gauge
from bench.peers import shared_folder

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.node import NodeSpec
    from rota.core.facts.resources import Request

ABSENT = "; the bare kernel is not in the shared folder: not compared"
SHIFT = 16
#: Scales every dimension to about the same range, and mixes amounts into a tie-breaker.
MOST = (192_000, 2 << 20, 8 << 10, 8, 640)
MIX = (73_856_093, 19_349_663, 83_492_791, 49_979_687, 86_028_121)


def placements_per_s(cluster: Cluster) -> float | None:
    """Tasks per second of CPU time, median of three; None when the kernel is not there."""
    folder = shared_folder()
    path = folder / "bench" / "core_micro" / "core_py.py" if folder is not None else None
    if path is None or not path.is_file():
        return None
    specification = importlib.util.spec_from_file_location("bare_kernel", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    free = [_node(node.spec) for node in cluster.nodes.values()]
    asked: dict[tuple[int, ...], list[int]] = {}
    count = 0
    for job in cluster.jobs.values():
        for role in job.spec.roles:
            numbers = asked.setdefault(_task(role.request), [])
            numbers.extend(range(count, count + role.count))
            count += role.count
    multipliers = tuple((1 << SHIFT) * 1000 // most for most in MOST)
    rates: list[float] = []
    for _ in range(3):
        core = module.Core(free, [*asked], multipliers, SHIFT, MIX, (1 << 24) - 1)
        queues = [deque(numbers) for numbers in asked.values()]
        with gauge.taking() as took:
            placed = core.run_pass(queues, [-1] * count)
        rates.append(placed / took.cpu_s)
    return sorted(rates)[1]


def _node(spec: NodeSpec) -> tuple[int, int, int, int, int]:
    memory = sum(device.memory_mib for device in spec.devices) // 1024
    return spec.cpu_milli, spec.memory_mib, spec.disk_mib // 1024, len(spec.devices), memory


def _task(request: Request) -> tuple[int, int, int, int, int]:
    """Who shares a device takes of its memory, others whole devices."""
    alone = 0 if request.shared else request.device_count
    memory = request.device_memory_mib // 1024 if request.shared else 0
    return request.cpu_milli, request.memory_mib, request.disk_mib // 1024, alone, memory
