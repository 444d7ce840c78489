"""What a job of Slurm finds in its environment: the caller's variables and Slurm's own.

What the controller knows only when the job starts (its nodes, its CPUs) it adds then; here is
what follows from the options. An empty value takes away what the controller would set.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rota.api.people import PEOPLE
from rota.controller.launches.variables import RENDEZVOUS
from rota.controller.launches.world import per_node
from rota.inherited import OWN_KEPT, is_inherited, looks_secret

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec
    from rota.slurm.call.command import CallRequest
    from rota.slurm.orders.detail import Detail
    from rota.slurm.orders.orders import JobOrder
    from rota.slurm.orders.shapes import Share

#: Settings of the commands: they hold for a job in a job, too.
_SETTINGS = frozenset({"SLURM_CONF", "SLURM_TIME_FORMAT", "SLURM_UMASK"})
USUAL_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def captured(env: dict[str, str]) -> dict[str, str]:
    """The caller's environment without secrets of ours and without the job that it is part of."""
    inside = "SLURM_JOB_ID" in env or "ROTA_JOB_ID" in env
    return {name: value for name, value in env.items() if _travels(name, inside)}


def _travels(name: str, inside: bool) -> bool:
    if not is_inherited(name) or (looks_secret(name) and not inside):
        return False
    if not inside or name in _SETTINGS:
        return True
    return not name.startswith(("SLURM_", "SLURMD_")) and name not in RENDEZVOUS


def exported(request: CallRequest, text: str, user: str) -> dict[str, str]:
    """By ``--export``: ``ALL``, ``NONE``, names and ``NAME=VALUE``."""
    parts = [part for part in text.split(",") if part] if text else ["ALL"]
    whole = captured(request.env)
    words = {part.upper() for part in parts}
    if "ALL" in words:
        env = dict(whole)
    else:
        env = login(user)
        env |= {name: whole[name] for name in OWN_KEPT if name in whole}
    for part in parts:
        name, mark, value = part.partition("=")
        if mark and name:
            env[name] = value
        elif part.upper() not in {"ALL", "NONE", "NIL"} and (
            part in whole or (part in request.env and looks_secret(part))
        ):
            env[part] = request.env[part]
    env["PATH"] = _with_commands(env.get("PATH", USUAL_PATH), request.env)
    return env


def left_out(request: CallRequest, text: str) -> list[str]:
    """Names of variables that look like secrets and that ``--export`` would take but for that."""
    parts = text.split(",") if text else ["ALL"]
    if "ALL" not in {part.upper() for part in parts}:
        return []
    named = {part.partition("=")[0] for part in parts}
    found = [name for name in request.env if looks_secret(name) and name not in named]
    taken = captured(request.env) if found else {}
    return [name for name in found if name not in taken]


def _with_commands(path: str, env: dict[str, str]) -> str:
    """The srun of a job is the one beside the command that submitted it, whatever else there is."""
    # Commands are links to programs in a folder of their own below theirs.
    known = env.get("ROTA_SLURM_FOLDER", "").removesuffix("/.rota")
    if not known and path == env.get("PATH"):
        return path
    ours = known or _first_with_srun(env.get("PATH", ""))
    return path if not ours or path.partition(":")[0] == ours else f"{ours}:{path}"


def _first_with_srun(path: str) -> str:
    folders = path.split(":")
    return next((f for f in folders if f.startswith("/") and os.path.exists(f"{f}/srun")), "")


def login(user: str) -> dict[str, str]:
    """What a login would give at the least."""
    env = {"USER": user, "LOGNAME": user, "PATH": USUAL_PATH}
    entry = PEOPLE.entry(user)
    return {**env, "HOME": entry.home, "SHELL": entry.shell} if entry is not None else env


def variables(
    request: CallRequest, order: JobOrder, share: Share, detail: Detail
) -> dict[str, str]:
    """What the options say, in the names that programs look for."""
    tasks = [share.tasks_on(node) for node in range(share.nodes)]
    found = {
        **(WITHOUT_GANG if share.nodes > 1 else {}),
        "SLURM_SUBMIT_DIR": request.cwd,
        "SLURM_SUBMIT_HOST": request.host,
        "SLURM_JOB_QOS": detail.qos or "normal",
        "SLURM_TASKS_PER_NODE": per_node(tasks),
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_GTIDS": "0",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_STEP_GPUS": "",
        **_people(request),
        **_counts(order, share, detail),
        **order.sets,
    }
    if request.program == "sbatch":
        found["ENVIRONMENT"] = "BATCH"
        if order.has("input"):
            found["SLURM_JOB_STDIN"] = order.text("input")
    if detail.open_mode:
        found["SLURM_OPEN_MODE"] = detail.open_mode[0].lower()
    if detail.account:
        found["SLURM_JOB_ACCOUNT"] = detail.account
    return found


#: What the controller tells the members of a gang of Rota; a step of Slurm has its own.
_STEP = (
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_LAUNCH_NODE_IPADDR",
)


#: Takes all of that away.
WITHOUT_GANG = dict.fromkeys((*RENDEZVOUS, *_STEP), "")


def _people(request: CallRequest) -> dict[str, str]:
    if request.uid < 0:
        return {}
    found = {"SLURM_JOB_UID": str(request.uid)}
    entry = PEOPLE.entry(request.uid)
    return found | {"SLURM_JOB_GID": str(entry.gid)} if entry is not None else found


def _counts(order: JobOrder, share: Share, detail: Detail) -> dict[str, str]:
    """Only what was asked for: programs take the presence of some of them for a sign."""
    named = detail.ntasks_given
    return {
        "SLURM_NTASKS": str(share.ntasks) if named else "",
        "SLURM_NPROCS": str(share.ntasks) if named else "",
        "SLURM_CPUS_PER_TASK": str(order.cpus_per_task or ""),
    }


def of_group(
    number: int, order: JobOrder, share: Share, detail: Detail, made: JobSpec
) -> dict[str, str]:
    """What one group of a heterogeneous job asked for; its nodes are known when it starts."""
    tasks = [share.tasks_on(node) for node in range(share.nodes)]
    found = {
        "SLURM_NTASKS": str(share.ntasks),
        "SLURM_NPROCS": str(share.ntasks),
        "SLURM_CPUS_PER_TASK": str(order.cpus_per_task or ""),
        "SLURM_TASKS_PER_NODE": per_node(tasks),
        "SLURM_JOB_CPUS_PER_NODE": per_node([share.cpus] * share.nodes),
        "SLURM_JOB_NAME": detail.het_names[number],
        "SLURM_JOB_PARTITION": made.queue,
        "SLURM_JOB_QOS": detail.qos or "normal",
        "SLURM_JOB_ACCOUNT": detail.account,
        **{name: value for name, value in order.sets.items() if name.startswith("SLURM_MEM_")},
    }
    return {f"{name}_HET_GROUP_{number}": value for name, value in found.items() if value}
