"""Caps and quotas during a pass: what an account may still take, and what it takes beyond its own.

Meters start from what the Cluster derives from live attempts and move with what the pass decides,
so that one pass cannot exceed a ceiling either. A project's quota binds all projects under it
together.

A hard limit is never exceeded. Beyond a soft one an account borrows, if its quota allows that:
the pass puts borrowers behind all who do not borrow (``borrowing``), and when somebody within his
own limits waits, jobs of accounts beyond theirs may be evicted for him (``reclaimable``).

A budget of device-hours looks back: a job that asks for devices starts while less than the budget
was used within the period, running jobs included, and is not stopped when it runs out. Use is not
recorded by type of job, so a budget in a limit by type does not bind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.holdings import amount_of
from rota.core.facts.errors import Conflict, Rejected
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.tenant import NO_QUOTA
from rota.scheduling.limits.quota_rules import (
    UNBOUND,
    Binding,
    Bound,
    Dimension,
    Rule,
    RuleBook,
)

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter, LaneKey
    from rota.core.facts.job import Job, JobSpec
    from rota.core.facts.tenant import Limits, Quota

#: How a dimension is told: its unit, and how much of the stored number makes one.
_UNITS: dict[Dimension, tuple[str, float]] = {
    Dimension.JOBS: ("jobs", 1),
    Dimension.CPU_MILLI: ("CPUs", 1000),
    Dimension.MEMORY_MIB: ("GiB of memory", 1024),
    Dimension.DEVICE_MILLI: ("devices", 1000),
    Dimension.DEVICE_HOURS: ("device-hours", 1),
}


class Short(NamedTuple):
    """A ceiling that a job does not fit under now."""

    #: Whose: ``user alice``, ``project vision``, ``queue side``, ``group g``.
    scope: str
    dimension: Dimension
    used: float
    wanted: float
    limit: float
    hard: bool
    #: Any of these opens when something is given back; empty for a budget.
    counters: tuple[Counter, ...]
    #: When time alone may have helped; 0: it does not.
    again_s: float = 0.0

    @property
    def missing(self) -> float:
        """How much higher the ceiling would have to be."""
        return self.used + self.wanted - self.limit

    def __str__(self) -> str:
        if self.dimension is Dimension.JOBS:
            return f"{self.scope} runs {self.used:g} of at most {self.limit:g}"
        unit, size = _UNITS[self.dimension]
        used, limit, wanted = (n / size for n in (self.used, self.limit, self.wanted))
        if self.dimension is Dimension.DEVICE_HOURS:
            return f"{self.scope} has used {used:.4g} of {limit:.4g} {unit}"
        kind = "" if self.hard else " without borrowing"
        return f"{self.scope} holds {used:g} of at most {limit:g} {unit}{kind}, {wanted:g} wanted"


_Wish = tuple[float, float, float, float, float]


def _wish(amount: Amount, jobs: int) -> _Wish:
    device = amount.device_milli
    # A budget is asked by anybody who wants a device, whatever the number.
    return jobs, amount.cpu_milli, amount.memory_mib, device, float(device > 0)


def _exceeds(rule: Rule, wish: _Wish) -> bool:
    """Whoever asks for nothing of a dimension is not kept waiting by it."""
    at = rule.at
    if not wish[at]:
        return False
    if at is Dimension.DEVICE_HOURS:
        return rule.meter.used[at] >= rule.limit
    return rule.meter.used[at] + wish[at] > rule.limit


class Quotas:
    """All ceilings during one pass. Where nothing is set, nothing is computed."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._cluster = cluster
        self._book = RuleBook(cluster, now_s)
        self._by_key: dict[LaneKey, Bound] = {}
        self._bounds: dict[Binding, Bound] = {}

    def short(self, key: LaneKey, amount: Amount, jobs: int = 1) -> Short | None:
        """The first ceiling that this much more would pass; None: it may start."""
        firm = (self._by_key.get(key) or self._of_key(key)).firm
        if not firm:
            return None
        wish = _wish(amount, jobs)
        for rule in firm:
            if _exceeds(rule, wish):
                return _short_of(rule, wish)
        return None

    def shorts(self, key: LaneKey, amount: Amount, jobs: int = 1) -> list[Short]:
        """Every ceiling that this much more would pass, for explanations."""
        wish = _wish(amount, jobs)
        bound = self._by_key.get(key) or self._of_key(key)
        return [_short_of(rule, wish) for rule in bound.firm if _exceeds(rule, wish)]

    def borrowing(self, key: LaneKey, amount: Amount, jobs: int = 1) -> bool:
        """Whether this much more would pass a soft limit: it comes after those within theirs."""
        soft = (self._by_key.get(key) or self._of_key(key)).soft
        if not soft:
            return False
        wish = _wish(amount, jobs)
        return any(_exceeds(rule, wish) for rule in soft)

    def reclaimable(self, job: Job) -> bool:
        """Whether a running job holds what its account borrowed: it may be made to give it back."""
        soft = self._of_job(job).soft
        if not soft:
            return False
        wish = _wish(held_by(job), 1)
        return any(wish[rule.at] and _beyond(rule) for rule in soft)

    def take(self, key: LaneKey, amount: Amount, jobs: int = 1) -> None:
        """The pass gave this to a job of the lane."""
        _shift(self._by_key.get(key) or self._of_key(key), amount, jobs)

    def give_back(self, key: LaneKey, amount: Amount, jobs: int = 1) -> None:
        """What was taken in this pass is not taken after all."""
        _shift(self._by_key.get(key) or self._of_key(key), amount, jobs, -1)

    def evict(self, job: Job, amount: Amount | None = None) -> None:
        """A victim will give its room back: all of it and its place, or (elastic) an amount.

        Until it has gone it counts against every ceiling; but no more need be reclaimed for it.
        """
        held = held_by(job) if amount is None else amount
        _shift(self._of_job(job), held, amount is None, leaving=True)

    def restore(self, job: Job, amount: Amount | None = None) -> None:
        """The opposite of ``evict``, for a plan that was dropped."""
        held = held_by(job) if amount is None else amount
        _shift(self._of_job(job), held, amount is None, -1, leaving=True)

    def _of_key(self, key: LaneKey) -> Bound:
        bound = UNBOUND
        if (
            key.group
            or key.capped_array
            or not self._book.leaves_free(key.queue, key.user, key.project)
        ):
            bound = self._bound(
                Binding(key.queue, key.group, key.capped_array, key.user, key.project, key.type)
            )
        self._by_key[key] = bound
        return bound

    def _of_job(self, job: Job) -> Bound:
        spec = job.spec
        array = self._cluster.arrays.get(job.array_id)
        capped = job.array_id if array is not None and array.cap else 0
        return self._bound(
            Binding(spec.queue, spec.group, capped, spec.user, spec.project, spec.type)
        )

    def _bound(self, binding: Binding) -> Bound:
        bound = self._bounds.get(binding)
        if bound is None:
            bound = self._bounds[binding] = self._book.bind(binding)
        return bound


