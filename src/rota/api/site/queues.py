"""Routes about where jobs wait: queues and groups."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import delete, get, patch, post, put
from litestar.params import QueryParameter

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.queue_requests import GroupRequest, QueuePatch, QueueRequest
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import NewQueueRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.api.watch.tally import QueueTally, Tally
from rota.controller.commands.commands import RemoveQueue, SetGroup, SetQueue
from rota.core.facts.errors import Conflict, named
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Group, Queue

_queue = Body(QueueRequest)
_new_queue = Body(NewQueueRequest)
_queue_patch = Body(QueuePatch)
_group = Body(GroupRequest)


class QueueView(msgspec.Struct):
    id: str
    name: str
    priority: int
    state: QueueState
    project: str
    max_running: int
    max_per_user: int
    max_per_project: int
    preempts: bool
    preemptible: bool
    hours: str
    zone: str
    #: Whether it is within its hours, and when that changes next.
    open: bool
    turns_at: Moment | None
    running_jobs: int
    pending_jobs: int
    total_jobs: int


class QueuesView(Listed):
    items: list[QueueView]


class GroupView(msgspec.Struct):
    name: str
    owner: str
    max_concurrent: int
    running_jobs: int


class GroupsView(Listed):
    items: list[GroupView]


def _queue_view(queue: Queue, tally: QueueTally) -> QueueView:
    return QueueView(
        id=queue.name,
        name=queue.name,
        priority=queue.priority,
        state=queue.state,
        project=queue.project,
        max_running=queue.max_running,
        max_per_user=queue.max_per_user,
        max_per_project=queue.max_per_project,
        preempts=queue.preempts,
        preemptible=queue.preemptible,
        hours=queue.hours,
        zone=queue.zone,
        open=not queue.outside,
        turns_at=when(queue.turns_s),
        running_jobs=tally.running,
        pending_jobs=tally.pending,
        total_jobs=tally.running + tally.pending,
    )


@get("/queues", summary="Every queue and its counters", opt={"right": "read"})
async def list_queues(
    request: Asking,
    project_id: Annotated[str, QueryParameter(description="Only queues of this project")] = "",
    limit: params.PartSize = None,
    cursor: params.Cursor = "",
) -> QueuesView:
    """`total_jobs` counts what is not finished."""
    cluster = context_of(request).host.cluster
    tallies = Tally(cluster).queues
    names = sorted(n for n, queue in cluster.queues.items() if project_id in ("", queue.project))
    page, after = ListPart(limit, cursor).of(names, str)
    return QueuesView(
        [_queue_view(cluster.queues[name], tallies.get(name, QueueTally())) for name in page],
        cursor=after,
    )


def _shown(request: Asking, name: str) -> QueueView:
    cluster = context_of(request).host.cluster
    queue = named(cluster.queues, "queue", name)
    return _queue_view(queue, Tally(cluster).queues.get(name, QueueTally()))


@get("/queues/{name:str}", summary="One queue", opt={"right": "read", "errors": (404,)})
async def show_queue(request: Asking, name: params.NamePath) -> QueueView:
    """By its name."""
    return _shown(request, name)


@post(
    "/queues",
    summary="Make a queue",
    opt={"right": "operate", "body": NewQueueRequest, "creates": "name", "errors": (409, 429, 503)},
    status_code=201,
)
async def make_queue(request: Asking) -> QueueView:
    """As `PUT /queues/{name}`, but refused where there is one of this name."""
    asked: NewQueueRequest = await body_of(request, _new_queue)
    checks.word("project", asked.project)
    context, queue = context_of(request), Queue(**msgspec.structs.asdict(asked))
    async with context.turns.of("queue", checks.word("name", queue.name)):
        if queue.name in context.host.cluster.queues:
            raise Conflict(f"there is a queue {queue.name} already", field="name", value=queue.name)
        await context.host.ask(SetQueue(actor=actor_of(request), queue=queue))
    return _shown(request, queue.name)


@put(
    "/queues/{name:str}",
    summary="Make or change a queue",
    opt={"right": "operate", "body": QueueRequest, "errors": (429, 503)},
)
async def set_queue(request: Asking, name: params.NamePath) -> QueueView:
    """The whole queue as it shall be; a cap of 0 means none."""
    asked: QueueRequest = await body_of(request, _queue)
    checks.word("project", asked.project)
    queue = Queue(name=checks.word("name", name), **msgspec.structs.asdict(asked))
    await context_of(request).host.ask(SetQueue(actor=actor_of(request), queue=queue))
    return _shown(request, name)


@patch(
    "/queues/{name:str}",
    summary="Change a queue",
    opt={"right": "operate", "body": QueuePatch, "errors": (404, 429, 503)},
)
async def change_queue(request: Asking, name: params.NamePath) -> QueueView:
    """Absent fields stay as they are."""
    asked: QueuePatch = await body_of(request, _queue_patch)
    checks.word("project", asked.project or "")
    now = named(context_of(request).host.cluster.queues, "queue", name)
    changes = {k: v for k, v in msgspec.structs.asdict(asked).items() if v is not None}
    queue = msgspec.structs.replace(now, **changes)
    await context_of(request).host.ask(SetQueue(actor=actor_of(request), queue=queue))
    return _shown(request, name)


@delete(
    "/queues/{name:str}",
    summary="Remove an empty queue",
    opt={"right": "operate", "errors": (404, 409)},
)
async def remove_queue(request: Asking, name: params.NamePath) -> None:
    """Refused for the default queue and while it has jobs."""
    await context_of(request).host.ask(RemoveQueue(actor=actor_of(request), queue=name))


def _group_view(request: Asking, group: Group) -> GroupView:
    active = context_of(request).host.cluster.census.active_in.get(("group", group.name), ())
    return GroupView(group.name, group.owner, group.max_concurrent, len(active))


@get("/groups", summary="Every group", opt={"right": "read"})
async def list_groups(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> GroupsView:
    """A group is made by the first job that names it."""
    groups = context_of(request).host.cluster.groups
    page, after = ListPart(limit, cursor).of(sorted(groups), str)
    return GroupsView([_group_view(request, groups[name]) for name in page], cursor=after)


@get("/groups/{name:str}", summary="One group", opt={"right": "read", "errors": (404,)})
async def show_group(request: Asking, name: params.NamePath) -> GroupView:
    """How many of its jobs may run at once, and how many do."""
    return _group_view(request, named(context_of(request).host.cluster.groups, "group", name))


@put(
    "/groups/{name:str}",
    summary="Change a group's cap",
    opt={"right": "change", "body": GroupRequest, "errors": (404, 429, 503)},
)
async def set_group(request: Asking, name: params.NamePath) -> GroupView:
    """For its owner and operators; running jobs go on."""
    asked: GroupRequest = await body_of(request, _group)
    actor = actor_of(request)
    group = await context_of(request).host.ask(
        SetGroup(actor=actor, group=Group(name, actor.user, asked.max_concurrent))
    )
    return _group_view(request, group)


ROUTES = [
    list_queues,
    show_queue,
    make_queue,
    set_queue,
    change_queue,
    remove_queue,
    list_groups,
    show_group,
    set_group,
]
