"""What travels with an attempt, and what is asked of the job server."""

from __future__ import annotations

import hashlib
import io
import json
import math
import shlex
import zipfile
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rota.backends.api import EngineRefused
from rota.backends.orders import MARK, Key
from rota.backends.ray.client import NAMESPACE, SUPERVISOR
from rota.backends.ray.records import RayAmount
from rota.core.facts.states import Blame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.backends.orders import AttemptOrder
    from rota.backends.ray.records import RayJob
    from rota.backends.ray.settings import RaySettings

#: This part of a node's own resource binds a job to it, and a node has 1: more than enough fit.
SHARE = 0.0001
#: Ray runs a job that asks for nothing on its head.
LEAST_CPU = 0.001
#: How long Ray's stop waits between TERM and KILL.
STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
#: A removal is ours and no attempt.
REMOVAL = f"{MARK}-removal."


def id_of(key: Key) -> str:
    """The same id for the same attempt: Ray refuses a second job of it."""
    return f"{MARK}.{key.cluster}.{key.uid}"


def key_of(job: RayJob) -> Key | None:
    mark, _, rest = job.id.partition(".")
    cluster, _, uid = rest.partition(".")
    return Key(cluster, uid) if mark == MARK and cluster and uid else None


def is_ghost(job: RayJob) -> bool:
    """Whether Ray made it up: where a job is deleted while Ray still watches the end of its actor,
    Ray writes down a failure of a job that it knows nothing of.
    """
    return job.over and not job.metadata


def check(order: AttemptOrder) -> None:
    """Refuse in one line what cannot be done in Ray, and what would start a gang twice."""
    launch = order.launch
    if order.gang is not None and is_gang(order) and order.uid != order.gang.uids[0]:
        raise EngineRefused(
            "a gang is one job in Ray, and its first member stands for it", Blame.NODE
        )
    for has, what in (
        (launch.image, "a container image"),
        (launch.bundle, "a bundle"),
        (launch.terminal, "a terminal"),
        (launch.ports, "named ports"),
        (launch.health, "a health check"),
    ):
        if has:
            raise EngineRefused(f"{what}: jobs in Ray cannot have one")


def wanted(order: AttemptOrder) -> RayAmount:
    """Of one member, where it is a gang."""
    return RayAmount(order.launch.cpu_milli, order.launch.memory_mib, order.gpus)


def claimed(job: RayJob) -> tuple[tuple[str, ...], RayAmount]:
    """The nodes that a job of ours was bound to, and what it holds of each: Ray does not say."""
    notes = job.metadata or {}
    amounts = (int(notes.get(f"rota_{name}", 0)) for name in RayAmount._fields)
    return tuple(filter(None, notes.get("rota_node", "").split(","))), RayAmount(*amounts)


def is_gang(order: AttemptOrder) -> bool:
    return order.gang is not None and len(order.gang.uids) > 1


def package(order: AttemptOrder, resources: Sequence[str] = ()) -> tuple[str, bytes]:
    """Its name and its bytes; the same order makes the same. ``resources``: of a gang's nodes."""
    launch = order.launch
    job: dict[str, Any] = {
        "name": id_of(order.key),
        "argv": launch.argv,
        "workdir": launch.workdir,
        "environment": launch.environment,
        "umask": launch.umask,
        "ulimits": launch.ulimits,
        "stdout": launch.stdout,
        "stderr": launch.stderr,
        "outputs": launch.outputs,
        "script": bool(launch.script),
        "stdin": bool(launch.stdin),
        "gpus": order.gpus,
    }
    contents = {"shim.py": source("shim")}
    if is_gang(order):
        job["gang"] = _gang(order, resources)
        contents["gang.py"] = source("gang")
    contents |= {"script": launch.script, "stdin": launch.stdin}
    contents["job.json"] = json.dumps(job).encode()
    return zipped({name: body for name, body in contents.items() if body})


