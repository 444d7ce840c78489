"""Examples for the documentation: bodies by their type, answers by their route."""

from __future__ import annotations

from typing import Any

from rota.api.bodies import pilot_requests as pilots
from rota.api.bodies import queue_requests as queue
from rota.api.bodies import requests as body
from rota.api.bodies import site_requests as site
from rota.api.bodies.vdc_requests import VdcPatch, VdcRequest
from rota.api.jobs.allocations import AllocationRequest
from rota.api.jobs.endpoints import EndpointRequest
from rota.api.site.pools import CordonRequest
from rota.api.site.vdcs import NamedVdc

_JOB = {
    "name": "train",
    "command": ["python", "train.py", "--lr", "0.001"],
    "workdir": "/home/ada/project",
    "resources": {"cpus": 4, "memory_mib": 16384, "gpus": 1},
    "time_limit_s": 7200,
    "labels": {"model": "small"},
}

#: Type of the body -> an example of it.
BODIES: dict[type, Any] = {
    body.JobRequest: _JOB,
    body.BatchRequest: {"jobs": [_JOB, {"command": "echo done", "array": "0-99%4"}]},
    body.JobPatch: {"priority": "high", "time_limit_s": 14400},
    body.SelectRequest: {"ids": [12, "15_3"]},
    queue.QueueRequest: {"priority": 60, "max_running": 20, "state": "active"},
    site.NewQueueRequest: {"name": "night", "max_running": 10},
    queue.GroupRequest: {"max_concurrent": 4},
    queue.QueuePatch: {"state": "paused"},
    VdcRequest: {
        "clusters": [{"name": "hpc", "weight": 2}, {"name": "local"}],
        "strategy": "cost",
        "limits": {"gpus": 16},
        "max_per_user": 4,
    },
    VdcPatch: {"strategy": "load", "overcommit": 1.5},
    NamedVdc: {"name": "science", "clusters": [{"name": "hpc"}, {"name": "local"}]},
    site.ProjectRequest: {"shares": 2, "quota": {"hard": {"gpus": 8}}},
    site.ProjectPatch: {"shares": 3, "quota": {"soft": {"gpus": 4}}},
    site.ResetRequest: {"user": "ada"},
    site.UserPatch: {"shares": 2, "quota": {"hard": {"jobs": 10, "gpu_hours": 500}}},
    site.QuotaQuestion: {"cpu": 8, "memory_gb": 32, "gpu": 1, "job_type": "training"},
    site.ProjectQuotaPatch: {
        "cpu_quota": 100,
        "memory_quota": 500,
        "gpu_quota": 10,
        "max_concurrent_jobs": 50,
        "enforce_quota": True,
    },
    site.SbatchRequest: {
        "script": "#!/bin/sh\n#SBATCH --array=0-3 --mem=2G\nsrun ./fit $SLURM_ARRAY_TASK_ID\n",
        "options": ["--time=10"],
        "workdir": "/home/ada/project",
    },
    site.ReservationRequest: {
        "gpus": 2,
        "gpu_type": "A100",
        "user": "ada",
        "start_at": "2026-11-15T18:00",
        "duration_s": 14400,
        "zone": "Europe/Berlin",
        "note": "demo for the board",
    },
    site.PolicyRequest: {"policy": "easy", "rules": {"order.primary": "wfp3"}},
    site.ReplayRequest: {"policy": "sjf", "last_s": 604800, "jobs": 5000},
    site.ApplyRequest: {"policy": "sjf", "last_s": 604800, "guard_s": 604800},
    site.MarkRequest: {"labels": {"rack": "a"}, "taints": ["team=vision:avoid"]},
    site.CheckpointRequest: {"step": 1200, "path": "step-1200", "size": 1048576, "note": "best"},
    EndpointRequest: {"name": "board", "address": "gpu1:6006", "metadata": {"proto": "http"}},
    AllocationRequest: {
        "resources": {"cpus": 2, "gpus": 1},
        "time_limit_s": 3600,
        "wait_s": 2,
    },
    CordonRequest: {"note": "new memory on Tuesday"},
    site.DrainRequest: {"note": "new memory on Tuesday", "migrate": True},
    pilots.PilotRequest: {"kind": "slurm", "cpus": 16, "engine": {"partition": "main"}},
    pilots.PilotPatch: {"most": 8, "time_s": 14400},
    pilots.PilotStateRequest: {"allocations": [], "problem": "slurm does not answer"},
    pilots.DemandRequest: {"offers": [{"cpu_milli": 16000, "memory_mib": 65536}]},
    site.SecretRequest: {"value": "hf_0123456789"},
    body.TokenRequest: {"user": "ada", "access": "user", "note": "laptop", "expires_s": 2592000},
    body.TriggerRequest: {},
}
#: Bodies that may be left out.
OPTIONAL = frozenset(
    {CordonRequest, site.DrainRequest, body.TriggerRequest, site.CheckpointRequest}
)

