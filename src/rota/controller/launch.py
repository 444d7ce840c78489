"""From an allocation to a launch: the argument list, the environment, the files of an attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rota.core.states import Phase
from rota.rpc.messages import Launch, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.core.cluster import Cluster
    from rota.core.job import Attempt, Job

_environment: msgspec.msgpack.Decoder[dict[str, str]] = msgspec.msgpack.Decoder(dict[str, str])
_SLOT = re.compile(r"\{([^{}]*)\}")
_NOTHING = msgspec.msgpack.encode({})
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
    if started or attempt.stop_cause is not None:
        return Wanted(uid=attempt.uid, started=started, stop=attempt.stop_cause)
    environment = _environment.decode(read_blob(job.spec.environment) or _NOTHING)
    environment |= {**everywhere, **job.spec.variables, **_variables(cluster, job, task, attempt)}
    return Wanted(uid=attempt.uid, launch=_launch(job, task, attempt, environment, read_blob))


def _launch(
    job: Job,
    task: int,
    attempt: Attempt,
    environment: dict[str, str],
    read_blob: Callable[[str], bytes],
) -> Launch:
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
        "ROTA_RESUME": "1" if attempt.number > 1 else "0",
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
