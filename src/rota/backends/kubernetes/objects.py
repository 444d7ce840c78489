"""The pod of an attempt, and the secret that holds what nobody should read in the pod."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from lightkube.resources.core_v1 import Pod, Secret, Service

from rota.backends.api import EngineRefused
from rota.backends.kubernetes.client import CONTAINER
from rota.backends.kubernetes.script import FOLDER, shell_text
from rota.backends.orders import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.backends.kubernetes.settings import KubernetesSettings, Mount
    from rota.backends.orders import AttemptOrder

CLUSTER, UID, KEY = "rota/cluster", "rota/uid", "rota/key"
#: The pool that it was placed in, and the gang that it is of.
POOL, GANG = "rota/pool", "rota/gang"
#: Why we gave up a container that could not be made.
HOPELESS = "rota/hopeless"
#: Until the end is on the controller's disk, a pod that was deleted by anybody keeps its status.
FINALIZER = "rota.dev/seen"
#: The engine's own limit is a backstop: Rota's timer rings first.
BACKSTOP_S = 600
#: A longer one does not fit into a variable.
VARIABLE_MAX = 100_000
_VARIABLE = "ROTA_POD_SCRIPT"
_VISIT = "ROTA_VISIT"
#: Where a gang meets that was given no port: its first member has an address of its own.
MEETING_PORT = 29500
_ANY: MappingProxyType[str, str] = MappingProxyType({})
_LABEL_VALUE = re.compile(r"[0-9A-Za-z]([0-9A-Za-z._-]{0,61}[0-9A-Za-z])?")


def beside(mark: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that runs another one in a pod of ours, with what its job has, and marked."""
    script = f'eval "${{{_VARIABLE}:-. {FOLDER}/run}}"'
    return ("/bin/sh", "-c", script, "sh", "env", f"{_VISIT}={mark}", *argv)


def ended(mark: str) -> tuple[str, ...]:
    """The command that ends what was so marked: Kubernetes leaves it running."""
    each = 'grep -q "$0" "$p/environ" 2>/dev/null && kill -s "$s" "${p#/proc/}"'
    script = f"for s in HUP KILL; do for p in /proc/[0-9]*; do {each}; done; sleep 1; done"
    return ("/bin/sh", "-c", script, f"{_VISIT}={mark}")


def name_of(key: Key) -> str:
    """The same name for the same attempt: a second create of it is refused by the server."""
    return f"rota-{hashlib.sha256(str(key).encode()).hexdigest()[:24]}"


def misfit(order: AttemptOrder, settings: KubernetesSettings) -> str:
    """What the order asks for and a pod of ours does not have; empty: nothing."""
    launch = order.launch
    lacking = {
        "a terminal": launch.terminal,
        "a bundle as its working folder": bool(launch.bundle),
        "named ports": bool(launch.ports) or launch.health is not None,
        "limits of its own (ulimit)": bool(launch.ulimits),
    }
    for what, asked in lacking.items():
        if asked:
            return f"jobs on Kubernetes cannot have {what}"
    if not settings.namespace_of(order.project):
        return f"project {order.project!r}: there can be no namespace {settings.namespace} of it"
    if not (launch.image or settings.image):
        return "image: the job names none, and the engine has none for such jobs"
    return ""


def gang_name(order: AttemptOrder) -> str:
    """Of the service under which its members find each other; empty: it is alone."""
    return name_of(Key(order.key.cluster, order.gang.leader)) if order.gang is not None else ""


def service_of(order: AttemptOrder, settings: KubernetesSettings) -> Service:
    """Names for the members of a gang."""
    name = gang_name(order)
    labels = {"app.kubernetes.io/managed-by": "rota", CLUSTER: order.key.cluster}
    home = settings.namespace_of(order.project)
    meta = {"name": name, "namespace": home, "labels": labels}
    # Members look for each other before they are ready for anything else.
    spec = {"clusterIP": "None", "selector": {GANG: name}, "publishNotReadyAddresses": True}
    return msgspec.convert({"metadata": meta, "spec": spec}, Service)


def owned_by(pod: Pod) -> dict[str, Any]:
    """The patch with which a thing goes when this pod goes."""
    meta = pod.metadata
    assert meta is not None
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
    return {"metadata": {"ownerReferences": [owner]}}


