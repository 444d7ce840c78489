"""From nodes and the pods of others to what there is for jobs of ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lightkube.models.core_v1 import NodeSpec as KubeSpec
from lightkube.models.core_v1 import NodeStatus, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from msgspec.structs import replace

from rota.backends.api import EngineNode
from rota.backends.kubernetes.objects import CLUSTER, POOL
from rota.core.facts.node import Device, Machine, NodeSpec
from rota.kubeapi.quantity import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lightkube.models.core_v1 import Container, Taint
    from lightkube.resources.core_v1 import Node, Pod

    from rota.backends.kubernetes.settings import Bears, KubernetesSettings

#: What NVIDIA's device plug-in and its feature discovery write on a node.
_MODEL, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
_TYPE = "node.kubernetes.io/instance-type"
#: By these Kubernetes itself says what ``Ready`` and ``unschedulable`` say, and what pods that ask
#: for something bear anyway.
_OF_STATE = frozenset(
    f"node.kubernetes.io/{word}"
    for word in ("not-ready", "unreachable", "unschedulable", "memory-pressure")
)
#: Of a container that comes before the others: it stays beside them.
_STAYS = "Always"
#: A pod of ours that was placed in no pool.
OURS = "-"


class KubeAmount(NamedTuple):
    """What something has, or holds: processors in thousandths, bytes, devices."""

    milli: int = 0
    size: int = 0
    gpus: int = 0

    def plus(self, other: KubeAmount) -> KubeAmount:
        return KubeAmount(self.milli + other.milli, self.size + other.size, self.gpus + other.gpus)

    def less(self, other: KubeAmount) -> KubeAmount:
        pairs = zip(self, other, strict=True)
        return KubeAmount(*(max(0, mine - theirs) for mine, theirs in pairs))

    def most(self, other: KubeAmount) -> KubeAmount:
        return KubeAmount(*map(max, self, other))


class PodUse(NamedTuple):
    """What one pod holds on its node; ``pool``: where we placed it, empty: it is not ours."""

    node: str
    held: KubeAmount
    pool: str = ""


def engine_nodes(
    machines: Iterable[Node], pods: Iterable[Pod], cluster: str, settings: KubernetesSettings
) -> list[EngineNode]:
    """Every machine, or with placement theirs one pool of each kind of those in service."""
    uses = [_use(pod, cluster, settings) for pod in pods if pod.spec is not None]
    ours = settings.placement == "ours"
    shown = [_shown(machine, uses if ours else [], settings) for machine in machines]
    shown.sort(key=lambda node: node.spec.name)
    if ours:
        return shown
    kinds: dict[str, list[EngineNode]] = {}
    for node in shown:
        kinds.setdefault(_kind(node.spec), []).append(node)
    return [_pool(name, members, uses) for name, members in sorted(kinds.items())]


def _use(pod: Pod, cluster: str, settings: KubernetesSettings) -> PodUse:
    meta, where = pod.metadata or ObjectMeta(), pod.spec.nodeName if pod.spec is not None else ""
    held = requested(pod, settings.gpu_resource)
    if (meta.labels or {}).get(CLUSTER) != cluster:
        return PodUse(where or "", held)
    return PodUse(where or "", held, (meta.annotations or {}).get(POOL) or OURS)


def requested(pod: Pod, gpu: str) -> KubeAmount:
    """What the scheduler counts for a pod: its containers together, or one that comes before."""
    if pod.spec is None or (pod.status or PodStatus()).phase in ("Succeeded", "Failed"):
        return KubeAmount()
    beside = before = KubeAmount()
    for container in pod.spec.initContainers or []:
        asked = _asked(container, gpu)
        if container.restartPolicy == _STAYS:
            beside = beside.plus(asked)
            asked = KubeAmount()
        before = before.most(beside.plus(asked))
    together = beside
    for container in pod.spec.containers:
        together = together.plus(_asked(container, gpu))
    together = together.most(before)
    if pod.spec.resources is not None:
        # Of the pod as a whole, where it says so, and of what it says.
        whole = {**(pod.spec.resources.limits or {}), **(pod.spec.resources.requests or {})}
        named, said = _held(whole, gpu), {"cpu", "memory", gpu} & {*whole}
        together = KubeAmount(
            named.milli if "cpu" in said else together.milli,
            named.size if "memory" in said else together.size,
            named.gpus if gpu in said else together.gpus,
        )
    return together.plus(_held(pod.spec.overhead or {}, gpu))


def is_ready(machine: Node) -> bool:
    conditions = (machine.status or NodeStatus()).conditions or []
    return any(c.type == "Ready" and c.status == "True" for c in conditions)


def _shown(machine: Node, uses: list[PodUse], settings: KubernetesSettings) -> EngineNode:
    meta, status = machine.metadata or ObjectMeta(), machine.status or NodeStatus()
    name, labels = meta.name or "", meta.labels or {}
    has = _held(status.allocatable or status.capacity or {}, settings.gpu_resource)
    memory = labels.get(_MEMORY) or ""
    mib = int(memory) if memory.isdecimal() else 0
    spec = NodeSpec(
        name=name,
        cpu_milli=has.milli,
        memory_mib=has.size >> 20,
        devices=_devices(name, has.gpus, labels.get(_MODEL, ""), mib),
        labels=labels,
        system=status.nodeInfo.osImage if status.nodeInfo is not None else "",
    )
    problem = _problem(machine, settings)
    foreign = KubeAmount()
    for use in uses:
        if use.node == name and not use.pool:
            foreign = foreign.plus(use.held)
    return EngineNode(spec=_less(spec, foreign), usable=not problem, detail=problem)


def _less(spec: NodeSpec, foreign: KubeAmount) -> NodeSpec:
    """What there is for jobs of ours beside others."""
    if foreign == KubeAmount():
        return spec
    has = KubeAmount(spec.cpu_milli, spec.memory_mib << 20, len(spec.devices))
    free = has.less(foreign)
    whole = Machine(spec.cpu_milli, spec.memory_mib, devices=spec.devices)
    return replace(
        spec,
        cpu_milli=free.milli,
        memory_mib=free.size >> 20,
        devices=spec.devices[: free.gpus],
        largest=spec.largest or whole,
    )


def _kind(spec: NodeSpec) -> str:
    """Machines of one kind have the same of everything, and the same type where that is told."""
    model = spec.devices[0].model or "gpu" if spec.devices else ""
    size = f"{spec.cpu_milli // 1000}c-{spec.memory_mib >> 10}g"
    parts = [spec.labels.get(_TYPE) or size, f"{len(spec.devices)}x{model}" if model else ""]
    return "-".join(re.sub(r"[^0-9A-Za-z_.-]", "-", part) for part in parts if part)


def _pool(name: str, members: list[EngineNode], uses: list[PodUse]) -> EngineNode:
    usable = {node.spec.name: node.spec for node in members if node.usable}
    one = members[0].spec
    devices = [device for spec in usable.values() for device in spec.devices]
    spec = NodeSpec(
        name=name,
        cpu_milli=sum(spec.cpu_milli for spec in usable.values()),
        memory_mib=sum(spec.memory_mib for spec in usable.values()),
        devices=tuple(
            Device(index=at, uuid=f"{name}/{at}", model=d.model, memory_mib=d.memory_mib)
            for at, d in enumerate(devices)
        ),
        # What all of them have, and a pod can be kept to.
        labels={key: one.labels[key] for key in (_TYPE, _MODEL) if key in one.labels},
        largest=Machine(one.cpu_milli, one.memory_mib, devices=one.devices, count=len(usable)),
    )
    foreign = KubeAmount()
    for use in uses:
        if use.node in usable and use.pool != name:
            foreign = foreign.plus(use.held)
    why = "" if usable else members[0].detail
    return EngineNode(spec=_less(spec, foreign), usable=bool(usable), detail=why, pool=True)


def _devices(owner: str, count: int, model: str, memory_mib: int) -> tuple[Device, ...]:
    return tuple(
        Device(index=index, uuid=f"{owner}/{index}", model=model, memory_mib=memory_mib)
        for index in range(count)
    )


def _problem(machine: Node, settings: KubernetesSettings) -> str:
    """Why Kubernetes would send none of our pods there; empty: it would."""
    spec = machine.spec or KubeSpec()
    if not is_ready(machine):
        conditions = (machine.status or NodeStatus()).conditions or []
        words = [c.message or c.reason or "" for c in conditions if c.type == "Ready"]
        return f"NotReady: {words[0]}" if words and words[0] else "NotReady"
    if spec.unschedulable:
        return "cordoned (unschedulable)"
    taints = [taint for taint in spec.taints or [] if taint.key not in _OF_STATE]
    for taint in taints:
        hard = taint.effect in ("NoSchedule", "NoExecute")
        if hard and not any(_bears(toleration, taint) for toleration in settings.tolerations):
            return f"taint {taint.key}={taint.value or ''}:{taint.effect}"
    return ""


def _bears(toleration: Bears, taint: Taint) -> bool:
    return (
        toleration.key in ("", taint.key)
        and toleration.value in ("", taint.value)
        and toleration.effect in ("", taint.effect)
    )


def _asked(container: Container, gpu: str) -> KubeAmount:
    resources = container.resources
    if resources is None:
        return KubeAmount()
    return _held({**(resources.limits or {}), **(resources.requests or {})}, gpu)


def _held(amounts: Mapping[str, str], gpu: str) -> KubeAmount:
    def number(kind: str) -> float:
        return number_of(amounts.get(kind, "0"))

    return KubeAmount(round(1000 * number("cpu")), round(number("memory")), round(number(gpu)))
