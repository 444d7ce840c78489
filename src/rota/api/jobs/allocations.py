"""Routes about room as such: who holds what, hold some without a program, give it back.

An allocation is what the tries of a job hold. A program that wants room for work that Rota does not
start gets a job that only holds it: it waits its turn, counts and ends like any other.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import delete, get, post
from msgspec import Meta

from rota.api import params
from rota.api.bodies.request_fields import Resources, Seconds, Short, Words, says
from rota.api.bodies.requests import Body, JobRequest, Strict
from rota.api.context import Asking, Context, actor_of, body_of, context_of
from rota.api.jobs.changes import CancelledView, cancel_job
from rota.api.jobs.jobs import view_of
from rota.api.jobs.submit import hand_in
from rota.api.views.attempt_views import AllocationView, allocation_view
from rota.api.views.lookup import find
from rota.api.views.paging import Listed, ListPart
from rota.core.facts.job import Job
from rota.core.facts.states import JobState

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.core.facts.tenant import Actor

WAIT_MAX_S = 60.0
#: Looked at again after this time at the latest.
LOOK_S = 0.05
#: What stands there in place of a program.
_HOLDS = ["sleep", "infinity"]
_NOT_YET = (JobState.QUEUED, JobState.HELD, JobState.SCHEDULED, JobState.PREEMPTED)


class AllocationRequest(Strict):
    """Room for each of some tasks, as a job would ask for it."""

    name: Annotated[str, says("What people call it")] = "allocation"
    resources: Annotated[Resources, says("What each task holds")] = Resources()
    tasks: Annotated[int, Meta(ge=1, le=100_000), says("How many times, all or none")] = 1
    nodes: Annotated[int, Meta(ge=0, le=100_000), says("On N nodes; 0: as few as can be")] = 0
    constraints: Annotated[Words, says("Which nodes, as in a job")] = msgspec.field(
        default_factory=list
    )
    project: Annotated[Short, says("The project that it counts for")] = ""
    queue: Annotated[Short, says("The queue that it waits in")] = "default"
    priority: Annotated[Annotated[int, Meta(ge=0, le=100)] | str, says("As in a job")] = 50
    time_limit_s: Annotated[Seconds, says("Given back after this time; 0: when released")] = 0
    labels: Annotated[dict[str, str], says("Words to find it by")] = msgspec.field(
        default_factory=dict
    )
    wait_s: Annotated[
        Annotated[float, Meta(ge=0, le=WAIT_MAX_S)],
        says("Answer when it is there, after this time at the latest; 0: at once"),
    ] = 0


_body = Body(AllocationRequest)


class HoldingView(msgspec.Struct):
    """What one job holds; ``id`` is the job's. ``reason`` says why it has nothing yet."""

    id: int
    user: str
    project: str
    state: JobState
    reason: str
    allocations: list[AllocationView]


class HoldingsView(Listed):
    items: list[HoldingView]


def _holding(context: Context, item: Job | Array, actor: Actor) -> HoldingView:
    tasks = item.tasks if isinstance(item, Job) else []
    held = [
        allocation_view(task.index, task.current.allocation)
        for task in tasks
        if task.current is not None and task.current.live
    ]
    view = view_of(context, item, actor)
    return HoldingView(item.id, item.spec.user, item.spec.project, view.state, view.reason, held)


@get("/allocations", summary="Who holds what", opt={"right": "read"})
async def list_allocations(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> HoldingsView:
    """Every job that holds room now."""
    context, actor = context_of(request), actor_of(request)
    cluster = context.host.cluster
    holders = sorted({job for job, _ in cluster.live.where.values()})
    page, after = ListPart(limit, cursor).of(holders, int)
    return HoldingsView([_holding(context, cluster.jobs[job], actor) for job in page], cursor=after)


@get(
    "/allocations/{job_id:str}",
    summary="What one job holds",
    opt={"right": "read", "errors": (404,)},
)
async def show_allocation(request: Asking, job_id: params.JobPath) -> HoldingView:
    """By the job's id."""
    context = context_of(request)
    return _holding(context, await find(context.host, job_id), actor_of(request))


@post(
    "/allocations",
    summary="Hold room without a program",
    opt={
        "right": "submit",
        "body": AllocationRequest,
        "creates": "id",
        "errors": (404, 409, 413, 429, 503),
    },
)
async def allocate(request: Asking) -> HoldingView:
    """Answers once it is on disk, with `wait_s` once it is held. Release it to give it back."""
    context, actor = context_of(request), actor_of(request)
    asked: AllocationRequest = await body_of(request, _body)
    fields = msgspec.structs.asdict(asked)
    wait_s = fields.pop("wait_s")
    submission = context.repeated.submission(JobRequest(command=_HOLDS, **fields), actor)
    done = await hand_in(context, actor, (submission,))
    await _until_held(context, done.ids[0], wait_s)
    return _holding(context, await find(context.host, done.ids[0]), actor)


async def _until_held(context: Context, job_id: int, wait_s: float) -> None:
    host = context.host
    until_s = time.monotonic() + wait_s
    while host.cluster.state_of(job_id) in _NOT_YET and not context.closing.is_set():
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return
        await context.until_closing(host.watch.settled([job_id], min(left_s, LOOK_S)))


@delete(
    "/allocations/{job_id:str}",
    summary="Give room back",
    opt={"right": "change", "errors": (400, 403, 404, 409, 429, 503)},
    status_code=202,
)
async def release(request: Asking, job_id: params.JobPath) -> CancelledView:
    """Ends the job that holds it, whatever it does there."""
    return await cancel_job(context_of(request), actor_of(request), job_id)


ROUTES = [list_allocations, show_allocation, allocate, release]
