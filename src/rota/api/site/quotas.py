"""Quotas: how limits are shown and changed, and the older routes of a project's quota."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import get, patch, post
from msgspec import UNSET

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.mib import ShowsMib
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import (
    LimitsRequest,
    ProjectQuotaPatch,
    QuotaQuestion,
    QuotaRequest,
)
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.site.project_quotas import ProjectQuotas
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import SetProject
from rota.core.facts.errors import NotFound, Rejected
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.site.outer import Outer
from rota.core.facts.tenant import NO_QUOTA, UNLIMITED, Limits, Project, Quota
from rota.quotas.api import ProjectResources

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.cluster import Cluster
    from rota.quotas.api import QuotaInfo

_question = Body(QuotaQuestion)
_patch = Body(ProjectQuotaPatch)
TYPES = ("training", "inference", "workflow")
#: A quota that is switched on without any limit.
USUAL = Quota(hard=Limits(jobs=50, cpu_milli=100_000, memory_mib=500 * 1024, device_milli=10_000))
#: Field of a request -> field of the limits, and what one unit is there.
_FIELDS = {
    "jobs": ("jobs", 1),
    "queued": ("queued", 1),
    "cpus": ("cpu_milli", 1000),
    "memory_mb": ("memory_mib", 1),
    "gpus": ("device_milli", 1000),
    "gpu_hours": ("device_hours", 1),
    "cost": ("cost", 1),
}


class LimitsView(ShowsMib, msgspec.Struct, frozen=True):
    """Ceilings; null: none."""

    jobs: int | None
    queued: int | None
    cpus: float | None
    memory_mb: int | None
    gpus: float | None
    gpu_hours: float | None
    cost: float | None
    memory_mib: int | None = None


class AllLimitsView(msgspec.Struct, frozen=True):
    """A quota: hard limits, soft ones, and hard ones by type of job."""

    hard: LimitsView
    soft: LimitsView
    types: dict[str, LimitsView]
    borrow: bool
    period_s: int


class UseView(msgspec.Struct):
    """One resource; ``limit``, ``available`` and ``percent`` are null where there is no quota."""

    limit: float | None
    used: float
    available: float | None
    percent: float | None


class ThereView(msgspec.Struct):
    """What the provider says of one resource: its own limit, and all that it counts."""

    limit: float | None
    used: float


class OuterView(msgspec.Struct):
    """A quota that another program enforces, as it said last."""

    cpu: ThereView
    memory_gb: ThereView
    gpu: ThereView


class ProviderView(msgspec.Struct, kw_only=True):
    """Who has the quota, and how far Rota and it agree."""

    provider: str
    #: When the provider last told; null: it never has, and nothing may start.
    synced_at: Moment | None
    #: Where Rota and the provider differ, in sentences.
    drift: list[str]
    #: Something that people must know of it; empty: nothing.
    warning: str


class QuotaView(ProviderView, kw_only=True):
    """Limits are the lower ones of Rota and the provider; use is all that counts against them."""

    project_id: str
    enforce_quota: bool
    cpu: UseView
    memory_gb: UseView
    gpu: UseView
    jobs: UseView
    job_types: dict[str, UseView]
    outer: OuterView | None


class AllowedView(msgspec.Struct):
    """Whether a job could start as far as quotas go, and if not, which one is in its way."""

    allowed: bool
    reason: str


def limits_view(limits: Limits) -> LimitsView:
    def scaled(amount: int | None) -> float | None:
        return None if amount is None else amount / 1000

    return LimitsView(
        jobs=limits.jobs,
        queued=limits.queued,
        cpus=scaled(limits.cpu_milli),
        memory_mb=limits.memory_mib,
        gpus=scaled(limits.device_milli),
        gpu_hours=limits.device_hours,
        cost=limits.cost,
    )


def quota_view(quota: Quota) -> AllLimitsView:
    return AllLimitsView(
        hard=limits_view(quota.hard),
        soft=limits_view(quota.soft),
        types={name: limits_view(limits) for name, limits in sorted(quota.types.items())},
        borrow=quota.borrow,
        period_s=quota.period_s,
    )


def changed_limits(now: Limits, asked: LimitsRequest) -> Limits:
    """What is named is replaced; null takes a ceiling away."""
    changes: dict[str, Any] = {}
    for field, (name, unit) in _FIELDS.items():
        value = getattr(asked, field)
        if value is not UNSET:
            changes[name] = None if value is None else _scaled(field, value, unit)
    return msgspec.structs.replace(now, **changes)


def _scaled(field: str, value: float, unit: int) -> float:
    return value if field in ("gpu_hours", "cost") else round(value * unit)


def changed_quota(now: Quota, asked: QuotaRequest) -> Quota:
    types = dict(now.types)
    for name, limits in asked.types.items():
        if name not in TYPES:
            raise Rejected.bad("quota.types", name, "expected one of " + ", ".join(TYPES))
        if limits is None:
            types.pop(name, None)
        else:
            types[name] = changed_limits(types.get(name, UNLIMITED), limits)
    made = Quota(
        hard=changed_limits(now.hard, asked.hard),
        soft=changed_limits(now.soft, asked.soft),
        types={name: limits for name, limits in types.items() if limits != UNLIMITED},
        borrow=now.borrow if asked.borrow is None else asked.borrow,
        period_s=now.period_s if asked.period_s is None else asked.period_s,
    )
    return NO_QUOTA if made == NO_QUOTA else made


def written_quota(project: Project) -> Quota:
    """The limits on record, whether they are enforced or not."""
    return project.unenforced if project.unenforced != NO_QUOTA else project.quota


def with_quota(project: Project, quota: Quota, enforced: bool | None) -> Project:
    """The project with these limits, switched on or off (None: as it is)."""
    on = project.unenforced == NO_QUOTA if enforced is None else enforced
    return msgspec.structs.replace(
        project, quota=quota if on else NO_QUOTA, unenforced=NO_QUOTA if on else quota
    )


def project_use(cluster: Cluster, project: str) -> tuple[Amount, int]:
    """What live attempts of a project and those below it hold, and how many jobs that is."""
    held, jobs = NOTHING, 0
    for name in cluster.accounts.below(project):
        held = held.plus(cluster.accounts.holdings.get(("project", name)))
        jobs += len(cluster.census.active_in.get(("project", name), ()))
    return held, jobs


@get(
    "/queues/quota/{project_id:str}",
    summary="What a project uses, against its quota",
    opt={"right": "read", "errors": (404,)},
)
async def show_quota(request: Asking, project_id: params.NamePath) -> QuotaView:
    """Counted from live attempts at this moment; a limit of null means that there is none."""
    return _quota(context_of(request), project_id)


@post(
    "/queues/quota/{project_id:str}/sync",
    summary="Bring a project's use up to date",
    opt={"right": "read", "errors": (404,)},
    status_code=200,
)
async def sync_quota(request: Asking, project_id: params.NamePath) -> QuotaView:
    """Asks the provider now. The local one counts live attempts, so it is never out of date."""
    context = context_of(request)
    if context.quotas is not None:
        await context.quotas.look()
    return _quota(context, project_id)


@post(
    "/queues/quota/{project_id:str}/check",
    summary="Whether a project may use a further amount now",
    opt={"right": "read", "body": QuotaQuestion},
    status_code=200,
)
async def check_quota(request: Asking, project_id: params.NamePath) -> AllowedView:
    """By the rules of every pass: the project's quota, those above it, and the provider's.

    Nothing is kept for the asker. Limits of users and queues are not looked at.
    """
    asked: QuotaQuestion = await body_of(request, _question)
    wanted = ProjectResources(asked.cpu, asked.memory_gb, asked.gpu)
    reason = provider_of(context_of(request)).shortage(project_id, wanted, asked.job_type)
    return AllowedView(not reason, reason)


@patch(
    "/queues/quota/{project_id:str}",
    summary="Change a project's quota",
    opt={"right": "operate", "body": ProjectQuotaPatch, "errors": (404, 429, 503)},
)
async def set_quota(request: Asking, project_id: params.NamePath) -> QuotaView:
    """Makes the project if there is none; null takes a limit away.

    One that is switched on without any limit has the usual ones: 100 CPUs, 500 GB, 10 GPUs and 50
    jobs at once.
    """
    asked: ProjectQuotaPatch = await body_of(request, _patch)
    host = context_of(request).host
    known = host.cluster.accounts.projects.get(project_id)
    project = known or Project(checks.word("name", project_id))
    memory = asked.memory_quota
    limits = LimitsRequest(
        cpus=asked.cpu_quota,
        memory_mb=round(memory * 1024) if isinstance(memory, float) else memory,
        gpus=asked.gpu_quota,
        jobs=asked.max_concurrent_jobs,
    )
    types = {
        name: None if jobs is None else LimitsRequest(jobs=jobs)
        for name, jobs in asked.job_types.items()
    }
    quota = changed_quota(written_quota(project), QuotaRequest(hard=limits, types=types))
    if asked.enforce_quota and quota == NO_QUOTA:
        quota = USUAL
    made = with_quota(project, quota, asked.enforce_quota)
    await set_everywhere(request, made)
    return _quota(context_of(request), project_id)


async def set_everywhere(request: Asking, project: Project) -> None:
    """On record first; then at the provider. One that is away gets it when it is back."""
    context = context_of(request)
    await context.host.ask(SetProject(actor=actor_of(request), project=project))
    if context.quotas is not None:
        await context.quotas.look(push=project.name)


def provider_of(context: Context) -> ProjectQuotas:
    """Made for each question: a host that had to begin again has another Cluster."""
    return ProjectQuotas(context.host.cluster, context.host.clock.now_s())


def provider_view(context: Context, project: str) -> ProviderView:
    """How a project's quota stands with its provider; Rota's own is always of this moment."""
    sync = context.quotas
    if sync is None:
        now = when(context.host.clock.now_s())
        return ProviderView(provider="local", synced_at=now, drift=[], warning="")
    return ProviderView(
        provider=sync.standing.provider,
        synced_at=when(sync.synced_s(project)),
        drift=sync.drift(project),
        warning=sync.warning(project),
    )


def _quota(context: Context, name: str) -> QuotaView:
    """Rota's limits are those on record, enforced or not."""
    cluster = context.host.cluster
    project = cluster.accounts.projects.get(name)
    if project is None and not _is_used(cluster, name):
        raise NotFound(f"there is no project {name}", field="project_id", value=name)
    quota = written_quota(project) if project is not None else NO_QUOTA
    standing = provider_view(context, name)
    outer = cluster.accounts.outer.get(name, Outer(name, ""))
    there = provider_of(context).get_quota(name) if outer.seen_s else None
    held, jobs = project_use(cluster, name)
    used, both = held.plus(outer.foreign), least(quota.hard, outer.limits)
    limits = limits_view(both)
    memory_gb = None if limits.memory_mb is None else limits.memory_mb / 1024
    return QuotaView(
        project_id=name,
        provider=standing.provider,
        enforce_quota=project is not None and project.quota != NO_QUOTA,
        synced_at=standing.synced_at,
        drift=standing.drift,
        warning=standing.warning,
        cpu=use_view(limits.cpus, used.cpu_milli / 1000),
        memory_gb=use_view(memory_gb, used.memory_mib / 1024),
        gpu=use_view(limits.gpus, used.device_milli / 1000),
        jobs=use_view(limits.jobs, jobs),
        job_types={
            kind: use_view(limits.jobs, _jobs_of_type(cluster, name, kind))
            for kind, limits in sorted(quota.types.items())
        },
        outer=None if there is None else _outer_view(there),
    )


