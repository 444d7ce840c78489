"""How what was measured of GPUs changes a Cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.changes import gpu_events as gpu
from rota.core.facts.gpu_use import FAULT_S, FAULTS_KEPT, IDLE, OVERUSE, DeviceFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster


def _overuse_seen(cluster: Cluster, event: gpu.OveruseSeen, at_s: float) -> None:
    """Placement counts it from here on."""
    node = cluster.nodes[event.node]
    node.overuse = tuple(use for use in event.overuse if use.uid in node.live)
    cluster.agenda.touch(event.node)
    cluster.dirty.nodes[event.node] = None


def _warned(cluster: Cluster, job_id: int, task: int, word: str) -> None:
    job = cluster.jobs[job_id]
    attempt = job.tasks[task].attempts[-1]
    attempt.warned = (*attempt.warned, word)
    cluster.dirty.jobs[job_id] = job


def _gpu_overused(cluster: Cluster, event: gpu.GpuOverused, at_s: float) -> None:
    _warned(cluster, event.job, event.task, OVERUSE)


def _gpu_idle(cluster: Cluster, event: gpu.GpuIdle, at_s: float) -> None:
    _warned(cluster, event.job, event.task, IDLE)


def _device_failed(cluster: Cluster, event: gpu.DeviceFailed, at_s: float) -> None:
    node = cluster.nodes[event.node]
    recent = [fault for fault in node.faults if fault.at_s > at_s - FAULT_S]
    node.faults = (*recent, DeviceFault(event.device, at_s, event.what))[-FAULTS_KEPT:]
    cluster.dirty.nodes[event.node] = None


GPU_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    gpu.OveruseSeen: _overuse_seen,
    gpu.GpuOverused: _gpu_overused,
    gpu.GpuIdle: _gpu_idle,
    gpu.DeviceFailed: _device_failed,
}
