"""Routes that change one job: cancel it, or update it, with what else may happen to it."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import delete, patch

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.placing import changed_placement, signal_name
from rota.api.bodies.request_fields import Resources
from rota.api.bodies.requests import Body, JobPatch, decode_patch
from rota.api.bodies.roles import request_of, shown_devices
from rota.api.bodies.submission import (
    check_saving,
    deadline,
    dependencies,
    moment,
    priority,
    shell_line,
    targets,
)
from rota.api.context import Asking, Context, actor_of, body_of, context_of
from rota.api.jobs.jobs import view_of
from rota.api.jobs.resubmit import submit_again, submit_failed_again
from rota.api.views.lookup import find
from rota.api.views.views import JobView
from rota.controller.commands.change import may_change_job
from rota.controller.commands.commands import (
    Cancel,
    ChangedJobs,
    Hold,
    Release,
    Requeue,
    Resume,
    Select,
    SetGroup,
    Suspend,
    Update,
)
from rota.controller.commands.rehearse import rehearse_selected, rehearse_update
from rota.core.facts.array import Array
from rota.core.facts.errors import Conflict, Forbidden, Rejected
from rota.core.facts.job import Job, JobSpec, Role
from rota.core.facts.states import FINAL, JobState
from rota.core.facts.tenant import Actor, Group

if TYPE_CHECKING:
    from rota.core.facts.resources import Request

_resources = Body(Resources)
VERBS: dict[str, type[Select]] = {
    "cancel": Cancel,
    "hold": Hold,
    "release": Release,
    "requeue": Requeue,
    "retry": Requeue,
    "suspend": Suspend,
    "resume": Resume,
}
_REASONS = (400, 403, 404, 409, 429, 503)


class CancelledView(msgspec.Struct):
    """``state`` is the one right after: a running job ends when its processes have ended."""

    id: int
    state: JobState


@delete(
    "/jobs/{job_id:str}",
    summary="Cancel a job or array",
    opt={"right": "change", "errors": _REASONS},
    status_code=202,
)
async def cancel_one(request: Asking, job_id: params.JobPath) -> CancelledView:
    """Waiting or running: TERM first, KILL after the job's grace."""
    return await cancel_job(context_of(request), actor_of(request), job_id)


async def cancel_job(context: Context, actor: Actor, job_id: str) -> CancelledView:
    found = await find(context.host, job_id)
    await change_one(context, actor, found, Cancel(actor=actor, ids=(found.id,)))
    return CancelledView(found.id, _state(context, found))


def _state(context: Context, item: Job | Array) -> JobState:
    state = context.host.cluster.state_of(item.id)
    return state or (item.state if isinstance(item, Job) else JobState.CANCELLED)


async def change_one(context: Context, actor: Actor, item: Job | Array, command: Select) -> None:
    """A command on one job: a refusal becomes the error that it is."""
    _judge(actor, item, await context.host.ask(command))


def _judge(actor: Actor, item: Job | Array, done: ChangedJobs) -> None:
    if not done.refused:
        return
    reason = done.refused[0].reason
    if not may_change_job(actor, item.spec, item.id):
        raise Forbidden(reason, field="id", value=item.id)
    raise Conflict(reason, field="id", value=item.id)


@patch(
    "/jobs/{job_id:str}",
    summary="Change a job or array",
    opt={"right": "change", "body": JobPatch, "creates": "", "errors": _REASONS},
)
async def update_one(
    request: Asking, job_id: params.JobPath, preview: params.Preview = False
) -> JobView:
    """Of a running job only what does not concern its room. `action` comes last.

    An ended job stays as it is: `retry` alone makes a new job of it, which is the answer, and
    `retry-failed` alone a new array of the elements of an array that failed. With `preview` the
    answer shows the job with the fields that it would have.
    """
    context, actor = context_of(request), actor_of(request)
    asked: JobPatch = await body_of(request, decode_patch)
    found = await find(context.host, job_id)
    if not may_change_job(actor, found.spec, found.id):
        asker = actor.via if actor.job else actor.user
        raise Forbidden(
            f"job {found.id} belongs to {found.spec.user}; {asker} may not change it",
            field="id",
            value=found.id,
        )
    if isinstance(found, Job) and found.state in FINAL:
        if asked == JobPatch(action="retry") and preview:
            raise Rejected.because("preview", True, "a retry is a new job; ask POST /plan about it")
        if asked == JobPatch(action="retry"):
            return view_of(context, await submit_again(context, actor, found), actor)
        raise Conflict(f"job {found.id} is {found.state} already", field="id", value=found.id)
    if asked == JobPatch(action="retry-failed"):
        if preview:
            why = "what failed again is a new array; ask POST /plan about it"
            raise Rejected.because("preview", True, why)
        if not isinstance(found, Array):
            raise Rejected.because("action", asked.action, f"{found.id} is one job; give retry")
        return view_of(context, await submit_failed_again(context, actor, found), actor)
    if preview:
        return view_of(context, await _rehearsed(context, actor, found, asked), actor)
    await _update(context, actor, found, asked)
    await _set_group_cap(context, actor, found, asked)
    await _act(context, actor, found, asked)
    return view_of(context, await find(context.host, found.id), actor)