def least(own: Limits, there: Limits) -> Limits:
    """Both bind."""
    fields = ("cpu_milli", "memory_mib", "device_milli")
    pairs = {field: (getattr(own, field), getattr(there, field)) for field in fields}
    lower = {
        field: min((value for value in pair if value is not None), default=None)
        for field, pair in pairs.items()
    }
    return msgspec.structs.replace(own, **lower)


def _outer_view(info: QuotaInfo) -> OuterView:
    def there(limit: float, used: float) -> ThereView:
        return ThereView(None if isinf(limit) else limit, used)

    limits, used = info.limits, info.used
    return OuterView(
        cpu=there(limits.cpu, used.cpu),
        memory_gb=there(limits.memory_gb, used.memory_gb),
        gpu=there(limits.gpu, used.gpu),
    )


def _is_used(cluster: Cluster, name: str) -> bool:
    specs = [job.spec for job in cluster.jobs.values()]
    specs += [array.spec for array in cluster.arrays.values()]
    return any(spec.project == name for spec in specs)


def _jobs_of_type(cluster: Cluster, project: str, kind: str) -> int:
    return sum(
        len(cluster.census.active_in.get(("type", f"{name}\n{kind}"), ()))
        for name in cluster.accounts.below(project)
    )


def use_view(limit: float | None, used: float) -> UseView:
    if limit is None:
        return UseView(None, used, None, None)
    percent = round(100 * used / limit, 1) if limit else (100.0 if used else 0.0)
    return UseView(limit, used, max(0.0, limit - used), percent)


ROUTES = [show_quota, sync_quota, check_quota, set_quota]
