"""JSON and YAML as slurmrestd 22.05 writes them: the same keys, the same order, the same slashes.

Clients compare what they read with what they know; so a key that Rota has no value for is there
with the value that Slurm gives to what was never set.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from rota import hostlist
from rota.slurm.orders.options import kept_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.slurm.records.records import HeldOnNode, JobRecord, NodeRecord, PartitionRecord

PLUGIN = {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"}
DB_PLUGIN = {"type": "openapi/dbv0.0.38", "name": "Slurm OpenAPI DB v0.0.38"}


def meta(plugin: dict[str, str] = PLUGIN) -> dict[str, Any]:
    return {
        "plugin": dict(plugin),
        "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"},
    }


def body_of(name: str, items: Sequence[Any]) -> dict[str, Any]:
    """A document with one list and no errors."""
    return {"meta": meta(), "errors": [], name: items}


def text_of(document: dict[str, Any]) -> str:
    """With two blanks per level, empty lists on two lines and slashes escaped."""
    plain = _tame(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    # Slashes stand only inside texts.
    return _spread(plain).replace("/", "\\/") + "\n"


#: A line ends like this behind an empty list or map; behind a text it ends with a quote.
_EMPTY = ("[]", "[],", "{}", "{},")


def _spread(plain: str) -> str:
    """Empty lists and maps on two lines."""
    lines: list[str] = []
    for line in plain.split("\n"):
        if not line.endswith(_EMPTY):
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        head, comma = (line[:-1], ",") if line.endswith(",") else (line, "")
        lines += [head[:-1], f"{indent}{head[-1]}{comma}"]
    return "\n".join(lines)


def item_text(item: dict[str, Any]) -> str:
    """One item of a listing, as far in as it stands there."""
    return "    " + text_of(item).rstrip("\n").replace("\n", "\n    ")


#: Text that no reader of YAML takes for something else, and what it takes in escapes only.
_PLAIN = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_/.@%+=()-]*")
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def as_yaml(document: dict[str, Any]) -> str:
    """YAML 1.1 with a tag in front of every value, as Slurm's serializer writes it."""
    return yaml_text(yaml_lines(document))


def yaml_text(lines: list[str]) -> str:
    return "\n".join(["%YAML 1.1", "--- !!map", *lines, "..."]) + "\n"


def yaml_lines(document: dict[str, Any]) -> list[str]:
    return _mapping(document, "")


def yaml_item(item: dict[str, Any]) -> str:
    return "\n".join(_sequence([item], ""))


