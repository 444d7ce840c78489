"""How far jobs are, as they said themselves: many at once, and one with what it said before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import get
from litestar.params import QueryParameter

from rota.api import params
from rota.api.auth import may_look_into
from rota.api.context import Asking, actor_of, context_of
from rota.api.left.reports import FIGURES_MAX, TaskReport, last_report, last_try, reports_of
from rota.api.views.lookup import ID_MAX, find_own, one_job, resolve
from rota.api.views.refs import known_ref
from rota.api.views.times import Moment, when
from rota.core.facts.errors import NotFound, Rejected, Unavailable
from rota.core.facts.states import JobState

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Actor

JOBS_MAX = 200
#: As many as a curve of the web page can show.
POINTS, POINTS_MAX = 200, 1000


class ProgressView(msgspec.Struct):
    """What the first task of a job last said."""

    id: int
    ref: str
    #: From 0 to 1.
    fraction: float
    message: str
    said_at: Moment | None
    #: When it ends if it goes on as until then; null: it has not come far enough to tell.
    ends_at: Moment | None
    figures: dict[str, Any]


class ProgressList(msgspec.Struct):
    items: list[ProgressView]


class ProgressHistory(msgspec.Struct):
    """What the last try of a task has said: columns of equal length, the oldest first."""

    id: int
    task: int
    #: The number of the try; 0: none has begun.
    attempt: int
    #: Why nothing can be read now; empty: it was read.
    note: str
    #: What it said last.
    message: str
    at: list[Moment | None]
    fraction: list[float]
    #: Each figure that is a number; null where a report did not name it.
    figures: dict[str, list[float | None]]


@get("/jobs/progress", summary="How far running jobs are", opt={"right": "read", "errors": (404,)})
async def progress(request: Asking, ids: params.Ids) -> ProgressList:
    """Of those jobs that run and said something: `rota progress`, `rota.context().progress`."""
    context, actor = context_of(request), actor_of(request)
    wanted = [await resolve(context.host, word) for word in params.split_ids(ids)]
    if len(wanted) > JOBS_MAX:
        raise Rejected.many("ids", len(wanted), JOBS_MAX, "jobs")
    jobs = [context.host.cluster.jobs.get(item) for item in dict.fromkeys(wanted)]
    found = await asyncio.gather(*(_read(context, actor, job) for job in jobs if job is not None))
    return ProgressList([view for view in found if view is not None])


async def _read(context: Context, actor: Actor, job: Job) -> ProgressView | None:
    if job.state is not JobState.RUNNING or not may_look_into(actor, job.spec.user):
        return None
    said = await last_report(context, job)
    if said is None:
        return None
    began_s, part = job.started_s, said.fraction
    return ProgressView(
        id=job.id,
        ref=known_ref(context.host.cluster, job.id),
        fraction=part,
        message=said.message,
        said_at=when(said.at_s),
        ends_at=when(began_s + (said.at_s - began_s) / part) if part > 0 else None,
        figures=said.figures,
    )


@get(
    "/jobs/{job_id:str}/progress",
    summary="What a job said of how far it is, over time",
    opt={"right": "read", "errors": (403, 404)},
)
async def history(
    request: Asking,
    job_id: params.JobPath,
    task: Annotated[int, QueryParameter(description="Of this task", ge=0, lt=ID_MAX)] = 0,
    points: Annotated[
        int, QueryParameter(description="At most this number of reports", ge=1, le=POINTS_MAX)
    ] = POINTS,
) -> ProgressHistory:
    """Where there are more reports than `points` some between the first and the last are left out.

    Read from the node of the task, as long as that keeps logs of jobs that have ended.
    """
    context, actor = context_of(request), actor_of(request)
    item = await find_own(context.host, actor, job_id, "its progress is")
    job = one_job(item, "reports nothing")
    if task >= job.spec.task_count:
        raise NotFound(f"job {job.id} has no task {task}", field="task", value=task)
    if job.spec.user != actor.user:
        context.host.audit.note(actor, "result", f"job {job.id}")
    note, found = "", []
    try:
        found = _thinned(await reports_of(context, job, task), points)
    except Unavailable as error:
        note = str(error)
    return _history(job, task, note, found)


def _thinned(reports: list[TaskReport], most: int) -> list[TaskReport]:
    """Of those before the last as many as there is room for, evenly; and the last one."""
    every = -(-(len(reports) - 1) // (most - 1)) if most > 1 else len(reports)
    return [*reports[:-1:every], reports[-1]] if len(reports) > most else reports


def _history(job: Job, task: int, note: str, reports: list[TaskReport]) -> ProgressHistory:
    numbers = [one.numbers for one in reports]
    # In the order in which they were first named.
    names = list(dict.fromkeys(name for one in numbers for name in one))[:FIGURES_MAX]
    attempt = last_try(job, task)
    return ProgressHistory(
        id=job.id,
        task=task,
        attempt=attempt.number if attempt is not None else 0,
        note=note,
        message=reports[-1].message if reports else "",
        at=[when(one.at_s) for one in reports],
        fraction=[one.fraction for one in reports],
        figures={name: [one.get(name) for one in numbers] for name in names},
    )


ROUTES = [progress, history]