def _gang(order: AttemptOrder, resources: Sequence[str]) -> dict[str, Any]:
    """A bundle for each member; where nodes were named, each is bound to its own."""
    assert order.gang is not None
    wants, uids, per_node = wanted(order), order.gang.uids, max(1, order.gang.per_node)
    amounts = {
        "CPU": wants.cpu_milli / 1000 or LEAST_CPU,
        "GPU": wants.gpus,
        "memory": wants.memory_mib << 20,
    }
    held = {kind: amount for kind, amount in amounts.items() if amount}
    bound = [{resources[at // per_node]: SHARE} if resources else {} for at in range(len(uids))]
    return {
        "names": [id_of(Key(order.key.cluster, uid)) for uid in uids],
        "bundles": [{**held, **node} for node in bound],
        "strategy": "STRICT_SPREAD" if per_node == 1 else "SPREAD",
        "port": 20000 + int(hashlib.sha256(order.uid.encode()).hexdigest()[:8], 16) % 10000,
    }


def zipped(contents: Mapping[str, bytes]) -> tuple[str, bytes]:
    """As Ray wants packages to be called."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name), body)
    body = made.getvalue()
    return f"_ray_pkg_{hashlib.sha256(body).hexdigest()[:40]}.zip", body


@cache
def source(name: str) -> bytes:
    """The text of a program that runs inside the cluster."""
    return (files("rota.backends.ray") / f"{name}.py").read_bytes()


def held_per_node(order: AttemptOrder) -> RayAmount:
    wants = wanted(order)
    members = max(1, order.gang.per_node) if order.gang is not None and is_gang(order) else 1
    return RayAmount(*(members * amount for amount in wants))


def wish(order: AttemptOrder, settings: RaySettings, resource: str, parcel: str) -> dict[str, Any]:
    """The body of a submit. ``resource``: that of the node; empty: Ray chooses."""
    launch, amount = order.launch, wanted(order)
    held = held_per_node(order)
    metadata = {f"rota_{name}": str(value) for name, value in held._asdict().items()}
    metadata |= {"rota_key": str(order.key), "rota_node": order.node, "rota_job": str(launch.job)}
    metadata |= {"rota_project": order.project, "job_name": order.name or "rota"}
    if order.gang is not None and is_gang(order):
        members = [id_of(Key(order.key.cluster, uid)) for uid in order.gang.uids]
        metadata["rota_members"] = " ".join(members)
    program, amounts = "gang.py", {}  # One that asks for nothing runs on the head.
    if not is_gang(order):
        program, amounts = (
            "shim.py",
            {
                "entrypoint_num_cpus": amount.cpu_milli / 1000 or LEAST_CPU,
                "entrypoint_num_gpus": amount.gpus,
                "entrypoint_memory": amount.memory_mib << 20,
                "entrypoint_resources": {resource: SHARE} if resource else {},
            },
        )
    return {
        "submission_id": id_of(order.key),
        "entrypoint": f"exec {shlex.join([*shlex.split(settings.python), program])}",
        **amounts,
        "metadata": metadata,
        "runtime_env": {
            "working_dir": f"gcs://{parcel}",
            "env_vars": {STOP_WAIT: str(max(1, math.ceil(launch.grace_s)))},
        },
    }


def removals_of(cluster: str) -> str:
    """What the ids of a cluster's removals begin with."""
    return f"{REMOVAL}{MARK}.{cluster}."


def removal(number: str, settings: RaySettings) -> dict[str, Any]:
    """A small job on the head that ends another. It has no secrets, and so no package."""
    program = [*shlex.split(settings.python), "-c", source("removal").decode()]
    return {
        "submission_id": f"{REMOVAL}{number}",
        "entrypoint": f"exec {shlex.join([*program, f'{SUPERVISOR}{number}', NAMESPACE])}",
        "metadata": {"job_name": f"end of {number}"},
    }
