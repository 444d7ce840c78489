"""From an allocation to a launch: the argument list, the environment, the files of an attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rota.controller.launches.overrides import (
    SLURM,
    elsewhere,
    group_variables,
    output_mode,
    override,
)
from rota.controller.launches.variables import (
    alone_variables,
    forget_parent,
    gang_variables,
    own_variables,
    shared_variables,
)
from rota.controller.launches.world import GangWorld, world_of
from rota.core.facts.policy import PreemptMode
from rota.core.facts.states import Cause, Phase
from rota.rpc.messages import EngineOrder, Launch, Saved, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import NodeSpec

_environment: msgspec.msgpack.Decoder[dict[str, str]] = msgspec.msgpack.Decoder(dict[str, str])
#: A mark in the name of an output file, with a width if one is given.
_MARK = re.compile(r"%([0-9]?)(.)", re.DOTALL)
#: What Slurm prints for a job that is in no array.
NO_INDEX = "4294967294"
_SLOT = re.compile(r"\{([^{}]*)\}")
_NOTHING = msgspec.msgpack.encode({})
#: Of the variables that all jobs find, these say where saved work goes and how much it may be.
CHECKPOINT_DIR = "ROTA_CHECKPOINT_DIR"
CHECKPOINT_STORE = "ROTA_CHECKPOINT_STORE"
CHECKPOINT_MAX_BYTES = "ROTA_CHECKPOINT_MAX_BYTES"
#: How long a job's user keeps what functions returned; a job that runs one looks after that.
RESULT_DAYS = "ROTA_RESULT_DAYS"
#: Else what Python prints is seen late, and lost when it is killed.
UNBUFFERED = "PYTHONUNBUFFERED"
encode_environment = msgspec.msgpack.Encoder(order="sorted").encode


def wanted(
    cluster: Cluster,
    job: Job,
    task: int,
    read_blob: Callable[[str], bytes],
    everywhere: Mapping[str, str],
    world: GangWorld | None = None,
    open_sealed: Callable[[bytes], bytes] = bytes,
) -> Wanted:
    """The order for one live attempt. Without a launch when it must not be started (again).

    ``everywhere`` are variables that all jobs find; ``world`` spares a large gang that its world
    is made for each of its tasks; ``open_sealed`` makes an environment readable.
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
    if world is None and job.spec.task_count > 1:
        world = world_of(cluster, job)
    told = world.told if world is not None else b""
    if started:
        return Wanted(
            uid=attempt.uid,
            started=True,
            suspended=suspended,
            world=told,
            saves=job.saves,
            save_signal=job.asking_signal,
        )
    environment = _environment.decode(open_sealed(read_blob(job.spec.environment)) or _NOTHING)
    environment = forget_parent(environment)
    saved = saved_work(job, everywhere, attempt.number, task)
    environment.setdefault(UNBUFFERED, "1")
    if job.spec.pty:
        environment.setdefault("TERM", "xterm-256color")
    ours = {
        **everywhere,
        **_where_saved(saved),
        **(gang_variables(cluster, job, task, world) if world is not None else {}),
        **job.spec.variables,
        **own_variables(cluster, job, attempt, fill_in(job.spec.name, job)),
        **(alone_variables(attempt) if world is None else shared_variables(task, world)),
    }
    environment |= ours
    override(environment, job.spec.variables | group_variables(job))
    inside = (*ours, UNBUFFERED) if job.spec.image else ()
    launch = _launch(job, task, environment, read_blob, saved, inside, told)
    if node.spec.engine:
        order = _engine_order(job, attempt, node.spec)
        launch = msgspec.structs.replace(launch, order=order, devices=(), cpus=())
    return Wanted(uid=attempt.uid, launch=launch, suspended=suspended, saves=job.saves)


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


def awaits_room(cluster: Cluster, attempt: Attempt) -> bool:
    """Whether a live attempt waits for others to leave its room."""
    node = cluster.nodes.get(attempt.allocation.node)
    return node is not None and attempt.uid in node.withheld


def is_withheld(cluster: Cluster, uid: str) -> bool:
    """Whether a live attempt waits for others to leave its room: no agent must hear of it yet."""
    where = cluster.live.where.get(uid)
    if where is None:
        return False
    attempt = cluster.jobs[where[0]].tasks[where[1]].attempts[-1]
    return awaits_room(cluster, attempt)


