"""The body of ``POST /api/v1/jobs`` from the options that were given. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.cli.submit.sweep import Sweep, make_sweep
from rota.client.errors import ClientError
from rota.core.words.units import format_when

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Option -> field, value as it is.
_PLAIN = {
    "name": "name",
    "project": "project",
    "queue": "queue",
    "priority": "priority",
    "preemptible": "preemptible",
    "tasks": "tasks",
    "min_tasks": "min_tasks",
    "time": "time_limit_s",
    "grace": "grace_s",
    "retries": "retries",
    "restart": "restart",
    "backoff": "backoff_s",
    "array": "array",
    "group": "group",
    "max_concurrent": "max_concurrent",
    "any_of": "depends_any",
    "keep_waiting": "keep_waiting",
    "dependency_timeout": "dependency_timeout_s",
    "hold": "hold",
    "scheduling_timeout": "scheduling_timeout_s",
    "output": "output",
    "error": "error",
    "nodes": "nodes",
    "topology": "topology",
    "cluster": "cluster",
    "engine": "engine",
    "vdc": "vdc",
    "exclusive": "exclusive",
    "qos": "qos",
    "estimate": "estimate_s",
    "preempt_mode": "preempt_mode",
    "preempt_retries": "preempt_retries",
    "checkpoint_signal": "checkpoint_signal",
    "save_signal": "save_signal",
    "save_every": "save_every_s",
    "restart_cost": "restart_cost_s",
    "type": "type",
    "pty": "pty",
    "image": "image",
}
#: Option that may be repeated -> field; empty texts only take away what was there.
_LISTS = {
    "constraint": "constraints",
    "tolerate": "tolerate",
    "near": "near",
    "apart": "apart",
    "notify": "notify",
    "license": "licenses",
    "port": "ports",
    "secret": "secrets",
}
#: Likewise, each with several names in it.
_NAMES = {"nodelist": "node_list", "exclude": "exclude", "data": "data"}
_RESOURCES = {
    "mem": "memory_mb",
    "gpus": "gpus",
    "gpu_type": "gpu_type",
    "gpu_mem": "gpu_memory_mb",
    "gpu_index": "gpu_indices",
    "shared": "shared",
    "disk": "disk_mb",
}
#: Option -> kind of dependency.
DEPENDENCIES = {
    "after": "after",
    "after_ok": "after-ok",
    "after_any": "after-any",
    "after_not_ok": "after-not-ok",
    "after_checkpoint": "after-checkpoint",
}


def option_fields(
    given: Mapping[str, Any],
    parents: Callable[[str], Sequence[int | str]],
    table: Sweep | None = None,
) -> dict[str, Any]:
    """The fields that options set; ``parents`` gives what names jobs to the server.

    ``table`` is what ``--param-file`` holds.
    """
    body = {field: given[option] for option, field in _PLAIN.items() if option in given}
    if resources := resource_fields(given):
        body["resources"] = resources
    body |= _placing(given)
    body |= _health(given)
    body |= _due(given)
    if "warning" in given:
        body["warn_signal"], body["warn_s"] = given["warning"]
    if "begin" in given:
        body["begin_at"] = format_when(given["begin"])
    if given.get("label"):
        body["labels"] = dict(given["label"])
    if given.get("ulimit"):
        body["ulimits"] = dict(given["ulimit"])
    if given.get("retry_on"):
        body["retry_on"] = [word for words in given["retry_on"] for word in words]
    if dependencies := _dependencies(given, parents):
        body["depends_on"] = dependencies
    return body | _sweep(given, table)


def _due(given: Mapping[str, Any]) -> dict[str, Any]:
    """When it should be done, or (``--by``) is to be promised to be."""
    if given.get("by"):
        if given.get("deadline"):
            raise ClientError("--by is a deadline that is promised: leave --deadline out")
        return {"deadline_at": format_when(given["by"]), "promise": True}
    if "deadline" not in given:
        return {}
    return {"deadline_at": format_when(given["deadline"]) if given["deadline"] else 0}


def _sweep(given: Mapping[str, Any], table: Sweep | None) -> dict[str, Any]:
    """Many jobs at once, by parameters or by indices."""
    if given.get("array") == "":
        # Nearly always a variable that is not set: one plain job is not what was meant.
        raise ClientError("--array: '' is not valid; expected indices such as 0-99")
    sweep = make_sweep(given.get("params", ()), table)
    if sweep is None:
        return {}
    if "array" in given:
        raise ClientError("--array and --param exclude each other; cap with --max-concurrent")
    return {"parameters": {"names": sweep.names, "rows": sweep.rows}}


def _health(given: Mapping[str, Any]) -> dict[str, Any]:
    """The port that it must answer at is one of its ports, named once more or not."""
    if "health" not in given:
        return {}
    name, slash, path = given["health"].partition("/")
    ports = [text for text in given.get("port", ()) if text]
    wish = {"port": name, "path": slash + path} if slash else {"port": name}
    return {"health": wish, "ports": ports if name in ports else [*ports, name]}


def _placing(given: Mapping[str, Any]) -> dict[str, Any]:
    """Where it may run, and its members where they differ."""
    fields: dict[str, Any] = {
        field: [text for text in given[option] if text]
        for option, field in _LISTS.items()
        if option in given
    }
    if given.get("roles"):
        fields["roles"] = list(given["roles"])
    for option, field in _NAMES.items():
        if option in given:
            fields[field] = [name for names in given[option] for name in names if name]
    if "tasks_per_node" in given:
        if "tasks" in given:
            raise ClientError("--tasks and --tasks-per-node exclude each other")
        fields["tasks"] = given["tasks_per_node"] * max(1, given.get("nodes", 1))
        fields["nodes"] = max(1, given.get("nodes", 1))
    return fields


def resource_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The resources that options set."""
    fields = {field: given[option] for option, field in _RESOURCES.items() if option in given}
    if "cpus" in given:
        fields["cpus"] = cpu_number(given["cpus"])
    if "mem_per_cpu" in given and "mem" not in given:
        cpu_milli = given.get("cpus", 1000)
        fields["memory_mb"] = -(-given["mem_per_cpu"] * cpu_milli // 1000)
    if not fields.get("gpus") and ("gpu_type" in given or "gpu_mem" in given or "shared" in given):
        if "gpus" in given:
            raise ClientError("--gpus 0 does not go with --gpu-type, --gpu-mem or --shared")
        fields["gpus"] = len(fields.get("gpu_indices", ())) or 1
    gpus = fields.get("gpus", 0)
    whole = gpus == int(gpus)
    if fields.get("shared") and not fields.get("gpu_memory_mb") and whole:
        raise ClientError("--shared needs --gpu-mem: how much memory on each GPU")
    return fields


def cpu_number(cpu_milli: int) -> int | float:
    """CPUs as a number for JSON: whole where it is."""
    return cpu_milli // 1000 if cpu_milli % 1000 == 0 else cpu_milli / 1000


def _dependencies(
    given: Mapping[str, Any], parents: Callable[[str], Sequence[int | str]]
) -> list[dict[str, object]]:
    # Words may name a job twice: 12_3 and state:failed.
    wanted: dict[tuple[str, int | str, bool, str], None] = {}
    for option, kind in DEPENDENCIES.items():
        for text in (word for words in given.get(option, ()) for word in words):
            for job in parents(text.removesuffix("_*")):
                wanted[kind, job, text.endswith("_*"), ""] = None
    for text, data in given.get("after_data", ()):
        for job in parents(text):
            wanted["after-data", job, False, data] = None
    found: list[dict[str, object]] = []
    for kind, job, tied, data in wanted:
        entry: dict[str, object] = {"kind": kind, "job": job}
        entry |= {"element": True} if tied else {}
        found.append(entry | ({"data": data} if data else {}))
    if given.get("any_of") and not found:
        raise ClientError("--any needs --after, --after-ok, --after-any or --after-not-ok")
    return found