def _gang_variables(order: AttemptOrder) -> dict[str, str]:
    """Each member has a pod, and so a node, of its own."""
    gang = order.gang
    if gang is None:
        return {}
    size, rank = str(len(gang.uids)), str(gang.rank)
    return {
        **{"ROTA_RANK": rank, "RANK": rank, "NODE_RANK": rank, "ROTA_TASK_INDEX": rank},
        **{"WORLD_SIZE": size, "ROTA_NUM_TASKS": size},
        **{"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
        "MASTER_ADDR": f"{_host(0)}.{gang_name(order)}",
        "MASTER_PORT": order.launch.environment.get("MASTER_PORT") or str(MEETING_PORT),
    }


def _host(rank: int) -> str:
    return f"member-{rank}"


def build(
    order: AttemptOrder, settings: KubernetesSettings, selector: Mapping[str, str] = _ANY
) -> tuple[Secret, Pod]:
    """Both have the same name. An order that a pod cannot fulfil is refused.

    ``selector`` keeps it to the nodes of its pool.
    """
    if problem := misfit(order, settings):
        raise EngineRefused(problem)
    environment = order.launch.environment | _gang_variables(order)
    launch = msgspec.structs.replace(order.launch, environment=environment)
    meta = {
        "name": name_of(order.key),
        "namespace": settings.namespace_of(order.project),
        "labels": _labels(order),
    }
    text = shell_text(launch, order.gpus)
    files = {"script": launch.script, "stdin": launch.stdin}
    data = {"run": text.encode(errors="surrogateescape")}
    data |= {name: body for name, body in files.items() if body}
    coded = {name: base64.b64encode(body).decode() for name, body in data.items()}
    inline = text.isascii() and len(text) <= VARIABLE_MAX
    notes = {KEY: str(order.key), "rota/name": order.name, "rota/project": order.project}
    if order.pool:
        notes[POOL] = order.pool
    pod = {
        "metadata": {**meta, "annotations": notes, "finalizers": [FINALIZER]},
        "spec": _spec(order, settings, inline, mounted=not inline or len(data) > 1)
        | {"nodeSelector": {**settings.node_selector, **selector}}
        | _gang_names(order),
    }
    secret = {"metadata": meta, "data": coded}
    return msgspec.convert(secret, Secret), msgspec.convert(pod, Pod)


def _labels(order: AttemptOrder) -> dict[str, str]:
    uid = order.uid if _LABEL_VALUE.fullmatch(order.uid) else name_of(order.key)
    gang = {GANG: gang_name(order)} if order.gang is not None else {}
    return {"app.kubernetes.io/managed-by": "rota", CLUSTER: order.key.cluster, UID: uid, **gang}


def _gang_names(order: AttemptOrder) -> dict[str, Any]:
    if order.gang is None:
        return {}
    return {"hostname": _host(order.gang.rank), "subdomain": gang_name(order)}


def _spec(
    order: AttemptOrder, settings: KubernetesSettings, inline: bool, mounted: bool
) -> dict[str, Any]:
    launch, name = order.launch, name_of(order.key)
    wanted = {"cpu": f"{launch.cpu_milli}m", "memory": f"{launch.memory_mib}Mi"}
    wanted |= {settings.gpu_resource: str(order.gpus)}
    # What begins with a zero was not asked for.
    amounts = {kind: amount for kind, amount in wanted.items() if not amount.startswith("0")}
    source = {"secretKeyRef": {"name": name, "key": "run"}}
    volumes = [_volume(number, mount) for number, mount in enumerate(settings.mounts)]
    mounts = [
        {"name": f"m{number}", "mountPath": mount.path, "readOnly": mount.read_only}
        for number, mount in enumerate(settings.mounts)
    ]
    if mounted:
        volumes.append({"name": "rota", "secret": {"secretName": name, "defaultMode": 0o555}})
        mounts.append({"name": "rota", "mountPath": FOLDER, "readOnly": True})
    container = {
        "name": CONTAINER,
        "image": launch.image or settings.image,
        "command": ["/bin/sh", *(["-c", f'eval "${_VARIABLE}"'] if inline else [f"{FOLDER}/run"])],
        "env": [{"name": _VARIABLE, "valueFrom": source}] if inline else [],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": mounts,
    }
    spec = {
        "containers": [container],
        "volumes": volumes,
        "restartPolicy": "Never",
        # The first process of a container of its own would not hear TERM without a handler.
        "shareProcessNamespace": True,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": max(1, math.ceil(launch.grace_s)),
        "tolerations": [toleration.as_toleration() for toleration in settings.tolerations],
        "priorityClassName": settings.priority_class or None,
        "serviceAccountName": settings.service_account or None,
    }
    users = {"runAsUser": settings.run_as_user, "runAsGroup": settings.run_as_group}
    spec["securityContext"] = {key: number for key, number in users.items() if number >= 0}
    if order.time_limit_s:
        limit_s = order.time_limit_s + launch.grace_s + BACKSTOP_S
        spec["activeDeadlineSeconds"] = math.ceil(limit_s)
    if order.node:
        spec["affinity"] = _only_on(order.node)
    return spec


def _volume(number: int, mount: Mount) -> dict[str, Any]:
    if mount.claim:
        return {"name": f"m{number}", "persistentVolumeClaim": {"claimName": mount.claim}}
    return {"name": f"m{number}", "hostPath": {"path": mount.host_path}}


def _only_on(node: str) -> dict[str, Any]:
    """By affinity: ``nodeName`` would pass the scheduler by, and a full node then fails the pod."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
