"""Routes about where jobs wait and who they count for: queues, groups, projects."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import delete, get, post, put
from litestar.params import QueryParameter

from rota.api import checks, params
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.requests import Body, GroupRequest, ProjectRequest, QueueRequest
from rota.api.tally import QueueTally, Tally
from rota.api.views import when
from rota.controller.commands import RemoveQueue, SetGroup, SetProject, SetQueue
from rota.core.errors import NotFound
from rota.core.tenant import Group, Project, Queue

_queue = Body(QueueRequest)
_group = Body(GroupRequest)
_project = Body(ProjectRequest)


class QueueView(msgspec.Struct):
    id: str
    name: str
    priority: int
    state: str
    project: str
    max_running: int
    running_jobs: int
    pending_jobs: int
    total_jobs: int


class QueuesView(msgspec.Struct):
    items: list[QueueView]


class GroupView(msgspec.Struct):
    name: str
    owner: str
    max_concurrent: int
    running_jobs: int


class GroupsView(msgspec.Struct):
    items: list[GroupView]


class ProjectView(msgspec.Struct):
    name: str
    parent: str
    shares: int


class ProjectsView(msgspec.Struct):
    items: list[ProjectView]


class ReservationView(msgspec.Struct):
    id: int
    owner: str
    start_at: str | None
    end_at: str | None
    node: str
    devices: list[int]


class ReservationsView(msgspec.Struct):
    items: list[ReservationView]


class UseView(msgspec.Struct):
    """One resource; ``limit``, ``available`` and ``percent`` are null where there is no quota."""

    limit: float | None
    used: float
    available: float | None
    percent: float | None


class QuotaView(msgspec.Struct):
    project_id: str
    provider: str
    enforce_quota: bool
    synced_at: str | None
    cpu: UseView
    memory_gb: UseView
    gpu: UseView


def _queue_view(queue: Queue, tally: QueueTally) -> QueueView:
    return QueueView(
        id=queue.name,
        name=queue.name,
        priority=queue.priority,
        state=queue.state,
        project=queue.project,
        max_running=queue.max_running,
        running_jobs=tally.running,
        pending_jobs=tally.pending,
        total_jobs=tally.running + tally.pending,
    )


@get("/queues", summary="Every queue and its counters", opt={"right": "read"})
async def list_queues(
    request: Asking,
    project_id: Annotated[str, QueryParameter(description="Only queues of this project")] = "",
) -> QueuesView:
    """`total_jobs` counts what is not finished."""
    cluster = context_of(request).host.cluster
    tallies = Tally(cluster).queues
    return QueuesView(
        [
            _queue_view(queue, tallies.get(name, QueueTally()))
            for name, queue in sorted(cluster.queues.items())
            if project_id in ("", queue.project)
        ]
    )


def _shown(request: Asking, name: str) -> QueueView:
    cluster = context_of(request).host.cluster
    queue = cluster.queues.get(name)
    if queue is None:
        raise NotFound(f"there is no queue {name}", field="queue", value=name)
    return _queue_view(queue, Tally(cluster).queues.get(name, QueueTally()))


@get("/queues/{name:str}", summary="One queue", opt={"right": "read", "errors": (404,)})
async def show_queue(request: Asking, name: params.NamePath) -> QueueView:
    """By its name."""
    return _shown(request, name)


@put(
    "/queues/{name:str}",
    summary="Make or change a queue",
    opt={"right": "operate", "body": QueueRequest, "errors": (429, 503)},
)
async def set_queue(request: Asking, name: params.NamePath) -> QueueView:
    """The whole queue as it shall be; `max_running` of 0 means no cap."""
    asked: QueueRequest = await body_of(request, _queue)
    queue = Queue(
        name=checks.word("name", name),
        priority=asked.priority,
        max_running=asked.max_running,
        state=asked.state,
        project=checks.word("project", asked.project),
    )
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
    active = context_of(request).host.cluster.active_in.get(("group", group.name), ())
    return GroupView(group.name, group.owner, group.max_concurrent, len(active))


@get("/groups", summary="Every group", opt={"right": "read"})
async def list_groups(request: Asking) -> GroupsView:
    """A group is made by the first job that names it."""
    groups = context_of(request).host.cluster.groups
    return GroupsView([_group_view(request, groups[name]) for name in sorted(groups)])


@get("/groups/{name:str}", summary="One group", opt={"right": "read", "errors": (404,)})
async def show_group(request: Asking, name: params.NamePath) -> GroupView:
    """How many of its jobs may run at once, and how many do."""
    group = context_of(request).host.cluster.groups.get(name)
    if group is None:
        raise NotFound(f"there is no group {name}", field="group", value=name)
    return _group_view(request, group)


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


@get("/projects", summary="Every project", opt={"right": "read"})
async def list_projects(request: Asking) -> ProjectsView:
    """An account in a tree."""
    projects = context_of(request).host.cluster.projects
    return ProjectsView(
        [ProjectView(p.name, p.parent, p.shares) for _, p in sorted(projects.items())]
    )


@put(
    "/projects/{name:str}",
    summary="Make or change a project",
    opt={"right": "operate", "body": ProjectRequest, "errors": (429, 503)},
)
async def set_project(request: Asking, name: params.NamePath) -> ProjectView:
    """The whole project as it shall be."""
    asked: ProjectRequest = await body_of(request, _project)
    project = Project(checks.word("name", name), checks.word("parent", asked.parent), asked.shares)
    await context_of(request).host.ask(SetProject(actor=actor_of(request), project=project))
    return ProjectView(project.name, project.parent, project.shares)


@get("/reservations", summary="Every reservation", opt={"right": "read"})
async def list_reservations(request: Asking) -> ReservationsView:
    """Who may use which devices from when to when."""
    found = context_of(request).host.cluster.reservations
    return ReservationsView(
        [
            ReservationView(r.id, r.owner, when(r.start_s), when(r.end_s), r.node, list(r.devices))
            for _, r in sorted(found.items())
        ]
    )


@get(
    "/queues/quota/{project_id:str}",
    summary="What a project uses, against its quota",
    opt={"right": "read", "errors": (404,)},
)
async def show_quota(request: Asking, project_id: params.NamePath) -> QuotaView:
    """Counted from live attempts at this moment; a limit of null means that there is none."""
    return _quota(request, project_id)


@post(
    "/queues/quota/{project_id:str}/sync",
    summary="Bring a project's use up to date",
    opt={"right": "read", "errors": (404,)},
    status_code=200,
)
async def sync_quota(request: Asking, project_id: params.NamePath) -> QuotaView:
    """The local provider counts live attempts, so it is never out of date."""
    return _quota(request, project_id)


def _quota(request: Asking, project: str) -> QuotaView:
    context = context_of(request)
    cluster = context.host.cluster
    cpu_milli = memory_mib = gpus = 0
    for job_id, task in cluster.live.values():
        job = cluster.jobs[job_id]
        if job.spec.project == project:
            held = job.tasks[task].attempts[-1].allocation
            cpu_milli += held.cpu_milli
            memory_mib += held.memory_mib
            gpus += len(held.devices)
    specs = [job.spec for job in cluster.jobs.values()]
    specs += [array.spec for array in cluster.arrays.values()]
    if project not in cluster.projects and all(spec.project != project for spec in specs):
        raise NotFound(f"there is no project {project}", field="project_id", value=project)
    return QuotaView(
        project_id=project,
        provider=context.settings.quota_provider,
        enforce_quota=False,
        synced_at=when(context.host.clock.now_s()),
        cpu=UseView(None, cpu_milli / 1000, None, None),
        memory_gb=UseView(None, memory_mib / 1024, None, None),
        gpu=UseView(None, float(gpus), None, None),
    )


ROUTES = [
    show_quota,
    sync_quota,
    list_queues,
    show_queue,
    set_queue,
    remove_queue,
    list_groups,
    show_group,
    set_group,
    list_projects,
    set_project,
    list_reservations,
]
