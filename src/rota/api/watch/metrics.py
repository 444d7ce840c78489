"""The text format of Prometheus, by a small writer: every number is read when it is asked for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.api.context import Context


def write_metrics(context: Context) -> str:
    """All metrics as one text."""
    host = context.host
    cluster = host.cluster
    live = len(cluster.live.where)
    nodes = Counter(
        "drained" if node.drained else str(node.state) for node in cluster.nodes.values()
    )
    states = {str(state): count for state, count in cluster.count_states().items()}
    lines: list[str] = []
    _add(lines, "rota_jobs", "gauge", "Jobs by state.", "state", states)
    _add(lines, "rota_nodes", "gauge", "Nodes by state.", "state", nodes)
    _add(lines, "rota_attempts_live", "gauge", "Attempts that hold room.", "", live)
    _add(lines, "rota_inbox_length", "gauge", "Requests before the next tick.", "", host.waiting)
    _add(lines, "rota_ticks_total", "counter", "Ticks since the start.", "", host.ticks)
    _add(
        lines,
        "rota_commit_seconds_total",
        "counter",
        "Time spent waiting for commits.",
        "",
        host.commit_s,
    )
    _add_room(lines, context)
    up_s = host.clock.now_s() - host.started_s
    _add(lines, "rota_uptime_seconds", "gauge", "Time since the start.", "", up_s)
    return "\n".join([*lines, ""])


def _add(
    lines: list[str],
    name: str,
    kind: str,
    text: str,
    label: str,
    values: Mapping[str, float] | float,
) -> None:
    lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    if isinstance(values, int | float):
        lines.append(f"{name} {values:.17g}")
        return
    lines += [f'{name}{{{label}="{_escape(key)}"}} {n:.17g}' for key, n in values.items()]


def _add_room(lines: list[str], context: Context) -> None:
    """What each node has, and what of it is free."""
    total_cpu, free_cpu, total_mib, free_mib = {}, {}, {}, {}
    for name, node in context.host.cluster.nodes.items():
        room = node.headroom()
        total_cpu[name], free_cpu[name] = node.spec.cpu_milli / 1000, room.cpu_milli / 1000
        total_mib[name], free_mib[name] = node.spec.memory_mib << 20, room.memory_mib << 20
    for name, text, values in (
        ("rota_node_cpus", "CPUs of a node.", total_cpu),
        ("rota_node_cpus_free", "CPUs that no job holds.", free_cpu),
        ("rota_node_memory_bytes", "Memory of a node.", total_mib),
        ("rota_node_memory_free_bytes", "Memory that no job holds.", free_mib),
    ):
        _add(lines, name, "gauge", text, "node", values)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