_UID = "8188d2dbb4160476cb7066fe9d8005c4"

#: (method, path below /api/v1) -> an example of the answer.
ANSWERS: dict[tuple[str, str], Any] = {
    ("post", "/jobs"): {"id": 12, "uid": _UID, "state": "queued"},
    ("post", "/jobs:batch"): {"ids": [12, 13]},
    ("delete", "/jobs/{job_id}"): {"id": 12, "state": "running"},
    ("post", "/jobs:cancel"): {"changed": [12], "refused": []},
    ("post", "/jobs:hold"): {
        "changed": [],
        "refused": [{"id": 12, "reason": "job 12 is running; only a waiting job can be held"}],
    },
    ("get", "/jobs/wait"): {
        "done": [{"id": 12, "state": "completed", "exit_code": 0}],
        "pending": [13],
    },
    ("get", "/jobs/{job_id}/why"): {
        "id": 12,
        "state": "queued",
        "reason": "not enough free cpus",
        "lines": [
            "node a: needs 4 CPUs, 1 of 8 free",
            "it is expected to start in 1h on a, if everything goes to plan",
        ],
        "help": ["ask for 1 CPUs instead of 4: rota update 12 --cpus 1"],
        "tree": None,
    },
    ("get", "/queues:stats"): {
        "items": [
            {
                "name": "default",
                "state": "active",
                "waiting": 3,
                "running": 1,
                "oldest_wait_s": 312.5,
                "mean_wait_s": 120.1,
                "waiting_cpus": 12.0,
                "waiting_gpus": 3.0,
                "running_cpus": 4.0,
                "running_gpus": 1.0,
                "reasons": {"room": 2, "held": 1},
            }
        ]
    },
    ("get", "/status"): {
        "controller": {
            "pid": 4711,
            "url": "http://127.0.0.1:8082",
            "version": "0.1.0",
            "uptime_s": 3600.0,
        },
        "agent": {"pid": 4712, "node": "box"},
        "jobs": {"queued": 3, "running": 1, "completed": 96},
        "database": "/home/ada/.local/state/rota/rota.db",
        "nodes": 1,
        "user": "ada",
        "access": "admin",
    },
    ("get", "/queue"): {
        "states": {"queued": 3, "running": 1},
        "queued": 3,
        "running": 1,
        "bands": {"high": 0, "normal": 3, "low": 0},
    },
    ("get", "/jobs/scheduler/info"): {
        "policy": "default",
        "quota_provider": "local",
        "active_queues": 1,
        "pending_jobs": 3,
        "running_jobs": 1,
    },
    ("post", "/jobs/scheduler/trigger"): {"scheduled_count": 1, "remaining_pending": 2},
    ("get", "/jobs/{job_id}/checkpoint"): {"id": 12, "saved_at": "2026-11-15T18:00:00Z"},
    ("post", "/policy:test"): {
        "name": "custom",
        "changes": [{"key": "order.primary", "before": "priority", "after": "wfp3"}],
    },
    ("post", "/slurm/sbatch"): {"id": 12},
    ("post", "/tokens"): {
        "id": "9f2c01ab",
        "token": "rota_9f2c01ab_...",
        "user": "ada",
        "access": "user",
        "expires_at": None,
    },
}
