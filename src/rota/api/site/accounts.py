"""Routes about who jobs count for: projects in a tree, users, their shares and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import delete, get, patch, put

from rota.api import params
from rota.api.auth import require
from rota.api.bodies import checks
from rota.api.bodies.mib import ShowsMib
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import ProjectPatch, ProjectRequest, UserPatch
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.site.quotas import (
    AllLimitsView,
    ProviderView,
    changed_quota,
    project_use,
    provider_view,
    quota_view,
    set_everywhere,
    with_quota,
    written_quota,
)
from rota.api.views.paging import Listed, ListPart
from rota.controller.commands.commands import RemoveProject, RemoveUser, SetUser
from rota.core.facts.errors import named
from rota.core.facts.tenant import NO_QUOTA, Access, Project, User

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.cluster import Cluster
    from rota.core.facts.resources import Amount

_project = Body(ProjectRequest)
_project_patch = Body(ProjectPatch)
_user_patch = Body(UserPatch)

#: The name under which the defaults of all users are shown and changed.
EVERYBODY = "*"


class HeldView(ShowsMib, msgspec.Struct):
    """What somebody's live attempts hold now."""

    jobs: int
    cpus: float
    memory_mb: int
    gpus: float
    memory_mib: int = 0


class ProjectView(ProviderView, kw_only=True):
    name: str
    parent: str
    shares: int
    quota: AllLimitsView
    enforce_quota: bool
    used: HeldView
    #: Whose jobs may count for it; empty: those of the members of the project above, or anybody's.
    members: list[str]


class ProjectsView(Listed):
    items: list[ProjectView]


class UserView(msgspec.Struct):
    """``own`` is false for a user that has no record: the defaults hold (of the user ``*``)."""

    name: str
    own: bool
    shares: int
    quota: AllLimitsView
    used: HeldView
    role: Access


class UsersView(Listed):
    items: list[UserView]


def held_view(held: Amount, jobs: int) -> HeldView:
    return HeldView(jobs, held.cpu_milli / 1000, held.memory_mib, held.device_milli / 1000)


def project_view(context: Context, project: Project) -> ProjectView:
    cluster, standing = context.host.cluster, provider_view(context, project.name)
    return ProjectView(
        name=project.name,
        parent=project.parent,
        shares=project.shares,
        quota=quota_view(written_quota(project)),
        enforce_quota=project.unenforced == NO_QUOTA,
        used=held_view(*project_use(cluster, project.name)),
        provider=standing.provider,
        synced_at=standing.synced_at,
        drift=standing.drift,
        warning=standing.warning,
        members=list(project.members),
    )


def user_view(cluster: Cluster, name: str) -> UserView:
    shown = cluster.accounts.user(name)
    held = cluster.accounts.holdings.get(("user", name))
    jobs = len(cluster.census.active_in.get(("user", name), ()))
    return UserView(
        name=name or EVERYBODY,
        own=name in cluster.accounts.users,
        shares=shown.shares,
        quota=quota_view(shown.quota),
        used=held_view(held, jobs),
        role=shown.role or Access.USER,
    )


