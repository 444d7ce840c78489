"""What a submit is refused for: more than a quota can ever allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.holdings import least_of
from rota.core.derived.lanes import shape_of
from rota.core.facts.errors import Conflict, Rejected
from rota.core.facts.tenant import NO_QUOTA
from rota.core.words.units import counted
from rota.scheduling.limits.least import size_of, whole_nodes
from rota.scheduling.limits.licenses import refuse_licenses
from rota.scheduling.limits.quota import UNITS, wish_of
from rota.scheduling.limits.quota_rules import Dimension, counters_of, paid_s_of

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape
    from rota.core.facts.job import JobSpec
    from rota.core.facts.resources import Amount
    from rota.core.facts.tenant import Limits, Quota
    from rota.scheduling.limits.quota_rules import Counters


def refuse_over_quota(cluster: Cluster, spec: JobSpec, count: int = 1) -> None:
    """Refuse what a quota can never allow, licences that there are not, and too many jobs.

    ``count`` is the number of jobs, elements of an array each; a batch counts what it brings.
    """
    refuse_licenses(cluster, spec)
    user, project = spec.user, spec.project
    quotas: list[tuple[str, Quota, list[str]]] = []
    own = cluster.accounts.quota_of(user)
    if own != NO_QUOTA:
        quotas.append((f"user {user}", own, []))
    for name in cluster.accounts.chain(project):
        quota = cluster.accounts.projects[name].quota
        if quota != NO_QUOTA:
            quotas.append((f"project {name}", quota, cluster.accounts.below(name)))
    for scope, quota, below in quotas:
        whole, typed = counters_of(user, below, spec.type)
        _refuse(cluster, spec, count, scope, quota.hard, whole)
        if not quota.borrow:
            _refuse(cluster, spec, count, scope, quota.soft, whole)
        if spec.type in quota.types:
            limits = quota.types[spec.type]
            _refuse(cluster, spec, count, f"{scope} for {spec.type}", limits, typed)


def _refuse(
    cluster: Cluster,
    spec: JobSpec,
    count: int,
    scope: str,
    limits: Limits,
    counters: Counters,
) -> None:
    if limits.queued is not None:
        waiting = sum(cluster.accounts.waiting.get(counter) for counter in counters)
        if waiting + count > limits.queued:
            allowed = f"{scope} may have {counted(limits.queued, 'jobs')} waiting and has {waiting}"
            text = f"quota: {count} more is not allowed; {allowed}"
            raise Conflict(text, field="quota", value=count, allowed=allowed)
    shape = shape_of(spec, cluster.policy.gang.partial)
    least = least_of(shape)
    checks = (
        ("tasks", 1, limits.jobs, Dimension.JOBS),
        ("resources.cpus", least.cpu_milli, limits.cpu_milli, Dimension.CPU_MILLI),
        ("resources.memory_mib", least.memory_mib, limits.memory_mib, Dimension.MEMORY_MIB),
        ("resources.gpus", least.device_milli, limits.device_milli, Dimension.DEVICE_MILLI),
    )
    for field, wanted, limit, dimension in checks:
        if limit is not None and wanted > limit:
            unit, size = UNITS[dimension]
            verb = "run" if dimension is Dimension.JOBS else "hold"
            allowed = f"{scope} may {verb} at most {counted(limit / size, unit)}"
            detail = f"{field}: {wanted / size:g} asked for, but {allowed}"
            # Memory is shown in GiB, and asked for in MiB.
            value = wanted if dimension is Dimension.MEMORY_MIB else wanted / size
            raise Rejected(detail, field=field, value=value, allowed=allowed)
    if spec.placement.exclusive:
        _refuse_nodes(cluster, shape, scope, limits)
    paid_s = paid_s_of(spec, cluster.policy.backfill)
    hours = wish_of(least, 1, paid_s)[Dimension.DEVICE_HOURS]
    if limits.device_hours is not None and hours > limits.device_hours:
        assumed = "" if spec.time_limit_s else ", as no time limit is named"
        asked = f"{least.device_milli / 1000:g} for {paid_s / 3600:.4g} hours{assumed}"
        why = f"{asked}: {scope} has {limits.device_hours:.4g} device-hours to spend"
        raise Rejected.because("resources.gpus", asked, why)


def _refuse_nodes(cluster: Cluster, shape: Shape, scope: str, limits: Limits) -> None:
    """A job that has its nodes to itself may find only nodes that are larger than its quota."""
    wholes = whole_nodes(cluster, shape)
    if not wholes or any(_fits(whole, limits) for whole in wholes):
        return
    least = min(wholes, key=size_of)
    devices = counted(least.device_milli / 1000, "devices")
    words = f"{counted(least.cpu_milli / 1000, 'CPUs')} and {devices}"
    allowed = f"{scope} may not hold a whole node: the smallest that suits has {words}"
    raise Rejected.because("exclusive", "true", allowed)


def _fits(whole: Amount, limits: Limits) -> bool:
    fields = ("cpu_milli", "memory_mib", "device_milli")
    pairs = [(getattr(whole, field), getattr(limits, field)) for field in fields]
    return all(limit is None or kept <= limit for kept, limit in pairs)