def _mapping(document: dict[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in document.items():
        head = f"{indent}!!str {_string(key)}:"
        if isinstance(value, dict):
            lines += [f"{head} !!map", *_mapping(value, indent + "  ")]
        elif isinstance(value, list) and value:
            lines += [f"{head} !!seq", *_sequence(value, indent)]
        else:
            lines.append(f"{head} {_scalar(value)}")
    return lines


def _sequence(items: list[Any], indent: str) -> list[str]:
    lines: list[str] = []
    for item in items:
        if isinstance(item, dict):
            lines += [f"{indent}- !!map", *_mapping(item, indent + "  ")]
        else:
            lines.append(f"{indent}- {_scalar(item)}")
    return lines


def _scalar(value: object) -> str:
    if value is None or value == "":
        return "!!null null"
    if isinstance(value, bool):
        return f"!!bool {str(value).lower()}"
    if isinstance(value, list):
        return "!!seq []"
    if isinstance(value, int | float):
        return f"!!{type(value).__name__} {value}"
    return f"!!str {_string(str(value))}"


def _string(text: str) -> str:
    """As it is where that can be nothing else; else between quotes, with JSON's escapes."""
    if _PLAIN.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _tame(quoted)


def _tame(quoted: str) -> str:
    """What speaks to a terminal, or is not read by all, as escapes."""
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def job_document(job: JobRecord, cluster: str) -> dict[str, Any]:
    """One of ``jobs``."""
    return {
        **_job_identity(job, cluster),
        **_job_past(job),
        **_job_shape(job),
        **_job_rules(job),
        **_job_files(job),
        **{name: _kept(job.kept[key]) for name, key in _KEPT.items() if key in job.kept},
    }


_KEPT = kept_in("rest")


def _kept(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def _job_identity(job: JobRecord, cluster: str) -> dict[str, Any]:
    over = job.state != "PENDING"
    return {
        "account": job.account,
        "accrue_time": int(job.eligible_s),
        "admin_comment": job.admin_comment,
        "array_job_id": job.array_id,
        "array_task_id": job.array_index if job.array_id and not job.array_rest else None,
        "array_max_tasks": job.array_cap,
        "array_task_string": job.array_rest,
        "association_id": 0,
        "batch_features": "",
        "batch_flag": job.batch,
        "batch_host": job.nodes[0] if job.nodes else "",
        "flags": ["JOB_MEM_SET"] if job.memory_mib and not job.memory_per_cpu else [],
        "burst_buffer": "",
        "burst_buffer_state": "",
        "cluster": cluster,
        "cluster_features": "",
        "command": job.command,
        "comment": job.comment,
        "container": job.container,
        "contiguous": False,
        "core_spec": None,
        "thread_spec": None,
        "cores_per_socket": None,
        "billable_tres": float(job.cpus) if over else None,
        "cpus_per_task": job.cpus_per_task if job.cpus_per_task > 1 else None,
        "cpu_frequency_minimum": None,
        "cpu_frequency_maximum": None,
        "cpu_frequency_governor": None,
        "cpus_per_tres": "",
        "deadline": int(job.deadline_s),
        "delay_boot": 0,
        "dependency": job.dependency,
        "derived_exit_code": 0,
    }


def _job_past(job: JobRecord) -> dict[str, Any]:
    held = {"job_resources": _resources(job)} if job.held else {}
    return {
        "eligible_time": int(job.eligible_s),
        "end_time": int(job.end_s),
        "excluded_nodes": hostlist.compress(job.exc_nodes),
        "exit_code": job.exit_code << 8 | job.signal,
        "features": job.features,
        "federation_origin": "",
        "federation_siblings_active": "",
        "federation_siblings_viable": "",
        "gres_detail": [],
        "group_id": job.gid,
        "group_name": job.group,
        "job_id": job.raw_id,
        **held,
        "job_state": job.state,
        "last_sched_evaluation": int(job.eligible_s or job.submit_s),
    }


def _resources(job: JobRecord) -> dict[str, Any]:
    return {
        "nodes": hostlist.compress(job.nodes),
        "allocated_cores": job.cpus,
        "allocated_hosts": len(job.held),
        "allocated_nodes": [_on_node(held) for held in job.held],
    }


def _on_node(held: HeldOnNode) -> dict[str, Any]:
    cores = held.cpu_ids or tuple(range(held.cpus))
    return {
        "sockets": {"0": {"cores": {str(core): "allocated" for core in cores}}},
        "nodename": held.node,
        "cpus_used": 0,
        "memory_used": 0,
        "memory_allocated": held.memory_mib,
    }


def _job_shape(job: JobRecord) -> dict[str, Any]:
    return {
        "licenses": job.licenses,
        "max_cpus": 0,
        "max_nodes": 0,
        "mcs_label": "",
        "memory_per_tres": "",
        "name": job.name,
        "nodes": hostlist.compress(job.nodes),
        "nice": job.nice or None,
        "tasks_per_core": None,
        "tasks_per_node": job.tasks_per_node,
        "tasks_per_socket": None,
        "tasks_per_board": 0,
        "cpus": job.cpus,
        "node_count": job.node_count,
        "tasks": job.tasks,
        "het_job_id": job.het_id,
        "het_job_id_set": job.het_ids,
        "het_job_offset": job.het_offset,
        "partition": job.partition,
        "prefer": "",
        "memory_per_node": None if job.memory_per_cpu else job.memory_mib or None,
        "memory_per_cpu": job.memory_mib if job.memory_per_cpu else None,
        "minimum_cpus_per_node": job.min_cpus_node,
        "minimum_tmp_disk_per_node": job.disk_mib,
    }


def _job_rules(job: JobRecord) -> dict[str, Any]:
    return {
        "preempt_time": 0,
        "pre_sus_time": job.paused_s,
        "priority": job.priority,
        "profile": None,
        "qos": job.qos,
        "reboot": False,
        "required_nodes": hostlist.compress(job.req_nodes),
        "requeue": job.requeue,
        "resize_time": 0,
        "restart_cnt": job.restarts,
        "resv_name": job.reservation,
        "shared": "none" if job.exclusive else None,
        "show_flags": ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"],
        "sockets_per_board": 0,
        "sockets_per_node": None,
        "start_time": int(job.start_s),
        "state_description": "",
        "state_reason": job.reason,
    }


def _job_files(job: JobRecord) -> dict[str, Any]:
    return {
        "standard_error": job.stderr if job.stderr != job.stdout else "",
        "standard_input": job.stdin,
        "standard_output": job.stdout,
        "submit_time": int(job.submit_s),
        "suspend_time": int(job.suspend_s),
        "system_comment": "",
        "time_limit": None if job.limit_s is None else -(-job.limit_s // 60),
        "time_minimum": job.time_min,
        "threads_per_core": None,
        "tres_bind": "",
        "tres_freq": "",
        "tres_per_job": "",
        "tres_per_node": job.gres,
        "tres_per_socket": "",
        "tres_per_task": "",
        "tres_req_str": job.tres_req,
        "tres_alloc_str": job.tres_alloc,
        "user_id": job.uid,
        "user_name": job.user,
        "wckey": job.wckey,
        "current_working_directory": job.workdir,
    }


def node_document(node: NodeRecord) -> dict[str, Any]:
    """One of ``nodes``."""
    return {
        "architecture": node.arch,
        "burstbuffer_network_address": "",
        "boards": 1,
        "boot_time": int(node.boot_s),
        "comment": "",
        "cores": 1,
        "cpu_binding": 0,
        "cpu_load": 0,
        "extra": "",
        "free_memory": node.memory_free_mib,
        "cpus": node.cpus,
        "last_busy": int(node.busy_s),
        "features": node.features,
        "active_features": node.features,
        "gres": "" if node.gres == "(null)" else node.gres,
        "gres_drained": "N/A",
        "gres_used": "" if node.gres_used == "(null)" else node.gres_used,
        "mcs_label": "",
        "name": node.name,
        "next_state_after_reboot": "invalid",
        "address": node.address,
        "hostname": node.host,
        "state": node.state.lower(),
        "state_flags": [*node.flags, *(["NOT_RESPONDING"] if node.silent else [])],
        "next_state_after_reboot_flags": [],
        "operating_system": node.system,
        "owner": None,
        "partitions": list(node.partitions),
        "port": 6818,
        "real_memory": node.memory_mib,
        "reason": node.reason,
        "reason_changed_at": int(node.reason_s),
        "reason_set_by_user": node.reason_by or None,
        "slurmd_start_time": int(node.since_s),
        "sockets": node.sockets,
        "threads": 1,
        "temporary_disk": node.disk_mib,
        "weight": 1,
        "tres": node.tres,
        "slurmd_version": "22.05.8",
        "alloc_memory": node.memory_used_mib,
        "alloc_cpus": node.cpus_used,
        "idle_cpus": node.cpus - node.cpus_used,
        "tres_used": node.tres_used or None,
        "tres_weighted": float(node.cpus_used),
    }


def partition_document(partition: PartitionRecord) -> dict[str, Any]:
    """One of ``partitions``."""
    limit, default = partition.max_time_s, partition.default_time_s
    return {
        "flags": ["default"] if partition.default else [],
        "preemption_mode": ["disabled"],
        "allowed_allocation_nodes": "",
        "allowed_accounts": "",
        "allowed_groups": "",
        "allowed_qos": "",
        "alternative": "",
        "billing_weights": "",
        "default_memory_per_cpu": partition.memory_per_cpu_mib or None,
        "default_memory_per_node": None,
        "default_time_limit": None if default is None else default // 60,
        "denied_accounts": "",
        "denied_qos": "",
        "preemption_grace_time": 0,
        "maximum_cpus_per_node": -1,
        "maximum_memory_per_cpu": None,
        "maximum_memory_per_node": None,
        "maximum_nodes_per_job": -1,
        "max_time_limit": None if limit is None else limit // 60,
        "min nodes per job": 0,
        "name": partition.name,
        "nodes": hostlist.compress(partition.nodes),
        "over_time_limit": None,
        "priority_job_factor": 1,
        "priority_tier": partition.priority,
        "qos": "",
        "state": partition.state,
        "total_cpus": partition.cpus,
        "total_nodes": len(partition.nodes),
        "tres": partition.tres,
    }
