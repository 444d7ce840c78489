"""Routes about checkpoints: a job, or its owner, says that its work is saved."""

from __future__ import annotations

import msgspec
from litestar import get, post

from rota.api import params
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.lookup import find
from rota.api.requests import Body
from rota.api.site_requests import CheckpointRequest
from rota.api.submission import moment
from rota.api.views import when
from rota.controller.commands import ReportCheckpoint
from rota.core.errors import Conflict
from rota.core.job import Job

_body = Body(CheckpointRequest, optional=True)


class CheckpointView(msgspec.Struct):
    """``saved_at`` is null while nothing was reported since the latest start."""

    id: int
    saved_at: str | None
    data: list[str] = []


@post(
    "/jobs/{job_id:str}/checkpoint",
    summary="Say that a job's work is saved",
    opt={"right": "change", "body": CheckpointRequest, "errors": (404, 409, 429, 503)},
    status_code=200,
)
async def report_checkpoint(request: Asking, job_id: params.JobPath) -> CheckpointView:
    """From the job itself or its owner: if it must give way, only later work counts as lost."""
    context = context_of(request)
    asked: CheckpointRequest = await body_of(request, _body)
    found = await find(context.host, job_id)
    if not isinstance(found, Job):
        raise Conflict(f"{found.id} is an array; name one of its jobs", field="id", value=found.id)
    saved_s = moment("saved_at", asked.saved_at, context.desk)
    command = ReportCheckpoint(
        actor=actor_of(request), job=found.id, saved_s=saved_s, data=tuple(asked.data)
    )
    job: Job = await context.host.ask(command)
    return CheckpointView(job.id, when(job.checkpoint_s), list(job.made))


@get(
    "/jobs/{job_id:str}/checkpoint",
    summary="When a job's work was last saved",
    opt={"right": "read", "errors": (404,)},
)
async def show_checkpoint(request: Asking, job_id: params.JobPath) -> CheckpointView:
    """As the job last reported it."""
    found = await find(context_of(request).host, job_id)
    if not isinstance(found, Job):
        return CheckpointView(found.id, None)
    return CheckpointView(found.id, when(found.checkpoint_s), list(found.made))


ROUTES = [report_checkpoint, show_checkpoint]
