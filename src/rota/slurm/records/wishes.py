"""What a spec asks for, in Slurm's amounts: made once for all jobs that share a spec."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.api.people import PEOPLE
from rota.digits import is_digits
from rota.slurm.orders.detail import LABEL, Detail
from rota.slurm.records.tres import model_word, tres_text

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec, Role
    from rota.core.facts.placing import Placement, Selector

#: Who is unknown to the machine that the controller runs on.
NOBODY = 65534


class Person(NamedTuple):
    uid: int
    gid: int
    group: str


def person(user: str) -> Person:
    """The ids behind a name; a name that is a number stands for itself."""
    entry = PEOPLE.entry(user)
    if entry is None:
        known = int(user) if is_digits(user) and len(user) < 11 else NOBODY
        return Person(known, known, "nogroup" if known == NOBODY else str(known))
    return Person(entry.uid, entry.gid, entry.group)


class JobWish(msgspec.Struct, frozen=True, kw_only=True):
    """A spec in Slurm's words."""

    detail: Detail
    #: Whether one of Slurm's commands submitted it.
    told: bool
    person: Person
    account: str
    qos: str
    cpus: int
    nodes: int
    tasks: int
    cpus_per_task: int
    min_cpus_node: int
    memory_mib: int
    memory_per_cpu: bool
    memory_total_mib: int
    disk_mib: int
    gres: str
    tres: str
    features: str

    def command_of(self, spec: JobSpec) -> str:
        """The path of the script, or the command of a job that Rota's own client submitted."""
        return self.detail.command if self.told else " ".join(spec.command)


#: What a job of Rota's own has no label for.
_PLAIN = Detail()


@lru_cache(4096)
def _detail(text: str) -> Detail:
    """The label decoded; jobs of one script mostly carry the same one."""
    try:
        return msgspec.json.decode(text, type=Detail)
    except msgspec.MsgspecError:
        return _PLAIN


def details(spec: JobSpec) -> Detail:
    """What only Slurm's commands know of a job."""
    text = spec.labels.get(LABEL)
    return _PLAIN if text is None else _detail(text)


def wish_of(spec: JobSpec) -> JobWish:
    """Read a spec; jobs that ask for the same share the answer."""
    label = spec.labels.get(LABEL)
    return _wish(label, spec.user, spec.project, spec.roles, spec.placement)


@lru_cache(4096)
def _wish(
    label: str | None,
    user: str,
    project: str,
    roles: tuple[Role, ...],
    placement: Placement,
) -> JobWish:
    detail = _PLAIN if label is None else _detail(label)
    told = label is not None
    request = roles[0].request
    cpus = sum(role.count * cpus_of(role.request.cpu_milli) for role in roles)
    total_mib = sum(role.count * role.request.memory_mib for role in roles)
    nodes = detail.nodes if told else max(1, placement.node_count)
    gpus = _gpus(roles)
    return JobWish(
        detail=detail,
        told=told,
        person=person(user),
        account=detail.account or project,
        qos=detail.qos or "normal",
        cpus=cpus,
        nodes=nodes,
        tasks=detail.ntasks if told else sum(role.count for role in roles),
        cpus_per_task=(detail.cpus_per_task or 1) if told else cpus_of(request.cpu_milli),
        min_cpus_node=_least_cpus(detail) if told else cpus_of(request.cpu_milli),
        memory_mib=detail.mem_per_cpu_mb or detail.mem_per_node_mb or -(-total_mib // nodes),
        memory_per_cpu=bool(detail.mem_per_cpu_mb),
        memory_total_mib=total_mib,
        disk_mib=request.disk_mib,
        gres=_gres(detail, gpus, nodes),
        tres=tres_text(cpus, total_mib, nodes, gpus),
        features=detail.features or _features(placement.selectors),
    )


def _least_cpus(detail: Detail) -> int:
    """Of a node: for as many tasks as were asked for on each."""
    return max(1, detail.cpus_per_task) * max(1, detail.ntasks_per_node)


def cpus_of(milli: int) -> int:
    """Whole CPUs, at least one."""
    return max(1, -(-milli // 1000))


def _gpus(roles: tuple[Role, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for role in roles:
        request = role.request
        if request.device_count:
            model = model_word(request.device_type)
            counts[model] = counts.get(model, 0) + role.count * request.device_count
    return counts


def _gres(detail: Detail, gpus: dict[str, int], nodes: int) -> str:
    """``gres:gpu:2`` per node."""
    if detail.tres_per_node:
        text = detail.tres_per_node
        return text if text.startswith("gres:") else f"gres:{text}"
    return ",".join(
        f"gres:gpu:{model + ':' if model else ''}{-(-count // nodes)}"
        for model, count in gpus.items()
    )


def _features(selectors: tuple[Selector, ...]) -> str:
    return "&".join(str(selector) for selector in selectors if not selector.weight)
