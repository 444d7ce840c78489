"""Routes about checkpoints: a job, or its owner, says that its work is saved; what lies where."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
from litestar import delete, get, post

from rota.api import params
from rota.api.auth import may_look_into, sees_all
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import CheckpointRequest
from rota.api.bodies.submission import moment
from rota.api.context import Asking, Context, actor_of, body_of, context_of
from rota.api.jobs.saved_notes import note_of
from rota.api.views.checkpoint_views import RecordView, record_view
from rota.api.views.lookup import find
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import AskSave, ReportCheckpoint
from rota.controller.launches.launch import folder_name
from rota.core.facts.checkpoint import Checkpoint
from rota.core.facts.errors import Conflict, Forbidden, NotFound, Rejected
from rota.core.facts.job import Job
from rota.core.facts.states import ACTIVE, JobState
from rota.core.words.kin import is_kin

if TYPE_CHECKING:
    from rota.core.facts.tenant import Actor

_body = Body(CheckpointRequest, optional=True)
#: The most folders that are measured for one answer.
LISTED_MAX = 1000


class CheckpointView(msgspec.Struct):
    """``saved_at`` is null while nothing was reported; `checkpoints` has the newest last."""

    id: int
    saved_at: Moment | None
    data: list[str] = []
    folder: str | None = None
    store: str | None = None
    checkpoints: list[RecordView] = []


class FolderView(msgspec.Struct):
    """The saved work of one job on a node."""

    id: int
    user: str
    state: JobState
    node: str
    folder: str
    files: int
    size: int
    changed_at: Moment | None


class FoldersView(Listed):
    items: list[FolderView]


class DroppedView(msgspec.Struct):
    """``problems`` is empty when all of it has gone."""

    id: int
    problems: list[str]


def _view(context: Context, job: Job, actor: Actor) -> CheckpointView:
    view = CheckpointView(job.id, when(job.checkpoint_s), list(job.made))
    if may_look_into(actor, job.spec.user):
        saved = context.saved_work.of(job) if context.saved_work is not None else None
        view.folder = saved.folder if saved is not None else None
        view.store = (saved.store or None) if saved is not None else None
        view.checkpoints = [record_view(record) for record in job.checkpoints]
    return view


async def _one(context: Context, job_id: str) -> Job:
    found = await find(context.host, job_id)
    if not isinstance(found, Job):
        raise Conflict(f"{found.id} is an array; name one of its jobs", field="id", value=found.id)
    return found


@post(
    "/jobs/{job_id:str}/checkpoint",
    summary="Say that a job's work is saved",
    opt={"right": "change", "body": CheckpointRequest, "errors": (404, 409, 429, 503)},
    status_code=200,
)
async def report_checkpoint(request: Asking, job_id: params.JobPath) -> CheckpointView:
    """From the job itself or its owner: if it must give way, only later work counts as lost."""
    context, actor = context_of(request), actor_of(request)
    asked: CheckpointRequest = await body_of(request, _body)
    found = await _one(context, job_id)
    _refuse_large(context, asked)
    _check_path(asked.path)
    if asked.planned:
        return _view(context, found, actor)
    before = found.checkpoints
    command = ReportCheckpoint(
        actor=actor,
        job=found.id,
        saved_s=moment("saved_at", asked.saved_at, context.desk),
        data=tuple(asked.data),
        record=Checkpoint(0.0, 0, asked.step, asked.note, asked.size, asked.path),
        keep=context.settings.checkpoints.keep,
    )
    job: Job = await context.host.ask(command)
    view = _view(context, job, actor)
    if context.saved_work is not None:
        kept = {record.path for record in job.checkpoints}
        gone = tuple(r.path for r in before if r.path and r.path not in kept)
        context.saved_work.note(job, note_of(job), gone)
    return view


def _refuse_large(context: Context, asked: CheckpointRequest) -> None:
    """Before anything is taken, or written by a job that asks first."""
    most = context.settings.checkpoints.max_bytes
    if most and asked.size > most:
        why = f"{asked.size} bytes are more than {most} (checkpoints.max_size)"
        raise Rejected.because("size", asked.size, why)


def _check_path(path: str) -> None:
    if path and (os.path.normpath(path) != path or path.startswith(("/", "..")) or path == "."):
        raise Rejected.bad("path", path, "a path below ROTA_CHECKPOINT_DIR, such as step-100")


@get(
    "/jobs/{job_id:str}/checkpoint",
    summary="When a job's work was last saved",
    opt={"right": "read", "errors": (404,)},
)
async def show_checkpoint(request: Asking, job_id: params.JobPath) -> CheckpointView:
    """As the job last reported it."""
    context = context_of(request)
    found = await find(context.host, job_id)
    if not isinstance(found, Job):
        return CheckpointView(found.id, None)
    return _view(context, found, actor_of(request))


@post(
    "/jobs/{job_id:str}/save",
    summary="Ask a running job to save its work and go on",
    opt={"right": "change", "errors": (404, 409)},
    status_code=200,
)
async def ask_save(request: Asking, job_id: params.JobPath) -> CheckpointView:
    """It hears its `save_signal`; when it has saved, it says so as always."""
    context, actor = context_of(request), actor_of(request)
    found = await _one(context, job_id)
    job: Job = await context.host.ask(AskSave(actor=actor, job=found.id))
    return _view(context, job, actor)


@delete(
    "/jobs/{job_id:str}/checkpoint",
    summary="Remove a job's saved work",
    opt={"right": "change", "errors": (403, 404, 409)},
    status_code=200,
)
async def drop_checkpoint(request: Asking, job_id: params.JobPath) -> DroppedView:
    """From every node that is connected and from the store; of a job that has no try running."""
    context, actor = context_of(request), actor_of(request)
    job = await _one(context, job_id)
    mine = actor.user == job.spec.user or sees_all(actor)
    if not mine or not is_kin(actor, job.id, job.spec):
        raise Forbidden(f"job {job.id} belongs to {job.spec.user}", field="id", value=job.id)
    if job.state in ACTIVE:
        raise Conflict(
            f"job {job.id} is {job.state}; its saved work can be removed when it is not",
            field="id",
            value=job.id,
        )
    problems = await context.saved_work.drop(job) if context.saved_work is not None else []
    return DroppedView(job.id, problems)


@get("/checkpoints", summary="Saved work on the nodes", opt={"right": "read", "errors": ()})
async def list_checkpoints(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> FoldersView:
    """What lies on the nodes that are connected: of one's own jobs, or of all for operators."""
    context, actor = context_of(request), actor_of(request)
    if context.saved_work is None:
        return FoldersView([])
    jobs: dict[str, Job] = {}
    for name in await context.saved_work.listed():
        job = await _owned(context, actor, name)
        if job is not None:
            jobs[name] = job
        if len(jobs) == LISTED_MAX:
            break
    if not jobs:
        return FoldersView([])
    found = await context.saved_work.listed(jobs)
    items = [
        _folder_view(context, jobs[name], node, folder.files, folder.size_bytes, folder.changed_s)
        for name, (node, folder) in found.items()
        if folder.files
    ]
    items.sort(key=_place)
    page, after = ListPart(limit, cursor).of(items, _place)
    return FoldersView(page, cursor=after)


def _place(view: FolderView) -> tuple[int, str]:
    return (view.id, view.node)


async def _owned(context: Context, actor: Actor, name: str) -> Job | None:
    """The job behind a folder, if the actor may look into it."""
    try:
        job = await find(context.host, int(name.partition("-")[0]))
    except NotFound:
        return None
    mine = isinstance(job, Job) and may_look_into(actor, job.spec.user)
    return job if mine and isinstance(job, Job) and folder_name(job) == name else None


def _folder_view(
    context: Context, job: Job, node: str, files: int, size: int, changed_s: float
) -> FolderView:
    assert context.saved_work is not None
    saved = context.saved_work.of(job)
    return FolderView(
        id=job.id,
        user=job.spec.user,
        state=job.state,
        node=node,
        folder=saved.folder if saved is not None else "",
        files=files,
        size=size,
        changed_at=when(changed_s),
    )


ROUTES = [report_checkpoint, show_checkpoint, ask_save, drop_checkpoint, list_checkpoints]
