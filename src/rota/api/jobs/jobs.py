"""Routes about jobs: submit, list, look at one, wait for some."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import HeaderParameter, QueryParameter

from rota.api import params
from rota.api.auth import may_look_into
from rota.api.bodies.requests import BatchRequest, JobRequest
from rota.api.context import Asking, Context, actor_of, context_of
from rota.api.jobs.submit import BatchView, SubmitAnswer, SubmittedView, submit_batch, submit_one
from rota.api.views.attempt_views import AttemptView, attempt_views
from rota.api.views.listing import Query, list_page
from rota.api.views.lookup import find, resolve
from rota.api.views.paging import Listed, ListPart
from rota.api.views.reasons import Reasons
from rota.api.views.views import JobView, Page, array_view, job_view, worst
from rota.api.watch.event_views import EventView
from rota.api.watch.live import event_view
from rota.core.facts.array import Array
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Job
from rota.core.facts.states import FINAL, JobState
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from rota.core.facts.tenant import Actor

WAIT_MAX_S = 300.0
#: Arrays have no end of their own to wait for: looked at again after this time at the latest.
ARRAY_LOOK_S = 0.5
WATCHED_MAX = 1000
EVENTS_MAX = 1000

#: What it is for says the document, for every route that takes it.
IdempotencyKey = Annotated[str, HeaderParameter(name="Idempotency-Key")]


class DoneView(msgspec.Struct):
    id: int
    state: JobState
    exit_code: int | None


class WaitView(msgspec.Struct):
    """``done`` have ended; ``pending`` had not when the time was up."""

    done: list[DoneView]
    pending: list[int]


class AttemptsView(Listed):
    items: list[AttemptView]


class EventsView(msgspec.Struct):
    items: list[EventView]
    cursor: str | None


@post(
    "/jobs",
    summary="Submit a job or an array",
    opt={"right": "submit", "body": JobRequest, "keyed": True, "errors": (404, 409, 413, 429, 503)},
)
async def submit(request: Asking, key: IdempotencyKey = "") -> Response[SubmittedView]:
    """Answers once the job is on disk. A repeat with the same Idempotency-Key gives 200."""
    answer = await submit_one(context_of(request), actor_of(request), await request.body(), key)
    return as_response(answer)


@post(
    "/jobs:batch",
    summary="Submit several jobs: all or none",
    opt={
        "right": "submit",
        "body": BatchRequest,
        "keyed": True,
        "errors": (404, 409, 413, 429, 503),
    },
)
async def batch(request: Asking, key: IdempotencyKey = "") -> Response[BatchView]:
    """An error names the entry: `jobs[3].resources.cpus`."""
    answer = await submit_batch(context_of(request), actor_of(request), await request.body(), key)
    return as_response(answer)


def as_response(answer: SubmitAnswer) -> Response[Any]:
    return Response(
        answer.body,
        status_code=answer.status,
        media_type="application/json",
        headers={"Location": answer.location} if answer.location else None,
    )


@get("/jobs", summary="List jobs", opt={"right": "read", "errors": (404,)})
async def list_jobs(
    request: Asking,
    states: params.States = "",
    user: params.User = "",
    project: params.ProjectName = "",
    queue: params.QueueName = "",
    name: params.JobName = "",
    label: params.Label = "",
    user_id: params.UserId = "",
    priority: params.Priority = "",
    array: params.ArrayId = 0,
    ids: params.Ids = "",
    limit: params.Limit = 100,
    cursor: params.Cursor = "",
    order: params.Order = "id",
    arrays: params.Arrays = "expand",
    status: params.Status = "",
    project_id: params.ProjectId = "",
    kind: params.JobType = "",
    run: params.Run = "",
    engine: params.Engine = "",
    executor: params.Executor = "",
    search: params.Search = "",
    page: params.PageNumber = 0,
    page_size: params.PageSize = 20,
) -> Page:
    """Jobs by id, a page at a time; every filter narrows the list."""
    context = context_of(request)
    chosen = [await resolve(context.host, word) for word in params.split_ids(ids)]
    if ids and not chosen:
        return Page([], None)
    query = Query(
        states=params.parse_states(states or status),
        user=user or user_id,
        project=project or project_id,
        queue=queue,
        name=name,
        labels=tuple(filter(None, (label, run and f"run={run}"))),
        type=kind,
        engine=engine or executor,
        search=search,
        priorities=params.parse_priorities(priority),
        array=array,
        ids=tuple(dict.fromkeys(chosen)),
        limit=page_size if page else limit,
        after=params.parse_cursor(cursor),
        newest_first=order == "-id",
        collapse=arrays == "collapse",
    )
    found = await list_page(context.host, query, actor_of(request))
    for _ in range(page - 1):
        if found.cursor is None:
            return Page([], None)
        query = msgspec.structs.replace(query, after=int(found.cursor))
        found = await list_page(context.host, query, actor_of(request))
    return found


@get("/jobs/{job_id:str}", summary="One job or array", opt={"right": "read", "errors": (404,)})
async def show(request: Asking, job_id: params.JobPath) -> JobView:
    """An array's id gives the array as one item, with `count` and `states`."""
    context = context_of(request)
    return view_of(context, await find(context.host, job_id), actor_of(request))