async def _update(context: Context, actor: Actor, item: Job | Array, asked: JobPatch) -> None:
    command = await _update_command(context, actor, item, asked)
    if command is not None:
        await context.host.ask(command)


async def _rehearsed(
    context: Context, actor: Actor, item: Job | Array, asked: JobPatch
) -> Job | Array:
    """The job as the patch would leave it; what the patch would be refused for is refused."""
    host = context.host
    update = await _update_command(context, actor, item, asked)
    if asked.max_concurrent is not None:
        _refuse_no_group(item, asked.max_concurrent)
    verb = _verb(asked)
    if verb is not None:
        select = VERBS[verb](actor=actor, ids=(item.id,))
        _judge(actor, item, rehearse_selected(host.cluster, select, host.clock.now_s()))
    if update is None:
        return item
    spec = rehearse_update(host.cluster, update, host.parents.get, host.clock.now_s())
    return msgspec.structs.replace(item, spec=spec)


async def _update_command(
    context: Context, actor: Actor, item: Job | Array, asked: JobPatch
) -> Update | None:
    """None where nothing of the job itself is to change."""
    changes, blobs = spec_changes(context, item.spec, asked)
    parents = None
    if asked.depends_on is not None:
        wanted = partial(dependencies, asked.depends_on, context.desk)
        parents = await context.host.parents.at_hand(wanted)
    cap = asked.max_concurrent if isinstance(item, Array) else None
    if not changes and parents is None and cap is None:
        return None
    if blobs:
        raise Rejected.because("command", "...", "a line this long cannot be changed in place")
    return Update(actor=actor, job=item.id, changes=changes, dependencies=parents, array_cap=cap)


async def _set_group_cap(
    context: Context, actor: Actor, item: Job | Array, asked: JobPatch
) -> None:
    """``max_concurrent`` on a job of a group means the group."""
    if asked.max_concurrent is None or isinstance(item, Array):
        return
    _refuse_no_group(item, asked.max_concurrent)
    group = Group(item.spec.group, actor.user, asked.max_concurrent)
    async with context.turns.of("group", group.name):
        await context.host.ask(SetGroup(actor=actor, group=group))


def _refuse_no_group(item: Job | Array, cap: int) -> None:
    if not isinstance(item, Array) and not item.spec.group:
        raise Rejected.because("max_concurrent", cap, "the job is in no group")


def _verb(asked: JobPatch) -> str | None:
    if asked.action == "retry-failed":
        raise Rejected.because("action", asked.action, "it comes alone")
    if asked.hold is None:
        return asked.action
    if asked.action is not None:
        raise Rejected.because("action", asked.action, "give either hold or action, not both")
    return "hold" if asked.hold else "release"


async def _act(context: Context, actor: Actor, item: Job | Array, asked: JobPatch) -> None:
    verb = _verb(asked)
    if verb is not None:
        await change_one(context, actor, item, VERBS[verb](actor=actor, ids=(item.id,)))


