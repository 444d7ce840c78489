"""From nodes and the pods of others to what there is for jobs of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lightkube.models.core_v1 import NodeSpec as KubeSpec
from lightkube.models.core_v1 import NodeStatus, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.utils.quantity import parse_quantity

from rota.backends.api import EngineNode
from rota.backends.kubernetes.objects import CLUSTER
from rota.core.facts.node import Device, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lightkube.models.core_v1 import Container, Taint
    from lightkube.resources.core_v1 import Node, Pod

    from rota.backends.kubernetes.settings import Bears, KubernetesSettings

#: What NVIDIA's device plug-in and its feature discovery write on a node.
_MODEL, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
#: How Kubernetes itself says what ``unschedulable`` and ``Ready`` say.
_OF_STATE = "node.kubernetes.io/"
POOL = "pool"


class Held(NamedTuple):
    """What something has, or holds: processors in thousandths, bytes, devices."""

    milli: int = 0
    size: int = 0
    gpus: int = 0

    def plus(self, other: Held) -> Held:
        return Held(self.milli + other.milli, self.size + other.size, self.gpus + other.gpus)

    def less(self, other: Held) -> Held:
        pairs = zip(self, other, strict=True)
        return Held(*(max(0, mine - theirs) for mine, theirs in pairs))

    def most(self, other: Held) -> Held:
        return Held(*map(max, self, other))


def engine_nodes(
    machines: Iterable[Node], pods: Iterable[Pod], cluster: str, settings: KubernetesSettings
) -> list[EngineNode]:
    """Every machine, or with placement theirs one pool of those in service."""
    foreign: dict[str, Held] = {}
    for pod in pods:
        labels = (pod.metadata or ObjectMeta()).labels or {}
        if labels.get(CLUSTER) != cluster and pod.spec is not None:
            where = pod.spec.nodeName or ""
            foreign[where] = foreign.get(where, Held()).plus(requested(pod, settings.gpu_resource))
    shown = [_shown(machine, foreign, settings) for machine in machines]
    shown.sort(key=lambda node: node.spec.name)
    return shown if settings.placement == "ours" else [_pool(shown)]


def requested(pod: Pod, gpu: str) -> Held:
    """What the scheduler counts for a pod: its containers together, or one that comes before."""
    if pod.spec is None or (pod.status or PodStatus()).phase in ("Succeeded", "Failed"):
        return Held()
    together = Held()
    for container in pod.spec.containers:
        together = together.plus(_asked(container, gpu))
    for container in pod.spec.initContainers or []:
        together = together.most(_asked(container, gpu))
    return together.plus(_held(pod.spec.overhead or {}, gpu))


def is_ready(machine: Node) -> bool:
    conditions = (machine.status or NodeStatus()).conditions or []
    return any(c.type == "Ready" and c.status == "True" for c in conditions)


def _shown(machine: Node, foreign: Mapping[str, Held], settings: KubernetesSettings) -> EngineNode:
    meta, status = machine.metadata or ObjectMeta(), machine.status or NodeStatus()
    name, labels = meta.name or "", meta.labels or {}
    has = _held(status.allocatable or status.capacity or {}, settings.gpu_resource)
    free = has.less(foreign.get(name, Held()))
    memory = labels.get(_MEMORY, "")
    spec = NodeSpec(
        name=name,
        cpu_milli=free.milli,
        memory_mib=free.size >> 20,
        devices=_devices(name, free.gpus, labels.get(_MODEL, ""), int(memory or 0)),
        labels=labels,
        system=status.nodeInfo.osImage if status.nodeInfo is not None else "",
    )
    problem = _problem(machine, settings)
    return EngineNode(spec=spec, usable=not problem, detail=problem)


def _pool(shown: list[EngineNode]) -> EngineNode:
    usable = [node.spec for node in shown if node.usable]
    models = sorted({device.model for spec in usable for device in spec.devices})
    spec = NodeSpec(
        name=POOL,
        cpu_milli=sum(spec.cpu_milli for spec in usable),
        memory_mib=sum(spec.memory_mib for spec in usable),
        devices=_devices(
            POOL,
            sum(len(spec.devices) for spec in usable),
            models[0] if len(models) == 1 else "",
            min((d.memory_mib for spec in usable for d in spec.devices), default=0),
        ),
    )
    why = "" if usable else "Kubernetes has no node in service"
    return EngineNode(spec=spec, usable=bool(usable), detail=why, pool=True)


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
    taints = [taint for taint in spec.taints or [] if not taint.key.startswith(_OF_STATE)]
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


def _asked(container: Container, gpu: str) -> Held:
    resources = container.resources
    if resources is None:
        return Held()
    return _held({**(resources.limits or {}), **(resources.requests or {})}, gpu)


def _held(amounts: Mapping[str, str], gpu: str) -> Held:
    def number(kind: str) -> float:
        return float(parse_quantity(amounts.get(kind, "0")) or 0)

    return Held(round(1000 * number("cpu")), round(number("memory")), round(number(gpu)))