def view_of(context: Context, item: Job | Array, actor: Actor) -> JobView:
    """A job or array as the actor may see it, with the reason why it waits."""
    cluster = context.host.cluster
    reasons = Reasons(context.host.scheduler, context.host.clock.now_s())
    if isinstance(item, Job):
        waits = item.outcome is None
        family = cluster.array_of(item.id) if waits else None
        return job_view(item, actor, reasons.of(family or item) if waits else "")
    known = cluster.arrays.get(item.id)
    counts = cluster.count_elements(item)
    state = cluster.state_of(item.id) or worst(counts)
    reason = reasons.of(known) if known is not None and known.waiting else ""
    view = array_view(item, actor, state, reason)
    view.states = {state: count for state, count in counts.items() if count}
    return view


@get(
    "/jobs/{job_id:str}/attempts",
    summary="Every attempt of a job",
    opt={"right": "read", "errors": (404,)},
)
async def attempts(
    request: Asking,
    job_id: params.JobPath,
    limit: params.PartSize = None,
    cursor: params.Cursor = "",
) -> AttemptsView:
    """In the order of tasks and tries; empty while it has not been placed."""
    found = await find(context_of(request).host, job_id)
    if not isinstance(found, Job):
        return AttemptsView([])
    open_ = may_look_into(actor_of(request), found.spec.user)
    page, after = ListPart(limit, cursor).of_numbered(attempt_views(found, open_=open_))
    return AttemptsView(page, cursor=after)


@get(
    "/jobs/{job_id:str}/events",
    summary="What happened to a job",
    opt={"right": "read", "errors": (404,)},
)
async def events(
    request: Asking,
    job_id: params.JobPath,
    limit: params.Limit = EVENTS_MAX,
    cursor: params.Cursor = "",
) -> EventsView:
    """The audit trail of one job or array, oldest first."""
    host, actor = context_of(request).host, actor_of(request)
    found = await find(host, job_id)
    after = params.parse_cursor(cursor)
    records = await host.read(lambda store: store.events(after=after, job=found.id, limit=limit))
    open_ = may_look_into(actor, found.spec.user)
    views = [view for record in records if (view := event_view(record, actor, open_=open_))]
    more = len(records) == limit
    return EventsView(views, str(records[-1].seq) if more else None)


@get("/jobs/wait", summary="Wait for jobs to end", opt={"right": "read", "errors": (404,)})
async def wait(
    request: Asking,
    ids: params.Ids,
    timeout_s: Annotated[
        float, QueryParameter(description="Answer after this time at the latest", ge=0, le=86_400)
    ] = 30.0,
) -> WaitView:
    """Answers when all of them have ended, or when the time is up (300 s at the most)."""
    context = context_of(request)
    wanted = [await resolve(context.host, word) for word in params.split_ids(ids)]
    if not wanted:
        raise Rejected.bad("ids", ids, "at least one id")
    wanted = list(dict.fromkeys(wanted))
    ended = {item: state for item in wanted if (state := await _end_of(context, item))}
    until_s = time.monotonic() + min(timeout_s, WAIT_MAX_S)
    pending = [item for item in wanted if item not in ended]
    # All must end, so waiting for one after the other is enough. The newest first: when it has
    # ended, most others have too, and nobody was woken for each of them.
    for item in reversed(pending):
        while context.host.cluster.state_of(item) not in FINAL:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or context.closing.is_set():
                break
            await _next_end(context, item, left_s)
    await context.host.on_disk()
    states = {item: context.host.cluster.state_of(item) for item in pending}
    ended |= {item: state for item, state in states.items() if state in FINAL}
    return WaitView(await _done(context, ended), [item for item in pending if item not in ended])


async def _end_of(context: Context, item: int) -> JobState | None:
    """The final state; None while it has none. ``NotFound`` when there is no such job."""
    state = context.host.cluster.state_of(item)
    if state is None:
        found = await find(context.host, item)
        if isinstance(found, Array):
            return worst(context.host.cluster.count_elements(found))
        state = found.state
    return state if state in FINAL else None


async def _next_end(context: Context, item: int, left_s: float) -> None:
    """Until it may have ended: woken by the commit that ends it."""
    cluster = context.host.cluster
    watched = [item]
    if item in cluster.arrays:
        left_s = min(left_s, ARRAY_LOOK_S)
        watched += list(cluster.families.unfinished.get(item, ()))[:WATCHED_MAX]
    await context.until_closing(context.host.watch.settled(watched, left_s))


async def _done(context: Context, ended: dict[int, JobState]) -> list[DoneView]:
    ids = tuple(ended)
    rows: list[Job] = []
    if ids:
        rows = await context.host.read(
            lambda store: store.list_jobs(JobFilter(ids=ids), limit=len(ids))
        )
    codes = {row.id: row.outcome.exit_code for row in rows if row.outcome is not None}
    return [DoneView(item, state, codes.get(item)) for item, state in ended.items()]


ROUTES = [submit, batch, list_jobs, wait, show, attempts, events]