def spec_changes(
    context: Context, spec: JobSpec, asked: JobPatch
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The fields of the spec that the patch replaces, checked as at submit."""
    blobs: dict[str, bytes] = {}
    changes = _plain_changes(context, asked) | _rule_changes(context, asked)
    _check(asked)
    check_saving(
        changes.get("save_signal", spec.save_signal),
        changes.get("save_every_s", spec.save_every_s),
        changes.get("checkpoint_signal", spec.checkpoint_signal),
    )
    if asked.command is not None:
        changes |= _command(asked.command, blobs)
    if asked.resources is not None or asked.tasks is not None or asked.min_tasks is not None:
        changes["roles"] = _roles(spec, asked)
    placement = changed_placement(spec.placement, asked)
    if placement != spec.placement:
        changes["placement"] = placement
    tasks = sum(role.count for role in changes.get("roles", spec.roles))
    if placement.node_count > tasks:
        raise Rejected.because(
            "nodes", placement.node_count, f"{placement.node_count} is more than tasks ({tasks})"
        )
    return changes, blobs


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _plain_changes(context: Context, asked: JobPatch) -> dict[str, Any]:
    """What the job is and when it may run."""
    return _given(
        {
            "name": None if asked.name is None else checks.name(asked.name),
            "priority": None if asked.priority is None else priority(asked.priority),
            "queue": asked.queue,
            "project": asked.project,
            "workdir": asked.workdir,
            "output": asked.output,
            "error": asked.error,
            "variables": None
            if asked.variables is None
            else context.desk.vault.seal_variables(asked.variables),
            "any_dependency": asked.depends_any,
            "keep_waiting": asked.keep_waiting,
            "retries": asked.retries,
            "labels": asked.labels,
            "preemptible": asked.preemptible,
            "time_limit_s": _whole(asked.time_limit_s),
            "grace_s": _whole(asked.grace_s),
            "scheduling_timeout_s": _whole(asked.scheduling_timeout_s),
            "begin_s": None
            if asked.begin_at is None
            else moment("begin_at", asked.begin_at, context.desk),
        }
    )


def _rule_changes(context: Context, asked: JobPatch) -> dict[str, Any]:
    """How firm its claim is, how long it takes, how it gives way."""
    return _given(
        {
            "service": asked.qos,
            "deadline_s": None
            if asked.deadline_at is None
            else deadline(asked.deadline_at, context.desk),
            "estimate_s": _whole(asked.estimate_s),
            "preempt_mode": asked.preempt_mode,
            "preempt_retries": asked.preempt_retries,
            "checkpoint_signal": None
            if asked.checkpoint_signal is None
            else signal_name(asked.checkpoint_signal),
            "save_signal": None
            if asked.save_signal is None
            else signal_name(asked.save_signal, "save_signal"),
            "save_every_s": _whole(asked.save_every_s),
            "restart_cost_s": _whole(asked.restart_cost_s),
            "type": asked.type,
            "notify": None if asked.notify is None else targets(asked.notify, context.desk),
        }
    )


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else ceil(seconds)


def _check(asked: JobPatch) -> None:
    for field in ("queue", "project"):
        checks.word(field, getattr(asked, field) or "")
    for field in ("output", "error"):
        checks.plain(field, getattr(asked, field) or "")
    if asked.workdir is not None:
        checks.folder("workdir", asked.workdir)
    checks.variables("variables", asked.variables or {})
    checks.labels(asked.labels or {})


def _command(asked: list[str] | str, blobs: dict[str, bytes]) -> dict[str, Any]:
    if isinstance(asked, list):
        if not asked:
            raise Rejected.bad("command", asked, "at least the name of a program")
        return {"command": tuple(checks.arguments("command", asked)), "script": ""}

    def keep(body: bytes) -> str:
        blobs["command"] = body
        return ""

    return {"command": shell_line(asked, keep)[0], "script": "", "script_args": ()}


def _roles(spec: JobSpec, asked: JobPatch) -> tuple[Role, ...]:
    """The roles with the named amounts and counts replaced; the others stay."""
    role = spec.roles[0]
    count = role.count if asked.tasks is None else asked.tasks
    least = role.min_count if asked.min_tasks is None else asked.min_tasks
    if least > count:
        raise Rejected.because("min_tasks", least, f"{least} is more than tasks ({count})")
    request = role.request
    if asked.resources is not None:
        request = _new_request(request, msgspec.to_builtins(asked.resources))
    changed = msgspec.structs.replace(role, count=count, min_count=least, request=request)
    return (changed, *spec.roles[1:])


#: Naming one of these asks for a device.
_OF_DEVICES = frozenset({"gpu_type", "gpu_memory_mb", "shared", "gpu_indices"})


def _new_request(now: Request, asked: dict[str, Any]) -> Request:
    before: dict[str, Any] = {
        "cpus": now.cpu_milli / 1000,
        "memory_mb": now.memory_mib,
        "gpus": shown_devices(now),
        "gpu_type": now.device_type,
        "gpu_memory_mb": now.device_memory_mib,
        "shared": now.shared,
        "disk_mb": now.disk_mib,
        "device": now.device,
        "gpu_indices": now.device_indices,
    }
    if asked.get("gpus") == 0:
        before |= {"gpu_type": "", "gpu_memory_mb": 0, "shared": False, "device": ""}
        before["gpu_indices"] = ()
    elif "gpus" not in asked and not now.device_count and asked.keys() & _OF_DEVICES:
        before["gpus"] = 1
    elif "gpus" in asked and now.device_milli:
        # A share that was named as a fraction ends with the fraction.
        before["shared"] = False
    try:
        wanted: Resources = _resources(msgspec.json.encode(before | asked))
    except Rejected as error:
        error.field = f"resources.{error.field}"
        error.detail = f"resources.{error.detail}"
        raise
    return request_of(wanted)


ROUTES = [cancel_one, update_one]
