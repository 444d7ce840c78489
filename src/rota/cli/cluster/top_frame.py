"""One frame of ``rota top`` as text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rota.cli.cluster.gpu_table import brief_mib
from rota.cli.cluster.nodes import amount, node_state, used
from rota.cli.jobs.queue import job_table
from rota.cli.shared import render

if TYPE_CHECKING:
    from rota.cli.shared.job_fields import Job

BAR = 20
_RUNNING = ("id", "name", "user", "time", "limit", "cpus", "mem", "gpus", "where")
_WAITING = ("id", "name", "user", "state", "wait", "cpus", "mem", "gpus", "where")


class TopSnapshot(NamedTuple):
    """What a frame shows."""

    status: dict[str, Any]
    nodes: list[dict[str, Any]]
    gpus: list[dict[str, Any]]
    running: list[Job]
    waiting: list[Job]


def frame(snapshot: TopSnapshot, now_s: float, width: int, height: int) -> list[str]:
    """Lines that fit: nodes and GPUs first, then as many jobs as there is room for."""
    lines = [headline(snapshot.status), ""]
    lines += _some([_node_line(node) for node in snapshot.nodes], max(height // 4, 2), "nodes")
    if snapshot.gpus:
        lines += _some([_gpu_line(gpu) for gpu in snapshot.gpus], max(height // 4, 2), "GPUs")
    room = max(height - len(lines) - 6, 2)
    running = snapshot.running[: max(room * 2 // 3, room - len(snapshot.waiting))]
    waiting = snapshot.waiting[: room - len(running)]
    counts = snapshot.status.get("jobs") or {}
    lines += ["", f"RUNNING ({counts.get('running', len(snapshot.running))})"]
    lines += job_table(running, now_s, names=_RUNNING, width=width) if running else ["  nothing"]
    lines += ["", f"WAITING ({counts.get('queued', len(snapshot.waiting))})"]
    lines += job_table(waiting, now_s, names=_WAITING, width=width) if waiting else ["  nothing"]
    return [render.cut(line, width) for line in lines]


def _some(lines: list[str], most: int, what: str) -> list[str]:
    """A few, and how many there are beyond."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"  … and {len(lines) - most + 1} more {what}"]


def headline(status: dict[str, Any]) -> str:
    """How many jobs there are in which state."""
    counts = status.get("jobs") or {}
    jobs = "  ".join(f"{state} {count}" for state, count in counts.items() if count)
    controller = status.get("controller") or {}
    pretended = "  PRETENDED MACHINES" if status.get("pretended") else ""
    return render.clean(f"rota {controller.get('version', '')}{pretended}  {jobs or 'no jobs'}")


def _node_line(node: dict[str, Any]) -> str:
    cpus, cpus_all = used(node, "cpus"), amount(node, "total", "cpus")
    mib, mib_all = used(node, "memory_mb"), amount(node, "total", "memory_mb")
    state = node_state(node)
    flag = "" if state == "up" else f"  {state}"
    return render.clean(
        f"{render.pad(render.cut(node['name'], 16), 16)} "
        f"cpu {render.bar(cpus, cpus_all, BAR)} {cpus:g}/{cpus_all:g}  "
        f"mem {render.bar(mib, mib_all, BAR)} {brief_mib(mib)}/{brief_mib(mib_all)}{flag}"
    )


def _gpu_line(gpu: dict[str, Any]) -> str:
    name = f"{gpu.get('node', '')}:{gpu.get('index', '')}"
    jobs = ",".join(map(str, gpu.get("jobs") or ()))
    total = gpu.get("memory_mb") or 0
    taken = total - (gpu.get("memory_free_mb") or 0)
    shown = f"{render.bar(taken, total, BAR)} {brief_mib(taken)}/{brief_mib(total)}"
    model = render.cut(str(gpu.get("model") or gpu.get("type") or ""), 20)
    return render.clean(
        f"{render.pad(render.cut(name, 16), 16)} gpu {shown}  {model}"
        + (f"  job {jobs}" if jobs else "")
    )
