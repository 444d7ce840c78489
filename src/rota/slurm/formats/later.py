"""The shape that documents have since Slurm 23.11 (``v0.0.40`` and later), made of those of 22.05.

A number says whether it was set, a state is a list, and what was null is an empty text. Only what
differs is named here; everything else stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    Document = dict[str, Any]

#: The versions in which the documents have this shape.
LATER = ("v0.0.40", "v0.0.41", "v0.0.42", "v0.0.43")

_JOB_NUMBERS = """
accrue_time array_job_id array_task_id array_max_tasks billable_tres cores_per_socket core_spec
thread_spec cpu_frequency_minimum cpu_frequency_maximum cpu_frequency_governor cpus cpus_per_task
deadline delay_boot eligible_time end_time het_job_id het_job_offset last_sched_evaluation max_cpus
max_nodes memory_per_cpu memory_per_node minimum_cpus_per_node minimum_tmp_disk_per_node node_count
pre_sus_time preempt_time priority resize_time sockets_per_node start_time submit_time suspend_time
tasks tasks_per_board tasks_per_core tasks_per_node tasks_per_socket threads_per_core time_limit
time_minimum
"""
_NODE_NUMBERS = ("boot_time", "last_busy", "reason_changed_at", "slurmd_start_time")


def number(value: float | None, *, infinite: bool = False) -> Document:
    """A number that may not have been set."""
    known = value is not None and not infinite
    return {"set": known, "infinite": infinite, "number": value if known else 0}


def _numbers(document: Document, names: Iterable[str]) -> Document:
    return {name: number(document[name]) for name in names if name in document}


def _texts(document: Document) -> Document:
    """With empty texts where nothing is, however deep."""
    return {name: _text(value) for name, value in document.items()}


def _text(value: object) -> object:
    if isinstance(value, dict):
        return _texts(value)
    if isinstance(value, list):
        return [_text(one) for one in value]
    return "" if value is None else value


def _words(value: str | None) -> list[str]:
    return [value] if value else []


def _list(text: str) -> list[str]:
    return text.split(",") if text else []


def _exit(wait_status: int) -> Document:
    """A wait status, taken apart."""
    code, signal = wait_status >> 8, wait_status & 0x7F
    status = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return _ended(status, None if signal else code, signal)


def _ended(status: str, code: int | None, signal: int, name: str = "") -> Document:
    return {
        "status": [status],
        "return_code": number(code),
        "signal": {"id": number(signal or None), "name": name},
    }


def later_job(job: Document) -> Document:
    """One of the ``jobs`` of squeue and scontrol."""
    return {
        **_texts(job),
        **_numbers(job, _JOB_NUMBERS.split()),
        "derived_exit_code": _exit(job["derived_exit_code"]),
        "exit_code": _exit(job["exit_code"]),
        "hold": job["priority"] == 0 and job["job_state"] == "PENDING",
        "job_state": [job["job_state"]],
        "nice": job["nice"] or 0,
        "profile": ["NOT_SET"],
        "shared": _words(job["shared"]),
        "time_limit": number(job["time_limit"], infinite=job["time_limit"] is None),
    }


def later_node(node: Document) -> Document:
    """One of the ``nodes`` of scontrol."""
    kept = {name: value for name, value in node.items() if name not in _NODE_GONE}
    flags = [*node["state_flags"], *node["next_state_after_reboot_flags"]]
    return {
        **_texts(kept),
        **_numbers(node, _NODE_NUMBERS),
        "active_features": _list(node["active_features"]),
        "features": _list(node["features"]),
        "free_mem": number(node["free_memory"]),
        "alloc_idle_cpus": node["idle_cpus"],
        "effective_cpus": node["cpus"],
        "next_state_after_reboot": ["INVALID"],
        "state": [node["state"].upper(), *flags],
        "version": node["slurmd_version"],
    }


_NODE_GONE = (
    "free_memory",
    "idle_cpus",
    "next_state_after_reboot_flags",
    "slurmd_version",
    "state_flags",
)


def later_partition(part: Document) -> Document:
    """One of the ``partitions`` of scontrol."""
    return {
        "name": part["name"],
        "alternate": part["alternative"],
        "cluster": "",
        "grace_time": part["preemption_grace_time"],
        "node_sets": "",
        "nodes": {
            "allowed_allocation": part["allowed_allocation_nodes"],
            "configured": part["nodes"],
            "total": part["total_nodes"],
        },
        "accounts": {"allowed": part["allowed_accounts"], "deny": part["denied_accounts"]},
        "groups": {"allowed": part["allowed_groups"]},
        "qos": {"allowed": part["allowed_qos"], "deny": part["denied_qos"], "assigned": ""},
        "tres": {"billing_weights": part["billing_weights"], "configured": part["tres"]},
        "cpus": {"task_binding": 0, "total": part["total_cpus"]},
        "defaults": {
            "job": "",
            "memory_per_cpu": part["default_memory_per_cpu"] or 0,
            "partition_memory_per_cpu": number(part["default_memory_per_cpu"]),
            "partition_memory_per_node": number(part["default_memory_per_node"]),
            "time": number(part["default_time_limit"]),
        },
        "maximums": {
            "cpus_per_node": number(None, infinite=True),
            "cpus_per_socket": number(None, infinite=True),
            "memory_per_cpu": 0,
            "nodes": number(None, infinite=True),
            "over_time_limit": number(part["over_time_limit"]),
            "oversubscribe": {"jobs": 1, "flags": []},
            "partition_memory_per_cpu": number(part["maximum_memory_per_cpu"]),
            "partition_memory_per_node": number(part["maximum_memory_per_node"]),
            "shares": 1,
            "time": number(part["max_time_limit"], infinite=part["max_time_limit"] is None),
        },
        "minimums": {"nodes": part["min nodes per job"]},
        "partition": {"state": [part["state"].upper()]},
        "priority": {"job_factor": part["priority_job_factor"], "tier": part["priority_tier"]},
        "suspend_time": number(None, infinite=True),
        "timeouts": {"resume": number(None), "suspend": number(None)},
    }


def later_reservation(reservation: Document) -> Document:
    """One of the ``reservations`` of scontrol."""
    return {
        **_texts(reservation),
        **_numbers(reservation, ("start_time", "end_time")),
        "watts": number(None),
    }


def later_account_job(job: Document) -> Document:
    """One of the ``jobs`` of sacct."""
    limit, required = job["time"]["limit"], job["required"]
    return {
        **_texts(job),
        "array": {**_texts(job["array"]), "task_id": number(job["array"]["task_id"])},
        "association": {**_texts(job["association"]), "id": 0},
        "derived_exit_code": _later_end(job["derived_exit_code"]),
        "exit_code": _later_end(job["exit_code"]),
        "het": {**job["het"], "job_offset": number(job["het"]["job_offset"])},
        "priority": number(job["priority"]),
        "required": {
            "CPUs": required["CPUs"],
            "memory_per_cpu": number(None),
            "memory_per_node": number(required["memory"] or None),
        },
        "state": {**job["state"], "current": [job["state"]["current"]]},
        "steps": [_later_step(step) for step in job["steps"]],
        "time": {**job["time"], "limit": number(limit, infinite=limit is None)},
    }


def _later_end(end: Document) -> Document:
    signal = end.get("signal", {})
    return _ended(
        end["status"], end["return_code"], signal.get("signal_id", 0), signal.get("name", "")
    )


def _later_step(step: Document) -> Document:
    time, own = step["time"], step["step"]
    return {
        **_texts(step),
        "exit_code": _later_end(step["exit_code"]),
        "state": [step["state"]],
        "step": {"id": f"{own['job_id']}.{own['id']}", "name": own["name"]},
        "time": {**time, "end": number(time["end"]), "start": number(time["start"])},
    }


def later_groups(partitions: list[Document], nodes: list[Document], cluster: str) -> list[Document]:
    """What sinfo lists since 23.02: the nodes of a partition that are in one state together."""
    found = []
    for part in partitions:
        groups: dict[tuple[str, ...], list[Document]] = {}
        for node in nodes:
            if part["name"] in node["partitions"]:
                groups.setdefault(tuple(later_node(node)["state"]), []).append(node)
        found += [_group(part, state, held, cluster) for state, held in groups.items()]
    return found


def _range(nodes: list[Document], name: str) -> Document:
    values = [node[name] for node in nodes]
    return {"minimum": min(values), "maximum": max(values)}


def _group(part: Document, state: tuple[str, ...], nodes: list[Document], cluster: str) -> Document:
    first = nodes[0]
    used = sum(node["alloc_cpus"] for node in nodes)
    total, idle = sum(node["cpus"] for node in nodes), sum(node["idle_cpus"] for node in nodes)
    free = _range(nodes, "free_memory")
    out = {"DOWN", "DRAIN", "NOT_RESPONDING"} & set(state)
    busy = 0 if out or not used else len(nodes)
    return {
        "cluster": cluster,
        "comment": first["comment"],
        "cores": _range(nodes, "cores"),
        "cpus": {
            "allocated": used,
            "idle": 0 if out else idle,
            "other": idle if out else 0,
            "total": total,
            **_range(nodes, "cpus"),
            "load": _range(nodes, "cpu_load"),
            "per_node": {"max": number(None, infinite=True)},
        },
        "disk": _range(nodes, "temporary_disk"),
        "extra": first["extra"],
        "features": {"total": first["features"], "active": first["active_features"]},
        "gres": {"total": first["gres"], "used": first["gres_used"]},
        "memory": {
            **_range(nodes, "real_memory"),
            "free": {end: number(value) for end, value in free.items()},
            "allocated": sum(node["alloc_memory"] for node in nodes),
        },
        "node": {"state": list(state)},
        "nodes": {
            "addresses": [node["address"] for node in nodes],
            "allocated": busy,
            "hostnames": [node["hostname"] for node in nodes],
            "idle": 0 if out or busy else len(nodes),
            "nodes": [node["name"] for node in nodes],
            "other": len(nodes) if out else 0,
            "total": len(nodes),
        },
        "partition": later_partition(part),
        "port": _range(nodes, "port"),
        "reason": {
            "description": first["reason"],
            "time": number(first["reason_changed_at"]),
            "user": first["reason_set_by_user"] or "",
        },
        "reservation": "",
        "sockets": _range(nodes, "sockets"),
        "threads": _range(nodes, "threads"),
        "weight": _range(nodes, "weight"),
    }


def later_statistics(counters: Document) -> Document:
    """The ``statistics`` of sdiag."""
    return {**counters, **_numbers(counters, ("req_time", "req_time_start"))}


def later_user(user: Document) -> Document:
    """One of the ``users`` of sacctmgr."""
    return {**_texts(user), "administrator_level": [user["administrator_level"]]}


def later_place(place: Document) -> Document:
    """One of the ``associations`` of sacctmgr."""
    limits = ("max", "min", "priority")
    counts = {name: _counts(place[name]) for name in limits}
    return {**_texts(place), **counts, "is_default": bool(place["is_default"]), "id": 0}


def later_qos(qos: Document) -> Document:
    """One of the ``qos`` of sacctmgr."""
    numbers = ("limits", "priority", "usage_factor", "usage_threshold")
    return {**qos, **{name: _counts(qos[name]) for name in numbers}}


def _counts(value: object) -> object:
    """Numbers, and what has none, at any depth; lists are of something else."""
    if isinstance(value, dict):
        return {name: _counts(one) for name, one in value.items()}
    return value if isinstance(value, list) else number(value, infinite=value is None)  # type: ignore[arg-type]
