"""Heterogeneous jobs: one job of Rota with a role for each group, shown as ``61+0``, ``61+1``."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import msgspec

from rota.slurm.records.holding import add_held
from rota.slurm.records.tres import model_word, tres_text, without_billing
from rota.slurm.records.wishes import cpus_of, details

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job, Role
    from rota.slurm.records.records import JobRecord, StepRecord


def het_parts(whole: JobRecord, job: Job, cluster: Cluster) -> list[JobRecord]:
    """One record for each group; what ran in the job as a whole stays with the first."""
    detail = details(job.spec)
    tasks, names = detail.het_tasks, detail.het_names
    parts = []
    for offset, role in enumerate(job.spec.roles):
        part = copy(whole)
        part.het_offset = offset
        part.tasks = tasks[offset] if offset < len(tasks) else role.count
        part.name = names[offset] if offset < len(names) else whole.name
        _ask(part, role)
        mine = [task.attempts[-1] for task in job.tasks if task.role == offset and task.attempts]
        if whole.nodes:
            memory_mib = role.count * role.request.memory_mib
            add_held(part, cluster, mine, memory_mib)
        part.steps = tuple(
            _of_part(step, part) for step in whole.steps if offset == 0 or step.id == "extern"
        )
        parts.append(part)
    return parts


def _of_part(step: StepRecord, part: JobRecord) -> StepRecord:
    """The script and the allocation hold what their group does."""
    if step.id not in ("batch", "extern"):
        return step
    nodes = part.nodes[:1] if step.id == "batch" else part.nodes
    tres = part.tres_alloc if step.id == "extern" else without_billing(part.tres_alloc)
    return msgspec.structs.replace(step, cpus=part.cpus, nodes=nodes, tres=tres)


def _ask(part: JobRecord, role: Role) -> None:
    request = role.request
    part.cpus = role.count * cpus_of(request.cpu_milli)
    part.node_count = role.count
    part.node_range = str(role.count)
    part.memory_mib = request.memory_mib
    part.memory_per_cpu = False
    model = model_word(request.device_type)
    gpus = {model: role.count * request.device_count} if request.device_count else {}
    named = f"{model}:" if model else ""
    part.gres = f"gres:gpu:{named}{request.device_count}" if gpus else ""
    part.tres_req = tres_text(part.cpus, role.count * request.memory_mib, role.count, gpus)
