"""GPUs in numbers for Prometheus: by node and model, and how well what is held is used."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

from rota.api.views.gpus import gpu_views
from rota.core.facts.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from rota.api.views.gpus import GpuView
    from rota.controller.chores.measures import Measures
    from rota.core.cluster import Cluster

MIB = 1 << 20
BOTH = ["node", "model"]


def gpu_families(cluster: Cluster, measures: Measures) -> Iterator[Metric]:
    """One series for each model on each node, however many GPUs that is."""
    text = "GPUs by state, as in rota gpus; down: the node is."
    states = GaugeMetricFamily("rota_gpus", text, labels=[*BOTH, "state"])
    sums = {
        name: GaugeMetricFamily(f"rota_{name}", text, labels=BOTH)
        for name, text in {
            "gpus_allocated": "GPUs that jobs hold, shared ones too.",
            "gpus_idle": "GPUs that a job has to itself and that do nothing.",
            "gpu_use_ratio": "How busy GPUs are, the mean of those that are measured.",
            "gpu_memory_bytes": "Memory of GPUs.",
            "gpu_memory_used_bytes": "Memory of GPUs that is in use, as measured.",
            "gpu_power_watts": "Power that GPUs take, as measured.",
            "gpu_temperature_celsius": "Temperature of the warmest GPU.",
        }.items()
    }
    free: dict[str, int] = {}
    for name, node in cluster.nodes.items():
        up = node.state is NodeState.UP
        by_model: dict[str, list[GpuView]] = {}
        for view in gpu_views(cluster, node, measures):
            by_model.setdefault(view.model, []).append(view)
        for model, views in by_model.items():
            for state, count in Counter(v.state if up else "down" for v in views).items():
                states.add_metric([name, model, state], count)
            for key, value in _figures(views).items():
                sums[key].add_metric([name, model], value)
        free[name] = sum(view.available for views in by_model.values() for view in views)
    yield states
    yield from sums.values()
    text = "Free GPUs that are not on the node with the most of them, as a part of all free ones."
    spread = 1 - max(free.values()) / sum(free.values()) if any(free.values()) else 0.0
    yield GaugeMetricFamily("rota_gpu_fragmentation_ratio", text, value=spread)
    yield _efficiency(cluster, measures)


def _figures(views: list[GpuView]) -> dict[str, float]:
    """Without what nobody measured."""
    found: dict[str, float] = {
        "gpus_allocated": sum(bool(view.jobs) for view in views),
        "gpus_idle": sum(view.idle_since is not None for view in views),
        "gpu_memory_bytes": sum(view.memory_mb for view in views) * MIB,
    }
    use = [view.use_percent for view in views if view.use_percent is not None]
    memory = [view.memory_used_mib for view in views if view.memory_used_mib is not None]
    power = [view.power_w for view in views if view.power_w is not None]
    heat = [view.temperature_c for view in views if view.temperature_c is not None]
    if use:
        found["gpu_use_ratio"] = sum(use) / len(use) / 100
    if memory:
        found["gpu_memory_used_bytes"] = sum(memory) * MIB
    if power:
        found["gpu_power_watts"] = sum(power)
    if heat:
        found["gpu_temperature_celsius"] = max(heat)
    return found


def _efficiency(cluster: Cluster, measures: Measures) -> GaugeMetricFamily:
    """What running tries use of what they hold, over all of which it is known."""
    used, held = Counter[str](), Counter[str]()
    for node in cluster.nodes.values():
        for uid, given in node.live.items():
            track = measures.attempt(uid)
            if track is None:
                continue
            if track.cpus is not None and given.cpu_milli:
                used["cpu"] += track.cpus  # type: ignore[assignment]
                held["cpu"] += given.cpu_milli / 1000  # type: ignore[assignment]
            if track.memory_mib is not None and given.memory_mib:
                used["memory"] += track.memory_mib
                held["memory"] += given.memory_mib
            known = [gpu.use_percent for gpu in track.gpus if gpu.use_percent is not None]
            used["gpu"] += sum(known) / 100  # type: ignore[assignment]
            held["gpu"] += len(known)
    text = "What running jobs use of what they hold, as measured: cpu, memory, gpu."
    family = GaugeMetricFamily("rota_allocation_efficiency_ratio", text, labels=["resource"])
    for kind in held:
        if held[kind]:
            family.add_metric([kind], used[kind] / held[kind])
    return family