@get("/projects", summary="Every project", opt={"right": "read"})
async def list_projects(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> ProjectsView:
    """Accounts in a tree: shares, quotas and use hang on them."""
    context = context_of(request)
    projects = context.host.cluster.accounts.projects
    page, after = ListPart(limit, cursor).of(sorted(projects), str)
    return ProjectsView([project_view(context, projects[name]) for name in page], cursor=after)


@get("/projects/{name:str}", summary="One project", opt={"right": "read", "errors": (404,)})
async def show_project(request: Asking, name: params.NamePath) -> ProjectView:
    """What it may hold and what it holds, with those below it."""
    context = context_of(request)
    return project_view(context, named(context.host.cluster.accounts.projects, "project", name))


def _members(names: list[str]) -> tuple[str, ...]:
    return tuple(sorted({checks.word("members", name) for name in names if name}))


async def _set_project(request: Asking, project: Project) -> ProjectView:
    await set_everywhere(request, project)
    context = context_of(request)
    known = context.host.cluster.accounts.projects
    return project_view(context, named(known, "project", project.name))


@put(
    "/projects/{name:str}",
    summary="Make or replace a project",
    opt={"right": "operate", "body": ProjectRequest, "errors": (404, 429, 503)},
)
async def set_project(request: Asking, name: params.NamePath) -> ProjectView:
    """The whole project as it shall be. Its parent must exist and not stand below it."""
    asked: ProjectRequest = await body_of(request, _project)
    project = Project(
        checks.word("name", name),
        checks.word("parent", asked.parent),
        asked.shares,
        changed_quota(NO_QUOTA, asked.quota),
        members=_members(asked.members),
    )
    return await _set_project(request, project)


@patch(
    "/projects/{name:str}",
    summary="Change a project",
    opt={"right": "operate", "body": ProjectPatch, "errors": (404, 429, 503)},
)
async def change_project(request: Asking, name: params.NamePath) -> ProjectView:
    """Absent fields stay as they are; a limit of null is taken away."""
    asked: ProjectPatch = await body_of(request, _project_patch)
    now = named(context_of(request).host.cluster.accounts.projects, "project", name)
    quota = written_quota(now)
    if asked.quota is not None:
        quota = changed_quota(quota, asked.quota)
    project = msgspec.structs.replace(
        with_quota(now, quota, asked.enforce_quota),
        parent=now.parent if asked.parent is None else checks.word("parent", asked.parent),
        shares=now.shares if asked.shares is None else asked.shares,
        members=now.members if asked.members is None else _members(asked.members),
    )
    return await _set_project(request, project)


@delete(
    "/projects/{name:str}",
    summary="Remove a project",
    opt={"right": "operate", "errors": (404, 409, 429, 503)},
)
async def remove_project(request: Asking, name: params.NamePath) -> None:
    """Refused while it has unfinished jobs, queues or projects below it."""
    await context_of(request).host.ask(RemoveProject(actor=actor_of(request), project=name))


@get("/users", summary="Every user that is known", opt={"right": "read"})
async def list_users(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> UsersView:
    """Those with a record, with unfinished jobs or with use on record; `*` are the defaults."""
    cluster = context_of(request).host.cluster
    accounts = cluster.accounts
    names = {"", *accounts.users, *(usage.user for usage in accounts.usage.values())}
    names |= {job.spec.user for job in cluster.jobs.values()}
    names |= {array.spec.user for array in cluster.arrays.values()}
    page, after = ListPart(limit, cursor).of(sorted(names), str)
    return UsersView([user_view(cluster, name) for name in page], cursor=after)


def _user_name(name: str) -> str:
    return "" if name == EVERYBODY else checks.word("name", name)


@get("/users/{name:str}", summary="One user", opt={"right": "read"})
async def show_user(request: Asking, name: params.NamePath) -> UserView:
    """Shares, quota and what is held now; `*` gives the defaults."""
    return user_view(context_of(request).host.cluster, _user_name(name))


@patch(
    "/users/{name:str}",
    summary="Change the shares or the quota of a user",
    opt={"right": "operate", "body": UserPatch, "errors": (404, 429, 503)},
)
async def change_user(request: Asking, name: params.NamePath) -> UserView:
    """What was never set stays as the defaults say; `*` changes these. Only admins give roles."""
    asked: UserPatch = await body_of(request, _user_patch)
    host = context_of(request).host
    user, accounts = _user_name(name), host.cluster.accounts
    known = accounts.users.get(user) or User(user, own_shares=not user, own_quota=not user)
    changes: dict[str, Any] = {}
    if asked.shares is not None:
        changes |= {"shares": asked.shares, "own_shares": True}
    if asked.quota is not None:
        quota = changed_quota(accounts.quota_of(user), asked.quota)
        changes |= {"quota": quota, "own_quota": True}
    if asked.role is not None:
        require(actor_of(request), "administer")
        changes["role"] = Access(asked.role)
    made = msgspec.structs.replace(known, **changes)
    await host.ask(SetUser(actor=actor_of(request), user=made))
    return user_view(host.cluster, user)


@delete(
    "/users/{name:str}",
    summary="Forget the shares and the quota of a user",
    opt={"right": "operate", "errors": (404, 429, 503)},
)
async def remove_user(request: Asking, name: params.NamePath) -> None:
    """Back to the defaults; of `*`: no limits."""
    await context_of(request).host.ask(RemoveUser(actor=actor_of(request), user=_user_name(name)))


ROUTES = [
    list_projects,
    show_project,
    set_project,
    change_project,
    remove_project,
    list_users,
    show_user,
    change_user,
    remove_user,
]
