"""What a job asks for in the words of an executor: requests of a pod, or options of Slurm.

What they do not say is 1 CPU, 2 GB of memory and no GPU.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from rota.api.bodies.request_fields import Resources, Short, says
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.api.bodies.requests import JobRequest

MEMORY_MB = 2048
_MIB = 1 << 20
_SIZES = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_SIZES |= {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|[MGT]i?|Ki)?")
#: Slurm's own unit is MiB.
_SLURM_SIZES = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_SLURM_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)B?", re.IGNORECASE)
Count = Annotated[int, Meta(ge=0, le=100_000)]


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A field that does not exist is refused, never ignored."""


class KubernetesWords(_Strict):
    """As in `resources.requests` of a container."""

    requests: Annotated[
        dict[str, str | int | float],
        says("`cpu` (`500m`, `2`), `memory` (`4Gi`), `nvidia.com/gpu`"),
    ] = {}


class SlurmWords(_Strict):
    """As options of sbatch."""

    cpus_per_task: Annotated[int, Meta(ge=1, le=100_000)] = 1
    mem: Annotated[Short, says("Of each node: `16G`; without a unit in MiB")] = "2G"
    gpus_per_node: Count = 0
    nodes: Annotated[int, Meta(ge=1, le=100_000)] = 1


class ExecutorWords(_Strict):
    """Exactly one of the two."""

    kubernetes: KubernetesWords | None = None
    slurm: SlurmWords | None = None


def in_own_words(request: JobRequest) -> JobRequest:
    """The request with `resources`, `tasks` and `nodes` in the place of `executor`."""
    asked = request.executor
    if asked is None:
        return request
    if (asked.kubernetes is None) == (asked.slurm is None):
        raise Rejected.because("executor", "", "expected one of kubernetes and slurm")
    if request.resources != Resources() or request.roles:
        raise Rejected.because("executor", "", "the job names resources as well; name them once")
    if asked.kubernetes is not None:
        resources = _of_requests(asked.kubernetes.requests)
        return msgspec.structs.replace(request, executor=None, resources=resources)
    slurm = asked.slurm
    assert slurm is not None
    return msgspec.structs.replace(
        request,
        executor=None,
        resources=Resources(
            cpus=slurm.cpus_per_task, memory_mb=_slurm_mib(slurm.mem), gpus=slurm.gpus_per_node
        ),
        tasks=max(request.tasks, slurm.nodes),
        nodes=slurm.nodes if slurm.nodes > 1 else request.nodes,
    )


def _of_requests(asked: dict[str, str | int | float]) -> Resources:
    known = {"cpu": "1", "memory": f"{MEMORY_MB}Mi", "nvidia.com/gpu": "0"}
    for name in asked:
        if name not in known:
            allowed = f"expected one of {', '.join(known)}"
            raise Rejected.bad("executor.kubernetes.requests", name, allowed)
    amounts = {name: _quantity(name, str(asked.get(name, text))) for name, text in known.items()}
    return Resources(
        cpus=amounts["cpu"],
        memory_mb=round(amounts["memory"] / _MIB),
        gpus=amounts["nvidia.com/gpu"],
    )


def _quantity(name: str, text: str) -> float:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or (name == "cpu" and not float(found[1])):
        allowed = "expected a quantity of Kubernetes such as 500m, 2 or 4Gi"
        raise Rejected.bad(f"executor.kubernetes.requests.{name}", text, allowed)
    return float(found[1]) * (0.001 if found[2] == "m" else _SIZES[found[2] or ""])


def _slurm_mib(text: str) -> int:
    found = _SLURM_SIZE.fullmatch(text.strip())
    if found is None:
        raise Rejected.bad("executor.slurm.mem", text, "expected a size such as 4000, 16G or 1T")
    return round(float(found[1]) * _SLURM_SIZES[found[2].upper()])
