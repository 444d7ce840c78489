"""From an allocation to a launch: the argument list, the environment, the files of an attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rota.core.policy import PreemptMode
from rota.core.states import Cause, Phase
from rota.rpc.messages import Launch, Saved, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.core.cluster import Cluster
    from rota.core.job import Attempt, Job

_environment: msgspec.msgpack.Decoder[dict[str, str]] = msgspec.msgpack.Decoder(dict[str, str])
_SLOT = re.compile(r"\{([^{}]*)\}")
_NOTHING = msgspec.msgpack.encode({})
#: Of the variables that all jobs find, these say where saved work goes and how much it may be.
CHECKPOINT_DIR = "ROTA_CHECKPOINT_DIR"
CHECKPOINT_STORE = "ROTA_CHECKPOINT_STORE"
CHECKPOINT_MAX_BYTES = "ROTA_CHECKPOINT_MAX_BYTES"
encode_environment = msgspec.msgpack.Encoder(order="sorted").encode


def wanted(
    cluster: Cluster,
    job: Job,
    task: int,
    read_blob: Callable[[str], bytes],
    everywhere: Mapping[str, str],
) -> Wanted:
    """The order for one live attempt. Without a launch when it must not be started (again).

    ``everywhere`` are variables that all jobs find.
    """
    attempt = job.tasks[task].attempts[-1]
    node = cluster.nodes[attempt.allocation.node]
    started = (
        attempt.phase is Phase.RUNNING
        or attempt.incarnation != f"{node.incarnation}/{node.boot_id}"
    )
    if attempt.stop_cause is not None:
        return _farewell(cluster, job, attempt, started)
    suspended = bool(job.suspended_s)
    if started:
        return Wanted(uid=attempt.uid, started=True, suspended=suspended)
    environment = _environment.decode(read_blob(job.spec.environment) or _NOTHING)
    saved = saved_work(job, everywhere, attempt.number, task)
    if job.spec.pty:
        environment.setdefault("TERM", "xterm-256color")
    ours = {
        **everywhere,
        **_where_saved(saved),
        **job.spec.variables,
        **_variables(cluster, job, task, attempt),
    }
    environment |= ours
    inside = tuple(ours) if job.spec.image else ()
    launch = _launch(job, task, environment, read_blob, saved, inside)
    return Wanted(uid=attempt.uid, launch=launch, suspended=suspended)


def folder_name(job: Job) -> str:
    """With the uid in it, too: ids begin anew with a new database, old folders stay."""
    return f"{job.id}-{job.uid[:8]}"


def saved_work(
    job: Job, everywhere: Mapping[str, str], attempt: int = 1, task: int = 0
) -> Saved | None:
    """Where a job saves its work: its own folder, and the same one for every try of it."""
    root = everywhere.get(CHECKPOINT_DIR)
    if not root:
        return None
    name = folder_name(job)
    store = everywhere.get(CHECKPOINT_STORE, "")
    return Saved(
        folder=f"{root}/{name}",
        store=f"{store}/{name}" if store else "",
        most_bytes=int(everywhere.get(CHECKPOINT_MAX_BYTES, "0")),
        attempt=attempt,
        copies=task == 0,
    )


def _where_saved(saved: Saved | None) -> dict[str, str]:
    if saved is None:
        return {}
    store = {CHECKPOINT_STORE: saved.store} if saved.store else {}
    return {CHECKPOINT_DIR: saved.folder, **store}


def is_withheld(cluster: Cluster, uid: str) -> bool:
    """Whether a live attempt waits for others to leave its room: no agent must hear of it yet."""
    where = cluster.live.get(uid)
    if where is None:
        return False
    attempt = cluster.jobs[where[0]].tasks[where[1]].attempts[-1]
    node = cluster.nodes.get(attempt.allocation.node)
    return node is not None and uid in node.withheld


#: Stops that a job may use to save its state.
_SAVING = frozenset({Cause.PREEMPTED, Cause.SHRUNK, Cause.BACKFILL_WINDOW})


def _farewell(cluster: Cluster, job: Job, attempt: Attempt, started: bool) -> Wanted:
    """How an attempt is asked to end.

    One that gives way gets its checkpoint signal first, if it named one. In the mode
    ``checkpoint`` it has the policy's grace, or its own if that is longer; in others its own,
    but never longer than the policy's, because somebody waits for its room.
    """
    cause, spec, rules = attempt.stop_cause, job.spec, cluster.policy.preempt
    if cause not in _SAVING:
        return Wanted(uid=attempt.uid, started=started, stop=cause)
    saves = (spec.preempt_mode or rules.mode) is PreemptMode.CHECKPOINT
    grace_s = max(spec.grace_s, rules.grace_s) if saves else min(spec.grace_s, rules.grace_s)
    return Wanted(
        uid=attempt.uid,
        started=started,
        stop=cause,
        signal=spec.checkpoint_signal,
        grace_s=float(grace_s),
    )


def _launch(
    job: Job,
    task: int,
    environment: dict[str, str],
    read_blob: Callable[[str], bytes],
    saved: Saved | None,
    inside: tuple[str, ...],
) -> Launch:
    attempt = job.tasks[task].attempts[-1]
    spec, held = job.spec, attempt.allocation
    argv = spec.script_args if spec.script else spec.command
    return Launch(
        uid=attempt.uid,
        job=job.id,
        user=spec.user,
        argv=tuple(fill_in(part, job) for part in argv),
        workdir=spec.workdir,
        environment=environment,
        stdout=output_path(spec.output, job, task),
        stderr=output_path(spec.error, job, task),
        script=read_blob(spec.script) if spec.script else b"",
        stdin=read_blob(spec.stdin) if spec.stdin else b"",
        umask=spec.umask,
        ulimits=spec.ulimits,
        cpus=held.cpus,
        cpu_milli=held.cpu_milli,
        memory_mib=held.memory_mib,
        grace_s=float(spec.grace_s),
        terminal=spec.pty,
        checkpoint=saved,
        bundle=spec.bundle,
        image=spec.image,
        inside=inside,
        devices=held.devices if spec.image else (),
    )


def fill_in(text: str, job: Job) -> str:
    """Put the values of a sweep in the place of ``{name}``; other braces stay as they are."""
    if "{" not in text or not (job.parameters or job.array_id):
        return text
    values = {"index": str(job.array_index)} if job.array_id else {}
    values |= job.parameters
    # In one go, so that a value which looks like a slot stays as it is.
    return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), text)


def output_path(pattern: str, job: Job, task: int) -> str:
    """``%j`` job, ``%A`` array, ``%a`` index, ``%x`` name, ``%u`` user, ``%t`` task, ``%%``."""
    if not pattern:
        return ""
    values = {
        "j": str(job.id),
        "A": str(job.array_id or job.id),
        "a": str(job.array_index),
        "x": fill_in(job.spec.name, job),
        "u": job.spec.user,
        "t": str(task),
        "%": "%",
    }
    path = fill_in(_replace_marks(pattern, values), job)
    return path if path.startswith("/") else f"{job.spec.workdir.rstrip('/')}/{path}"


def _replace_marks(pattern: str, values: Mapping[str, str]) -> str:
    parts, rest = [], pattern
    while "%" in rest:
        before, _, rest = rest.partition("%")
        mark = rest[:1]
        parts += [before, values.get(mark, "%" + mark)]
        rest = rest[1:]
    return "".join([*parts, rest])


def _variables(cluster: Cluster, job: Job, task: int, attempt: Attempt) -> dict[str, str]:
    held, spec = attempt.allocation, job.spec
    cpus = max(1, held.cpu_milli // 1000)
    nodes = ",".join(dict.fromkeys(attempt.allocation.node for attempt in job.round))
    name = fill_in(spec.name, job)
    variables = {
        "ROTA_JOB_ID": str(job.id),
        "ROTA_JOB_NAME": name,
        "ROTA_TASK_INDEX": str(task),
        "ROTA_NUM_TASKS": str(spec.task_count),
        "ROTA_ATTEMPT": str(attempt.number),
        "ROTA_ATTEMPT_UID": attempt.uid,
        "ROTA_NODELIST": nodes,
        "ROTA_CPUS": str(cpus),
        "ROTA_MEM_MB": str(held.memory_mib),
        "ROTA_GPUS": ",".join(map(str, held.devices)),
        "ROTA_RESUME": "1" if attempt.number > 1 and job.checkpoints else "0",
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_NAME": name,
        "SLURM_PROCID": str(task),
        "SLURM_NTASKS": str(spec.task_count),
        "SLURM_CPUS_PER_TASK": str(cpus),
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_SUBMIT_DIR": spec.workdir,
        "SLURM_RESTART_COUNT": str(attempt.number - 1),
    }
    if spec.elastic:
        variables |= _world_size(job)
    if job.array_id:
        variables |= {
            "ROTA_ARRAY_ID": str(job.array_id),
            "ROTA_ARRAY_INDEX": str(job.array_index),
            "SLURM_ARRAY_JOB_ID": str(job.array_id),
            "SLURM_ARRAY_TASK_ID": str(job.array_index),
        }
    for key, value in job.parameters.items():
        variables[f"ROTA_PARAM_{key}"] = value
    if any(device.kind == "gpu" for device in cluster.nodes[held.node].spec.devices):
        variables |= _visible_devices(held.devices)
    return variables


def _world_size(job: Job) -> dict[str, str]:
    """An elastic job runs with as many tasks as there was room for, and may grow and shrink."""
    roles = job.spec.roles
    return {
        "ROTA_NUM_TASKS": str(len(job.live_attempts)),
        "ROTA_MIN_TASKS": str(sum(role.min_count or role.count for role in roles)),
        "ROTA_MAX_TASKS": str(job.spec.task_count),
        "SLURM_NTASKS": str(len(job.live_attempts)),
    }


def _visible_devices(devices: tuple[int, ...]) -> dict[str, str]:
    """A job sees the devices that it was granted, and none if it was granted none."""
    listed = ",".join(map(str, devices))
    return {
        "CUDA_VISIBLE_DEVICES": listed,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HIP_VISIBLE_DEVICES": listed,
        "ROCR_VISIBLE_DEVICES": listed,
        "NVIDIA_VISIBLE_DEVICES": listed or "void",
    }
