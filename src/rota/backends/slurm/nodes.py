"""The machines of a Slurm, one by one, or as pools of equal ones among which it chooses."""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from rota.backends.api import EngineNode
from rota.backends.slurm.records import SlurmAmount
from rota.core.facts.node import Device, Machine, NodeSpec
from rota.slurmrest.values import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Kept for a reservation, which may be the one that our jobs go into.
RESERVED = "RESERVED"
#: A node in one of these gets no work, whatever else it is.
_OUT = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVALID_REG"}
    | {"MAINT", "MAINTENANCE", "NO_RESPOND", "NOT_RESPONDING", "PLANNED_DOWN", "EXTERNAL"}
    | {"POWERING_DOWN", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "UNKNOWN", "UNK", RESERVED}
)
_MARKS = MappingProxyType({"*": "NOT_RESPONDING", "%": "POWERING_DOWN"})
_GPU = re.compile(r"gpu(?::(?P<model>[^:,(]+))?:(?P<count>\d+)(?:\([^)]*\))?(?:,|$)")
#: Labels are for people and selectors.
PARTITIONS, FEATURE = "slurm/partitions", "slurm/feature-"


class SlurmUse(NamedTuple):
    """What one job holds on one node; ``pool``: where it was placed by us, empty: it is not ours.

    One of ours that Slurm started outside its pool takes room from the pool that it runs in.
    """

    node: str
    held: SlurmAmount
    pool: str = ""


def as_nodes(
    nodes: Iterable[Mapping[str, Any]],
    partition: str = "",
    uses: Iterable[SlurmUse] = (),
    *,
    reserved: bool = False,
) -> list[EngineNode]:
    """Every machine, or those of one partition, less what others use of it.

    ``reserved``: ours is the reservation that machines are kept for.
    """
    foreign: dict[str, SlurmAmount] = {}
    for use in uses:
        if not use.pool:
            foreign[use.node] = foreign.get(use.node, SlurmAmount()).plus(use.held)
    chosen = (node for node in nodes if not partition or partition in _partitions(node))
    listed = [_node(node, reserved) for node in chosen]
    listed = [
        _less(node, foreign[n]) if (n := node.spec.name) in foreign else node for node in listed
    ]
    return sorted(listed, key=lambda node: node.spec.name)


def as_pools(
    nodes: Iterable[Mapping[str, Any]],
    partition: str = "",
    uses: Iterable[SlurmUse] = (),
    *,
    reserved: bool = False,
) -> list[EngineNode]:
    """One for each partition and kind of machine: what is in service of it, less others' use."""
    kinds: dict[str, list[EngineNode]] = {}
    for raw in nodes:
        for name in _partitions(raw):
            if not partition or name == partition:
                node = _node(raw, reserved)
                kinds.setdefault(f"{name}.{_kind(node.spec)}", []).append(node)
    listed = [*uses]
    return [_pool(name, members, listed) for name, members in sorted(kinds.items())]


def partition_of(pool: str) -> str:
    return pool.rpartition(".")[0]


def pool_at(partition: str, node: Mapping[str, Any]) -> str:
    """The pool of a partition that a machine is in."""
    return f"{partition}.{_kind(_node(node).spec)}"


def _pool(name: str, members: list[EngineNode], uses: list[SlurmUse]) -> EngineNode:
    usable = {member.spec.name: member.spec for member in members if member.usable}
    foreign = SlurmAmount()
    for use in uses:
        if use.node in usable and use.pool != name:
            foreign = foreign.plus(use.held)
    one = members[0].spec
    machine = Machine(one.cpu_milli, one.memory_mib, devices=one.devices, count=len(usable))
    spec = NodeSpec(
        name=name,
        cpu_milli=sum(spec.cpu_milli for spec in usable.values()),
        memory_mib=sum(spec.memory_mib for spec in usable.values()),
        devices=tuple(device for spec in usable.values() for device in spec.devices),
        labels={PARTITIONS: partition_of(name)},
        system="slurm",
        largest=machine,
    )
    detail = "" if usable else members[0].detail
    node = EngineNode(spec=spec, usable=bool(usable), detail=detail, pool=True)
    return _less(node, foreign)


def _less(node: EngineNode, foreign: SlurmAmount) -> EngineNode:
    """What there is for jobs of ours beside others; the devices are numbered anew."""
    spec = node.spec
    left = max(0, len(spec.devices) - math.ceil(foreign.gpus))
    devices = [
        Device(index=at, uuid=f"{spec.name}-{at}", model=device.model)
        for at, device in enumerate(spec.devices[:left])
    ]
    largest = Machine(spec.cpu_milli, spec.memory_mib, devices=spec.devices)
    less = replace(
        spec,
        cpu_milli=max(0, spec.cpu_milli - math.ceil(1000 * foreign.cpus)),
        memory_mib=max(0, spec.memory_mib - math.ceil(foreign.memory_mib)),
        devices=tuple(devices),
        largest=spec.largest or largest,
    )
    return replace(node, spec=less)


def _kind(spec: NodeSpec) -> str:
    """Machines of one kind have the same of everything."""
    gpus = f"-{len(spec.devices)}x{spec.devices[0].model or 'gpu'}" if spec.devices else ""
    return f"{spec.cpu_milli // 1000}c-{spec.memory_mib}m{gpus}"


def _node(node: Mapping[str, Any], reserved: bool = False) -> EngineNode:
    name = str(node.get("name") or "")
    states = _states(node)
    features = _words(node.get("active_features") or node.get("features"))
    spec = NodeSpec(
        name=name,
        # Less what a site keeps for its own daemons, where the version tells that.
        cpu_milli=1000 * (plain(node.get("effective_cpus")) or plain(node.get("cpus"))),
        memory_mib=max(0, plain(node.get("real_memory")) - plain(node.get("specialized_memory"))),
        devices=_devices(name, str(node.get("gres") or "")),
        labels={PARTITIONS: ",".join(_partitions(node))}
        | {FEATURE + word: "" for word in features},
        address=str(node.get("address") or ""),
        system="slurm",
    )
    out = sorted(states & (_OUT - {RESERVED} if reserved else _OUT))
    reason = str(node.get("reason") or "")
    shown = f"{', '.join(out).lower()} in Slurm" + (f": {reason}" if reason else "")
    return EngineNode(spec=spec, usable=not out, detail=shown if out else "")


def _states(node: Mapping[str, Any]) -> set[str]:
    """Older versions have a state and flags, newer ones a list."""
    told = (*_words(node.get("state")), *_words(node.get("state_flags")))
    parts = [part for word in told for part in word.upper().split("+")]
    # A star is a node that does not answer; a % one that is being switched off.
    marks = {mark: word for mark, word in _MARKS.items() if any(mark in part for part in parts)}
    return {part.rstrip("*$~#!%^-@+") for part in parts} | set(marks.values())


def _partitions(node: Mapping[str, Any]) -> list[str]:
    return _words(node.get("partitions"))


def _words(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(word) for word in value]
    return [word for word in value.split(",") if word] if isinstance(value, str) else []


def _devices(node: str, gres: str) -> tuple[Device, ...]:
    models = [
        found["model"] or "" for found in _GPU.finditer(gres) for _ in range(int(found["count"]))
    ]
    return tuple(
        Device(index=at, uuid=f"{node}-{at}", model=model) for at, model in enumerate(models)
    )
