"""The members of a job and what each asks for: from the words of a request to facts."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rota.api.bodies import checks
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Role
from rota.core.facts.resources import Request
from rota.core.words.units import counted

if TYPE_CHECKING:
    from rota.api.bodies.gang_requests import RoleRequest
    from rota.api.bodies.request_fields import Resources
    from rota.api.bodies.requests import JobRequest

#: More tasks than this in one job are a typing error.
TASKS_MAX = 100_000


def roles_of(request: JobRequest) -> tuple[Role, ...]:
    """The roles that were asked for, or the one that ``tasks`` and ``resources`` describe."""
    if not request.roles:
        return roles(request.resources, task_count(request), request.min_tasks)
    if request.tasks != 1 or request.min_tasks:
        raise Rejected.because("tasks", request.tasks, "each role has its own count")
    if request.resources != type(request.resources)():
        raise Rejected.because("resources", "...", "each role has its own resources")
    if request.nodes:
        raise Rejected.because("nodes", request.nodes, "roles lie where they fit; leave it out")
    names = [role.name for role in request.roles]
    if len(set(names)) != len(names):
        raise Rejected.because("roles", names, "two roles have the same name")
    total = sum(role.count for role in request.roles)
    if total > TASKS_MAX:
        raise Rejected.bad("roles", total, f"at most {TASKS_MAX} tasks together")
    return tuple(map(_role, request.roles))


def _role(asked: RoleRequest) -> Role:
    if not asked.name:
        raise Rejected.bad("roles.name", asked.name, "a word such as worker")
    if asked.min_count > asked.count:
        why = f"{asked.min_count} is more than count ({asked.count})"
        raise Rejected.because("roles.min_count", asked.min_count, why)
    return Role(
        name=checks.word("roles.name", asked.name),
        count=asked.count,
        min_count=asked.min_count,
        request=request_of(asked.resources),
    )


def task_count(request: JobRequest) -> int:
    """Nodes and no tasks mean one task on each."""
    if request.tasks == 1:
        return max(1, request.nodes)
    if request.nodes > request.tasks:
        raise Rejected.because(
            "nodes", request.nodes, f"{request.nodes} is more than tasks ({request.tasks})"
        )
    return request.tasks


@lru_cache(4096)
def roles(asked: Resources, tasks: int, min_tasks: int) -> tuple[Role, ...]:
    """One role. Equal requests share one object, which keeps lanes and memory small."""
    if min_tasks > tasks:
        raise Rejected.because("min_tasks", min_tasks, f"{min_tasks} is more than tasks ({tasks})")
    return (Role(count=tasks, min_count=min_tasks, request=request_of(asked)),)


def request_of(asked: Resources) -> Request:
    count, milli = device_count(asked.gpus)
    named = asked.gpu_type or asked.gpu_memory_mb or asked.device or asked.shared
    indices = tuple(sorted(set(asked.gpu_indices)))
    if not count and (named or indices):
        count = len(indices) or 1
    if indices and count > len(indices):
        why = f"{count} GPUs wanted, and only {counted(len(indices), 'numbers')} to choose from"
        raise Rejected.because("resources.gpu_indices", list(indices), why)
    if asked.shared and not asked.gpu_memory_mb and not milli:
        raise Rejected.because(
            "resources.gpu_memory_mb", 0, "a shared job must say how much memory it takes per GPU"
        )
    return Request(
        cpu_milli=max(1, round(asked.cpus * 1000)),
        memory_mib=asked.memory_mb,
        disk_mib=asked.disk_mb,
        device=(asked.device or "gpu") if count else "",
        device_count=count,
        device_type="" if asked.gpu_type == "auto" else asked.gpu_type,
        device_memory_mib=asked.gpu_memory_mb,
        shared=asked.shared or bool(milli),
        device_milli=milli,
        device_indices=indices,
    )


def device_count(gpus: float) -> tuple[int, int]:
    """Whole devices, or a share of one in thousandths: 0.5 is one device and 500."""
    if gpus == int(gpus):
        return int(gpus), 0
    milli = round(gpus * 1000)
    if gpus > 1 or not 1 <= milli < 1000:
        raise Rejected.bad(
            "resources.gpus", gpus, "whole GPUs, or a share of one from 0.001 to 0.999"
        )
    return 1, milli


def shown_devices(request: Request) -> int | float:
    """The opposite of ``device_count``: what a caller would ask for."""
    return request.device_milli / 1000 if request.device_milli else request.device_count
