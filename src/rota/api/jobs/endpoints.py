"""Routes about endpoints: where tasks of running jobs can be reached, by name.

An endpoint is as private as a job's labels: its owner sees it, and operators do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import delete, get, post
from litestar.params import QueryParameter

from rota.api import params
from rota.api.auth import may_look_into
from rota.api.bodies import checks
from rota.api.bodies.request_fields import BIG, Line, Short, Whole, says
from rota.api.bodies.requests import Body
from rota.api.context import Asking, Context, actor_of, body_of, context_of
from rota.api.views.lookup import ID_MAX, find
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import SetEndpoint
from rota.controller.commands.endpoints import living
from rota.core.facts.errors import NotFound, Rejected

if TYPE_CHECKING:
    from rota.core.facts.endpoints import Endpoint
    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Actor


class EndpointRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Where a task can be reached; the same name of the same task again replaces the address."""

    name: Annotated[Short, says("What others look it up by")]
    address: Annotated[Line, says("HOST:PORT, or any address that its users understand")]
    task: Annotated[Whole, says("Which task of the job serves it")] = 0
    metadata: Annotated[dict[str, str], says("Words for a program that looks it up")] = {}


class EndpointView(msgspec.Struct):
    """Living: it goes when the attempt that serves it has ended."""

    #: ``JOB.TASK.NAME``.
    id: str
    name: str
    address: str
    job: int
    task: int
    metadata: dict[str, str]
    user: str
    node: str
    since: Moment | None


class EndpointsView(Listed):
    items: list[EndpointView]


_body = Body(EndpointRequest)


async def register(
    context: Context, actor: Actor, ref: str, asked: EndpointRequest
) -> EndpointView:
    """Keep an endpoint; answers once it is on disk."""
    _check_word("name", asked.name)
    _check_word("address", asked.address)
    _check_metadata(asked.metadata)
    job = await find(context.host, ref)
    command = SetEndpoint(
        actor=actor,
        job=job.id,
        task=asked.task,
        name=asked.name,
        address=asked.address,
        metadata=asked.metadata,
    )
    endpoint: Endpoint = await context.host.ask(command)
    # The job may have ended in the same tick; what was told then was true when it was told.
    return endpoint_view(context.host.cluster.jobs.get(job.id) or job, endpoint)  # type: ignore[arg-type]


def _check_word(field: str, text: str) -> None:
    if not text:
        raise Rejected.bad(field, text, "it is empty")
    checks.word(field, text)


def _check_metadata(given: dict[str, str]) -> None:
    try:
        checks.labels(given)
    except Rejected as error:
        # The same rules as for labels, under the name that the caller used.
        detail = error.detail.replace("labels", "metadata")
        raise Rejected(detail, field="metadata", value=error.value, allowed=error.allowed) from None


async def unregister(context: Context, actor: Actor, ref: str, task: int, name: str) -> None:
    """Take an endpoint back."""
    job = await find(context.host, ref)
    await context.host.ask(SetEndpoint(actor=actor, job=job.id, task=task, name=name))


def living_views(
    context: Context, actor: Actor, *, name: str = "", prefix: str = ""
) -> list[EndpointView]:
    """The living endpoints that the actor may see, of one name or with names that begin so."""
    return [
        endpoint_view(job, endpoint)
        for job, endpoint in living(context.host.cluster)
        if name in ("", endpoint.name)
        and endpoint.name.startswith(prefix)
        and may_look_into(actor, job.spec.user)
    ]


def endpoint_view(job: Job, endpoint: Endpoint) -> EndpointView:
    tries = job.tasks[endpoint.task].attempts if endpoint.task < len(job.tasks) else []
    nodes = [attempt.allocation.node for attempt in tries if attempt.uid == endpoint.uid]
    return EndpointView(
        id=f"{job.id}.{endpoint.task}.{endpoint.name}",
        name=endpoint.name,
        address=endpoint.address,
        job=job.id,
        task=endpoint.task,
        metadata=endpoint.metadata,
        user=job.spec.user,
        node=nodes[0] if nodes else "",
        since=when(endpoint.since_s),
    )


def no_endpoint(name: str) -> NotFound:
    return NotFound(f"there is no endpoint {name}", field="name", value=name)


@post(
    "/jobs/{job_id:str}/endpoints",
    summary="Say where a task of a running job can be reached",
    opt={"right": "change", "body": EndpointRequest, "errors": (404, 409, 429, 503)},
    status_code=200,
)
async def register_endpoint(request: Asking, job_id: params.JobPath) -> EndpointView:
    """From the job itself or its owner; forgotten when the attempt has ended."""
    asked: EndpointRequest = await body_of(request, _body)
    return await register(context_of(request), actor_of(request), job_id, asked)


@delete(
    "/jobs/{job_id:str}/endpoints/{name:str}",
    summary="Take an endpoint back",
    opt={"right": "change", "errors": (404, 409, 429, 503)},
)
async def remove_endpoint(
    request: Asking,
    job_id: params.JobPath,
    name: params.NamePath,
    task: Annotated[int, QueryParameter(description="Of this task", ge=0, le=BIG)] = 0,
) -> None:
    """It would go by itself with the attempt."""
    await unregister(context_of(request), actor_of(request), job_id, task, name)


@get("/endpoints", summary="Where running jobs can be reached", opt={"right": "read"})
async def list_endpoints(
    request: Asking,
    name: Annotated[str, QueryParameter(description="Only of this name")] = "",
    prefix: Annotated[str, QueryParameter(description="Only with names that begin so")] = "",
    job: Annotated[
        int | None, QueryParameter(description="Only of this job", ge=0, lt=ID_MAX)
    ] = None,
    user: Annotated[str, QueryParameter(description="Only of this user's jobs")] = "",
    limit: params.PartSize = None,
    cursor: params.Cursor = "",
) -> EndpointsView:
    """One's own; operators see everybody's. Each job is a namespace: names repeat between jobs."""
    found = living_views(context_of(request), actor_of(request), name=name, prefix=prefix)
    wanted = [view for view in found if job in (None, view.job) and user in ("", view.user)]
    wanted.sort(key=_place)
    page, after = ListPart(limit, cursor).of(wanted, _place)
    return EndpointsView(page, cursor=after)


def _place(view: EndpointView) -> tuple[int, int, str]:
    return (view.job, view.task, view.name)


ROUTES = [register_endpoint, remove_endpoint, list_endpoints]
