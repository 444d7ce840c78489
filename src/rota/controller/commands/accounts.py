"""Projects and users: the tree, the shares and the quotas that hang on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.controller.commands.access import require
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, NotFound, Rejected, named
from rota.core.facts.site.outer import Outer
from rota.core.facts.tenant import NO_QUOTA, Access, User

if TYPE_CHECKING:
    from rota.controller.commands import commands as cmd
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Project, Quota

#: How callers know a limit: its name, and how much of ours one of theirs is.
_SHOWN = {
    "jobs": ("jobs", 1),
    "queued": ("queued", 1),
    "cpu_milli": ("cpus", 1000),
    "memory_mib": ("memory_mb", 1),
    "device_milli": ("gpus", 1000),
    "device_hours": ("gpu_hours", 1),
    "cost": ("cost", 1),
}


def set_project(scribe: Scribe, command: cmd.SetProject) -> object:
    """Its parent must exist and must not stand below it."""
    project = command.project
    _refuse_bad_parent(scribe.cluster, project)
    refuse_contradiction(project.quota)
    if scribe.cluster.accounts.projects.get(project.name) != project:
        scribe.emit(ev.ProjectSet(project=project))
    return project


def _refuse_bad_parent(cluster: Cluster, project: Project) -> None:
    if not project.parent:
        return
    if project.parent not in cluster.accounts.projects and project.parent != project.name:
        known = ", ".join(sorted(cluster.accounts.projects)) or "none"
        raise Rejected.unknown("parent", project.parent, "project", f"known projects: {known}")
    path, above = [project.name], project.parent
    while above:
        path.append(above)
        if above == project.name:
            why = f"{project.name} would be its own ancestor: {' < '.join(path)}"
            raise Rejected.because("parent", project.parent, why)
        known_above = cluster.accounts.projects.get(above)
        above = known_above.parent if known_above is not None else ""


def remove_project(scribe: Scribe, command: cmd.RemoveProject) -> object:
    """Refused while it has jobs, queues or projects below it. What it used stays on record."""
    cluster, name = scribe.cluster, command.project
    named(cluster.accounts.projects, "project", name)
    below = sorted(p.name for p in cluster.accounts.projects.values() if p.parent == name)
    if below:
        raise Conflict(
            f"project {name} has projects below it: {', '.join(below)}", field="project", value=name
        )
    items: list[Job | Array] = [*cluster.jobs.values()]
    items += [array for array in cluster.arrays.values() if array.waiting]
    jobs = [item.id for item in items if item.spec.project == name]
    if jobs:
        raise Conflict(
            f"project {name} has {len(jobs)} unfinished jobs (such as {min(jobs)})",
            field="project",
            value=name,
        )
    queues = sorted(queue.name for queue in cluster.queues.values() if queue.project == name)
    if queues:
        raise Conflict(
            f"project {name} has queues: {', '.join(queues)}", field="project", value=name
        )
    scribe.emit(ev.ProjectRemoved(project=name))
    return name


def set_user(scribe: Scribe, command: cmd.SetUser) -> object:
    """What differs from a record that says nothing is the user's own."""
    asked = command.user
    refuse_contradiction(asked.quota)
    known = scribe.cluster.accounts.users.get(asked.name)
    if asked.role != (known.role if known is not None else None):
        require(command.actor, Access.ADMIN)
    user = replace(
        asked,
        own_shares=asked.own_shares or asked.shares != 1,
        own_quota=asked.own_quota or asked.quota != NO_QUOTA,
    )
    if scribe.cluster.accounts.users.get(user.name) != user:
        scribe.emit(ev.UserSet(user=user))
    return user


def remove_user(scribe: Scribe, command: cmd.RemoveUser) -> object:
    """Back to one share and the default quota; a role goes with it where an admin says so."""
    name = command.user
    known = scribe.cluster.accounts.users.get(name)
    if known is None:
        shown = name or "*"
        raise NotFound(f"there is no record of user {shown}", field="user", value=shown)
    if known.role is None or command.actor.access is Access.ADMIN:
        scribe.emit(ev.UserRemoved(user=name))
    else:
        kept = User(name, own_shares=not name, own_quota=not name, role=known.role)
        scribe.emit(ev.UserSet(user=kept))
    return name


def note_quota(scribe: Scribe, command: cmd.NoteQuota) -> object:
    user, project = command.user, command.project
    event = ev.QuotaReached(level=command.level, note=command.note, user=user, project=project)
    scribe.emit(event)
    return None


def forget_usage(scribe: Scribe, command: cmd.ForgetUsage) -> object:
    """Every account that the command means; one that has used nothing is not found."""
    user, project = command.user, command.project
    found = [
        (usage.user, usage.project)
        for _, usage in sorted(scribe.cluster.accounts.usage.items())
        if user in ("", usage.user) and project in ("", usage.project)
    ]
    if not found and (user or project):
        who = " and ".join(f"{k} {v}" for k, v in (("user", user), ("project", project)) if v)
        raise NotFound(f"there is no use on record of {who}", field="user", value=user or project)
    for one in found:
        scribe.emit(ev.UsageForgotten(user=one[0], project=one[1]))
    return found


def set_quota_provider(scribe: Scribe, command: cmd.SetQuotaProvider) -> None:
    if scribe.cluster.accounts.provider != command.provider:
        scribe.emit(ev.QuotaProviderSet(provider=command.provider))


def see_quotas(scribe: Scribe, command: cmd.SeeQuotas) -> None:
    """Put on record what is new; when it was asked last is no news."""
    known, provider = scribe.cluster.accounts.outer, scribe.cluster.accounts.provider
    new = []
    for outer in command.outers:
        before = known.get(outer.project) or Outer(outer.project, provider)
        # What is to be set there may have changed since the provider was asked.
        seen = replace(outer, asked=before.asked)
        same = before.seen_s and replace(seen, seen_s=before.seen_s) == before
        if outer.provider == provider and not same:
            new.append(seen)
    gone = tuple(name for name in command.gone if name and name in known)
    if new or gone:
        scribe.emit(ev.QuotasSeen(outers=tuple(new), gone=gone))


def refuse_contradiction(quota: Quota) -> None:
    """A soft limit beyond the hard one could never be reached."""
    for name, (shown, unit) in _SHOWN.items():
        soft, hard = getattr(quota.soft, name), getattr(quota.hard, name)
        if soft is not None and hard is not None and soft > hard:
            why = f"{soft / unit:g} is more than the hard limit ({hard / unit:g})"
            raise Rejected.because(f"soft.{shown}", soft / unit, why)
