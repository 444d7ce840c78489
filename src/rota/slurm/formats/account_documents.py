"""Jobs as ``sacct --json`` and ``/slurmdb`` show them."""

from __future__ import annotations

import signal as signals
from typing import TYPE_CHECKING, Any

from rota import hostlist
from rota.digits import is_digits
from rota.slurm.records.tres import TRES_IDS

if TYPE_CHECKING:
    from rota.slurm.records.records import JobRecord, StepRecord

_SCALE = {"": 1, "K": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
_SUCCESS = {"status": "SUCCESS", "return_code": 0}


def tres_list(text: str) -> list[dict[str, Any]]:
    """``cpu=2,gres/gpu=1`` as a list of kinds and counts; memory is in MiB."""
    found = []
    models = 1001
    for part in filter(None, text.split(",")):
        kind, _, amount = part.partition("=")
        type_, _, name = kind.partition("/")
        number = TRES_IDS.get(kind)
        if number is None:
            models += 1
            number = models
        unit = amount.lstrip("0123456789")
        count = int(amount[: len(amount) - len(unit)] or 0) * _SCALE.get(unit, 1)
        found.append({"type": type_, "name": name or None, "id": number, "count": count})
    return found


def account_document(job: JobRecord, cluster: str, now_s: float) -> dict[str, Any]:
    """One of ``jobs``."""
    return {
        **_who(job, cluster),
        "time": _time(job),
        "exit_code": _exit(job.exit_code, job.signal),
        "flags": [],
        "group": job.group,
        "het": {"job_id": job.het_id, "job_offset": job.het_offset if job.het_id else None},
        "job_id": job.raw_id,
        "name": job.name,
        "mcs": {"label": ""},
        "nodes": hostlist.compress(job.nodes) or "None assigned",
        "partition": job.partition,
        "priority": job.priority,
        "qos": job.qos,
        "required": {"CPUs": job.cpus, "memory": job.memory_mib},
        "kill_request_user": None,
        "reservation": {"id": 0, "name": 0},
        "state": {"current": job.state, "reason": job.reason},
        "steps": [_step(job, step, now_s) for step in job.steps],
        "tres": {"allocated": tres_list(job.tres_alloc), "requested": tres_list(job.tres_req)},
        "user": job.user,
        "wckey": {"wckey": job.wckey, "flags": []},
        "working_directory": job.workdir,
    }


def _who(job: JobRecord, cluster: str) -> dict[str, Any]:
    return {
        "account": job.account,
        "comment": {"administrator": None, "job": job.comment or None, "system": None},
        "allocation_nodes": job.node_count if job.nodes else 0,
        "array": {
            "job_id": job.array_id,
            "limits": {"max": {"running": {"tasks": job.array_cap}}},
            "task": job.array_rest or None,
            "task_id": job.array_index,
        },
        "association": {
            "account": job.account,
            "cluster": cluster,
            "partition": None,
            "user": job.user,
        },
        "cluster": cluster,
        "constraints": job.features,
        "container": job.container or None,
        "derived_exit_code": dict(_SUCCESS),
    }


def _seconds(seconds: float) -> dict[str, int]:
    whole = int(seconds)
    return {"seconds": whole, "microseconds": int((seconds - whole) * 1e6)}


def _time(job: JobRecord) -> dict[str, Any]:
    return {
        "elapsed": job.run_s,
        "eligible": int(job.eligible_s),
        "end": int(job.end_s) if job.state not in ("RUNNING", "STOPPED") else 0,
        "start": int(job.start_s),
        "submission": int(job.submit_s),
        "suspended": job.paused_s,
        "system": _seconds(0.0),
        "limit": None if job.limit_s is None else -(-job.limit_s // 60),
        "total": _seconds(job.cpu_s),
        "user": _seconds(job.cpu_s),
    }


def _exit(code: int | None, signal: int) -> dict[str, Any]:
    if signal:
        try:
            name = signals.strsignal(signal) or ""
        except ValueError:
            name = ""
        return {
            "status": "SIGNALED",
            "return_code": code or None,
            "signal": {"signal_id": signal, "name": name},
        }
    return dict(_SUCCESS) if not code else {"status": "ERROR", "return_code": code}


def _used(step: StepRecord) -> list[dict[str, Any]]:
    """What its tasks used, in milliseconds and bytes: TRESUsageIn of the table."""
    return [
        {"type": "cpu", "name": None, "id": TRES_IDS["cpu"], "count": int(step.cpu_s * 1000)},
        {"type": "mem", "name": None, "id": TRES_IDS["mem"], "count": step.memory_mib << 20},
    ]


def _step(job: JobRecord, step: StepRecord, now_s: float) -> dict[str, Any]:
    end_s = step.end_s or now_s
    nothing: dict[str, list[Any]] = {"max": [], "min": [], "average": [], "total": []}
    return {
        "time": {
            "elapsed": max(0, int(end_s) - int(step.start_s)),
            "end": int(step.end_s),
            "start": int(step.start_s),
            "suspended": 0,
            "system": _seconds(0.0),
            "total": _seconds(step.cpu_s),
            "user": _seconds(step.cpu_s),
        },
        "exit_code": _exit(step.exit_code, step.signal),
        "nodes": {
            "list": list(step.nodes),
            "count": len(step.nodes),
            "range": hostlist.compress(step.nodes),
        },
        "tasks": {"count": step.tasks},
        "pid": None,
        "CPU": {"requested_frequency": {"min": 0, "max": 0}, "governor": []},
        "kill_request_user": None,
        "state": step.state,
        "statistics": {"CPU": {"actual_frequency": 0}, "energy": {"consumed": 0}},
        "step": {
            "job_id": job.raw_id,
            "het": {"component": None},
            "id": int(step.id) if is_digits(step.id) else step.id,
            "name": step.name,
        },
        "task": {"distribution": "Unknown"},
        "tres": {
            "requested": dict.fromkeys(nothing, _used(step)),
            "consumed": dict(nothing),
            "allocated": tres_list(step.tres),
        },
    }
