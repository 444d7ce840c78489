"""The request behind a job, as it could be submitted again: for its owner and admins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import get

from rota.api import params
from rota.api.bodies.health_requests import health_request
from rota.api.bodies.placing import request_fields
from rota.api.bodies.request_fields import Resources
from rota.api.bodies.requests import DependencyRequest, JobRequest, Parameters
from rota.api.bodies.roles import shown_devices
from rota.api.context import Asking, actor_of, context_of
from rota.api.jobs.endings import UNWELL
from rota.api.jobs.submit import hand_in
from rota.api.views.lookup import find, find_own
from rota.api.views.views import indices_text
from rota.controller.launches.launch import fill_in
from rota.core.facts.array import Array
from rota.core.facts.errors import Conflict, Forbidden
from rota.core.facts.job import Job
from rota.core.facts.notices import format_target
from rota.core.facts.tenant import Access
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.context import Context
    from rota.controller.launches.vault import Vault
    from rota.controller.loop import Host
    from rota.core.facts.job import JobSpec
    from rota.core.facts.resources import Request
    from rota.core.facts.tenant import Actor

_environment = msgspec.msgpack.Decoder(dict[str, str])


@get(
    "/jobs/{job_id:str}/request",
    summary="The request that made a job",
    opt={"right": "read", "errors": (403, 404)},
)
async def show_request(request: Asking, job_id: params.JobPath) -> JobRequest:
    """Complete, with environment and script: what `POST /jobs` would take.

    For its owner and admins: an operator may do much with a job, but not read its environment.
    """
    host, actor = context_of(request).host, actor_of(request)
    found = await find_own(host, actor, job_id, "its request is")
    if actor.user != found.spec.user and actor.access is not Access.ADMIN:
        raise Forbidden(
            f"job {found.id} belongs to {found.spec.user}; its environment is theirs and admins'",
            field="id",
            value=found.id,
        )
    host.audit.note(actor, "request", f"job {found.id}")
    return await _request_of(host, found)


async def _request_of(host: Host, found: Job | Array) -> JobRequest:
    vault = host.secrets.vault
    made = await host.read(lambda store: _from_spec(found.spec, store.blob, vault))
    assert isinstance(made, JobRequest)
    if isinstance(found, Array):
        _add_elements(made, found)
    else:
        _fill_in(made, found)
    made.hold = found.held
    return made


async def submit_again(context: Context, actor: Actor, ended: Job) -> Job:
    """The same work as a new job; what it waited for the first time is over.

    Of its owner only: another user would run a stranger's command under the own name.
    """
    _check_owner(actor, ended)
    again = await _hand_in_anew(context, actor, await _request_of(context.host, ended))
    assert isinstance(again, Job)
    return again


async def submit_failed_again(context: Context, actor: Actor, array: Array) -> Job | Array:
    """The elements of an array that failed, as one new array: same indices, same values."""
    _check_owner(actor, array)
    wanted = JobFilter(array=array.id, states=UNWELL)
    jobs: list[Job] = await context.host.read(
        lambda store: store.list_jobs(wanted, limit=array.count)
    )
    if not jobs:
        raise Conflict(f"no element of {array.id} has failed", field="id", value=array.id)
    made = await _request_of(context.host, array)
    positions = sorted(array.position(job.id) for job in jobs)
    if made.parameters is not None:
        made.parameters.rows = [made.parameters.rows[position] for position in positions]
    else:
        spans: list[list[int]] = []
        for position in positions:
            if spans and spans[-1][1] == position - 1:
                spans[-1][1] = position
            else:
                spans.append([position, position])
        made.array = indices_text(array, spans, text_max=65_536)
    return await _hand_in_anew(context, actor, made)


def _check_owner(actor: Actor, item: Job | Array) -> None:
    if actor.user != item.spec.user:
        raise Forbidden(
            f"job {item.id} belongs to {item.spec.user}, who alone can try it again",
            field="id",
            value=item.id,
        )


async def _hand_in_anew(context: Context, actor: Actor, made: JobRequest) -> Job | Array:
    made.hold, made.begin_at, made.depends_on = False, 0, []
    done = await hand_in(context, actor, (context.repeated.submission(made, actor),))
    return await find(context.host, done.ids[0])


def _from_spec(spec: JobSpec, blob: Callable[[str], bytes | None], vault: Vault) -> JobRequest:
    def body(digest: str) -> bytes:
        return (blob(digest) if digest else None) or b""

    environment = vault.open(body(spec.environment))
    role = spec.roles[0]
    return JobRequest(
        name=spec.name,
        command=list(spec.command),
        script=body(spec.script).decode(errors="replace"),
        script_args=list(spec.script_args),
        stdin=body(spec.stdin).decode(errors="replace"),
        project=spec.project,
        queue=spec.queue,
        priority=spec.priority,
        resources=_resources(role.request),
        tasks=role.count,
        min_tasks=role.min_count,
        workdir=spec.workdir,
        env=_environment.decode(environment) if environment else {},
        variables=vault.open_variables(spec.variables),
        secrets=list(spec.secrets),
        output=spec.output,
        error=spec.error,
        umask=spec.umask,
        ulimits=spec.ulimits,
        time_limit_s=spec.time_limit_s,
        grace_s=spec.grace_s,
        scheduling_timeout_s=spec.scheduling_timeout_s,
        begin_at=spec.begin_s,
        depends_on=[
            DependencyRequest(kind=d.kind, job=d.parent, element=d.element, data=d.data)
            for d in spec.dependencies
        ],
        depends_any=spec.any_dependency,
        keep_waiting=spec.keep_waiting,
        dependency_timeout_s=spec.dependency_timeout_s,
        group=spec.group,
        retries=spec.retries,
        restart=spec.restart,
        retry_on=list(spec.retry_on),
        backoff_s=spec.backoff_s,
        labels=spec.labels,
        **_giving_way(spec),
        type=spec.type,  # type: ignore[arg-type]
        pty=spec.pty,
        bundle=spec.bundle,
        image=spec.image,
        licenses=[f"{name}:{count}" for name, count in spec.licenses],
        ports=list(spec.ports),
        health=health_request(spec.health),
        notify=[format_target(target) for target in spec.notify],
        **request_fields(spec),
    )


def _giving_way(spec: JobSpec) -> dict[str, Any]:
    """When and how it makes room for others, and what it saves before that."""
    return dict(
        preemptible=spec.preemptible,
        qos=spec.service,
        deadline_at=spec.deadline_s,
        estimate_s=spec.estimate_s,
        preempt_mode=spec.preempt_mode,
        preempt_retries=spec.preempt_retries,
        checkpoint_signal=spec.checkpoint_signal,
        save_signal=spec.save_signal,
        save_every_s=spec.save_every_s,
        warn_signal=spec.warn_signal,
        warn_s=spec.warn_s,
        restart_cost_s=spec.restart_cost_s,
    )


def _resources(asked: Request) -> Resources:
    return Resources(
        cpus=asked.cpu_milli / 1000,
        memory_mb=asked.memory_mib,
        gpus=shown_devices(asked),
        gpu_type=asked.device_type,
        gpu_memory_mb=asked.device_memory_mib,
        shared=asked.shared,
        disk_mb=asked.disk_mib,
        device="tpu" if asked.device == "tpu" else "",
        gpu_indices=asked.device_indices,
    )


def _add_elements(made: JobRequest, array: Array) -> None:
    if array.rows:
        rows: list[list[str | int | float]] = [list(row) for row in array.rows]
        made.parameters = Parameters(names=list(array.spec.parameters), rows=rows)
        made.max_concurrent = array.cap or None
        return
    made.array = indices_text(array, [[0, array.count - 1]], text_max=65_536)


def _fill_in(made: JobRequest, job: Job) -> None:
    """An element of a sweep, on its own, has its values in place."""
    made.name = fill_in(made.name, job)
    made.command = [fill_in(word, job) for word in job.spec.command]


ROUTES = [show_request]
