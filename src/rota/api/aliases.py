"""Paths that clients of other schedulers know: the answers are those of the routes beside them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import QueryParameter

from rota.api import params
from rota.api.bodies.requests import JobRequest
from rota.api.context import Asking, actor_of, context_of
from rota.api.jobs.changes import CancelledView, cancel_job
from rota.api.jobs.jobs import IdempotencyKey, as_response, list_jobs, show
from rota.api.jobs.submit import SubmittedView, submit_one
from rota.api.site.stats import StatsView, stats
from rota.api.views.gpus import gpu_views
from rota.api.views.paging import Listed, ListPart
from rota.api.views.views import JobView, Page
from rota.api.watch.status import QueueStateView, queue
from rota.core.derived.usage import DAYS_KEPT
from rota.core.facts.errors import Forbidden


class ModelView(msgspec.Struct):
    """The GPUs of one model: how many there are, and how many a job could have now."""

    type: str
    total: int = 0
    available: int = 0


class AvailabilityView(Listed):
    total: int
    available: int
    items: list[ModelView]


@get("/users/{name:str}/jobs", summary="Jobs of a user", opt={"right": "read"})
async def list_jobs_of_user(
    request: Asking,
    name: params.NamePath,
    states: params.States = "",
    limit: params.Limit = 100,
    cursor: params.Cursor = "",
    order: params.Order = "id",
) -> Page:
    """As `GET /jobs` with `user`."""
    page: Page = await list_jobs.fn(
        request, states=states, user=name, limit=limit, cursor=cursor, order=order
    )
    return page


@post(
    "/users/{name:str}/jobs",
    summary="Submit a job under one's own name",
    opt={"right": "submit", "body": JobRequest, "keyed": True, "errors": (404, 409, 413, 429, 503)},
)
async def submit_as_user(
    request: Asking, name: params.NamePath, key: IdempotencyKey = ""
) -> Response[SubmittedView]:
    """As `POST /jobs`: a job is its submitter's, so the name must be the caller's own."""
    actor = actor_of(request)
    if name != actor.user:
        raise Forbidden(
            f"name: {name!r} is not who asks; {actor.user} submits as {actor.user}",
            field="name",
            value=name,
            allowed=actor.user,
        )
    answer = await submit_one(context_of(request), actor, await request.body(), key)
    return as_response(answer)


@get("/users/{name:str}/activity", summary="How a user's jobs fared", opt={"right": "read"})
async def user_activity(
    request: Asking,
    name: params.NamePath,
    period_s: Annotated[
        int, QueryParameter(description="The period in seconds", ge=1, le=DAYS_KEPT * 86400)
    ] = 7 * 86400,
) -> StatsView:
    """As `GET /stats` with `user`: states, waits and runs, GPU-hours, the longest jobs."""
    view: StatsView = await stats.fn(
        request, user=name, project="", period_s=period_s, since="", until="", longest=5
    )
    return view


@post(
    "/jobs/{job_id:str}/cancel",
    summary="Cancel a job or array by its own path",
    opt={"right": "change", "errors": (404, 409, 429, 503)},
    status_code=202,
)
async def cancel_by_post(request: Asking, job_id: params.JobPath) -> CancelledView:
    """As `DELETE /jobs/{id}`."""
    return await cancel_job(context_of(request), actor_of(request), job_id)


@get("/jobs/stats", summary="How jobs fared, by another path", opt={"right": "read"})
async def job_stats(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> StatsView:
    """As `GET /stats` of the last seven days."""
    week: dict[str, Any] = {"user": "", "project": "", "since": "", "until": "", "longest": 5}
    view: StatsView = await stats.fn(
        request, **week, period_s=7 * 86400, limit=limit, cursor=cursor
    )
    return view


@get(
    "/jobs/{job_id:str}/details",
    summary="One job or array, by another path",
    opt={"right": "read", "errors": (404,)},
)
async def job_details(request: Asking, job_id: params.JobPath) -> JobView:
    """As `GET /jobs/{id}`."""
    view: JobView = await show.fn(request, job_id=job_id)
    return view


@post(
    "/jobs/{job_id:str}/refresh-status",
    summary="One job or array as it is now",
    opt={"right": "read", "errors": (404,)},
    status_code=200,
)
async def refresh_status(request: Asking, job_id: params.JobPath) -> JobView:
    """As `GET /jobs/{id}`: states come from the nodes by themselves and are never out of date."""
    view: JobView = await show.fn(request, job_id=job_id)
    return view


@get("/gpu/availability", summary="How many GPUs of each model are free", opt={"right": "read"})
async def gpu_availability(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> AvailabilityView:
    """Counted from `GET /gpus`: what jobs and others have, and what is broken, is not free."""
    cluster = context_of(request).host.cluster
    models: dict[str, ModelView] = {}
    for _, node in sorted(cluster.nodes.items()):
        for gpu in gpu_views(cluster, node):
            model = models.setdefault(gpu.model, ModelView(gpu.model))
            model.total += 1
            model.available += gpu.available
    found = [model for _, model in sorted(models.items())]
    page, after = ListPart(limit, cursor).of(found, lambda model: model.type)
    total, available = sum(m.total for m in found), sum(m.available for m in found)
    return AvailabilityView(total, available, page, cursor=after)


@get("/queue/status", summary="How many jobs wait and run, by another path", opt={"right": "read"})
async def queue_status(request: Asking) -> QueueStateView:
    """As `GET /queue`."""
    view: QueueStateView = await queue.fn(request)
    return view


ROUTES = [
    list_jobs_of_user,
    submit_as_user,
    user_activity,
    cancel_by_post,
    job_stats,
    job_details,
    refresh_status,
    gpu_availability,
    queue_status,
]