#: Stops that a job may use to save its state.
_SAVING = frozenset({Cause.PREEMPTED, Cause.SHRUNK, Cause.BACKFILL_WINDOW, Cause.MIGRATED})


def _farewell(cluster: Cluster, job: Job, attempt: Attempt, started: bool) -> Wanted:
    """How an attempt is asked to end.

    One that gives way, or has reached its time limit, gets its checkpoint signal first, if it named
    one; at the limit it has its own grace. In the mode
    ``checkpoint`` it has the policy's grace, or its own if that is longer; in others its own,
    but never longer than the policy's, because somebody waits for its room. Nobody does when its
    node is being emptied.
    """
    cause, spec, rules = attempt.stop_cause, job.spec, cluster.policy.preempt
    own_s = attempt.grace_s
    if cause is Cause.TIME_LIMIT and spec.checkpoint_signal:
        signal, grace_s = spec.checkpoint_signal, float(own_s)
        return Wanted(attempt.uid, started=started, stop=cause, signal=signal, grace_s=grace_s)
    if cause not in _SAVING:
        return Wanted(uid=attempt.uid, started=started, stop=cause)
    saves = (spec.preempt_mode or rules.mode) is PreemptMode.CHECKPOINT
    grace_s = max(own_s, rules.grace_s) if saves else min(own_s, rules.grace_s)
    if cause is Cause.MIGRATED:
        grace_s = own_s
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
    world: bytes,
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
        outputs=output_mode(spec, task),
        script=read_blob(spec.script) if spec.script else b"",
        stdin=read_blob(spec.stdin) if spec.stdin else b"",
        umask=spec.umask,
        ulimits=spec.ulimits,
        cpus=held.cpus,
        cpu_milli=held.cpu_milli,
        memory_mib=held.memory_mib,
        grace_s=float(attempt.grace_s),
        terminal=spec.pty,
        checkpoint=saved,
        bundle=spec.bundle,
        image=spec.image,
        inside=inside,
        elsewhere=elsewhere(spec, held.node),
        devices=held.devices,
        ports=spec.ports,
        health=spec.health,
        meeting_port=attempt.port,
        world=world,
    )


def _engine_order(job: Job, attempt: Attempt, node: NodeSpec) -> EngineOrder:
    spec, held = job.spec, attempt.allocation.devices
    models = {device.model for device in node.devices if device.index in held}
    members = [attempt.uid for attempt in job.live_attempts] if spec.task_count > 1 else []
    return EngineOrder(
        name=fill_in(spec.name, job),
        project=spec.project,
        queue=spec.queue,
        time_limit_s=spec.time_limit_s,
        labels=spec.labels,
        gpus=len(held),
        gpu_type=models.pop() if len(models) == 1 else "",
        gang=tuple(members),
        nodes=spec.placement.node_count,
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
    """``%j`` job, ``%A`` array, ``%a`` index, ``%x`` name, ``%u`` user, ``%t`` task, ``%%``.

    ``%N`` is the first node, ``%J``, ``%n`` and ``%s`` are for scripts of Slurm; ``%4j`` is four
    digits wide.
    """
    if not pattern:
        return ""
    # Of a job of Slurm only the first task has something to say.
    slurm = SLURM in job.spec.labels
    here = "0" if slurm else str(task)
    values = {
        "j": str(job.id),
        "A": str(job.array_id or job.id),
        "a": NO_INDEX if slurm and not job.array_id else str(job.array_index),
        "x": fill_in(job.spec.name, job),
        "u": job.spec.user,
        "t": here,
        "n": here,
        "J": str(job.id),
        "s": "batch",
        "N": _first_node(job),
        "%": "%",
    }
    path = fill_in(_MARK.sub(lambda mark: _value(mark, values), pattern), job)
    return path if path.startswith("/") else f"{job.spec.workdir.rstrip('/')}/{path}"


def _value(mark: re.Match[str], values: Mapping[str, str]) -> str:
    value = values.get(mark[2])
    if value is None:
        return mark[0]
    return value.zfill(int(mark[1])) if mark[1] and value.isdecimal() else value


def _first_node(job: Job) -> str:
    """Without its domain; empty while it has none."""
    latest = job.round
    return latest[0].allocation.node.partition(".")[0] if latest else ""