def _short_of(rule: Rule, wish: _Wish) -> Short:
    wanted = 0.0 if rule.at is Dimension.DEVICE_HOURS else wish[rule.at]
    meter = rule.meter
    return Short(
        rule.scope,
        rule.at,
        meter.used[rule.at],
        wanted,
        rule.limit,
        rule.hard,
        meter.counters,
        rule.again_s,
    )


def _beyond(rule: Rule) -> bool:
    used = rule.meter.used[rule.at] - rule.meter.leaving[rule.at]
    return used >= rule.limit if rule.at is Dimension.DEVICE_HOURS else used > rule.limit


def _shift(
    bound: Bound, amount: Amount, jobs: int, sign: int = 1, *, leaving: bool = False
) -> None:
    for meter in bound.meters:
        used = meter.leaving if leaving else meter.used
        used[0] += sign * jobs
        used[1] += sign * amount.cpu_milli
        used[2] += sign * amount.memory_mib
        used[3] += sign * amount.device_milli


def held_by(job: Job) -> Amount:
    """What the live attempts of a job hold."""
    held = NOTHING
    for attempt in job.live_attempts:
        held = held.plus(amount_of(attempt.allocation))
    return held


def least_of(spec: JobSpec) -> Amount:
    """What a job needs to start at all: an elastic one starts with its fewest members."""
    least = NOTHING
    for role in spec.roles:
        request = role.request
        one = Amount(
            request.cpu_milli, request.memory_mib, request.disk_mib, request.device_use_milli
        )
        least = least.plus(one, role.min_count or role.count)
    return least


def refuse_over_quota(cluster: Cluster, spec: JobSpec, count: int = 1) -> None:
    """Refuse what a quota can never allow, and more waiting jobs than it allows.

    ``count`` is the number of jobs, elements of an array each; a batch counts what it brings.
    """
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
        whole: list[Counter] = [("project", name) for name in below] or [("user", user)]
        typed: list[Counter] = [("type", f"{name}\n{spec.type}") for name in below]
        _refuse(cluster, spec, count, scope, quota.hard, whole)
        if not quota.borrow:
            _refuse(cluster, spec, count, scope, quota.soft, whole)
        if spec.type in quota.types:
            typed = typed or [("user type", f"{user}\n{spec.type}")]
            limits = quota.types[spec.type]
            _refuse(cluster, spec, count, f"{scope} for {spec.type}", limits, typed)


def _refuse(
    cluster: Cluster,
    spec: JobSpec,
    count: int,
    scope: str,
    limits: Limits,
    counters: list[Counter],
) -> None:
    if limits.queued is not None:
        waiting = sum(cluster.accounts.waiting.get(counter) for counter in counters)
        if waiting + count > limits.queued:
            allowed = f"{scope} may have {limits.queued} jobs waiting and has {waiting}"
            raise Conflict(
                f"quota: {count} more is not allowed; {allowed}",
                field="quota",
                value=count,
                allowed=allowed,
            )
    least = least_of(spec)
    checks = (
        ("tasks", 1, limits.jobs, Dimension.JOBS),
        ("resources.cpus", least.cpu_milli, limits.cpu_milli, Dimension.CPU_MILLI),
        ("resources.memory", least.memory_mib, limits.memory_mib, Dimension.MEMORY_MIB),
        ("resources.gpus", least.device_milli, limits.device_milli, Dimension.DEVICE_MILLI),
    )
    for field, wanted, limit, dimension in checks:
        if limit is not None and wanted > limit:
            unit, size = _UNITS[dimension]
            verb = "run" if dimension is Dimension.JOBS else "hold"
            raise Rejected.bad(
                field, f"{wanted / size:g}", f"{scope} may {verb} at most {limit / size:g} {unit}"
            )
    if limits.device_hours is not None and limits.device_hours <= 0 and least.device_milli:
        raise Rejected.bad(
            "resources.gpus",
            f"{least.device_milli / 1000:g}",
            f"{scope} has no device-hours to spend",
        )
