"""Caps and quotas during a pass: what an account may still take, and what it takes beyond its own.

Meters start from what the Cluster derives from live attempts and move with what the pass decides,
so that one pass cannot exceed a ceiling either. A project's quota binds all projects under it
together.

A hard limit is never exceeded. Beyond a soft one an account borrows, if its quota allows that:
the pass puts borrowers behind all who do not borrow (``borrowing``), and when somebody within his
own limits waits, jobs of accounts beyond theirs may be evicted for him (``reclaimable``).

A job that has its nodes to itself counts with all of them, so which nodes it may have depends on
its quotas (``short_of_node``).

A budget of device-hours is never overdrawn by what is known: a job that asks for devices starts if
what was used within the period, what running jobs may still use, and what it may use itself stay
within the budget. A job without a time limit is taken to run as long as the policy assumes; it is
not stopped when it runs for longer. Use is not recorded by type of job, so a budget in a limit by
type does not bind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.lanes import shape_of
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
    paid_s_of,
    project_chain,
    projects_below,
    quota_of,
)

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter, LaneKey, Shape
    from rota.core.facts.job import Job, JobSpec
    from rota.core.facts.node import NodeSpec
    from rota.core.facts.resources import Request
    from rota.core.facts.tenant import Limits, Quota

#: How a dimension is told: its unit, and how much of the stored number makes one.
_UNITS: dict[Dimension, tuple[str, float]] = {
    Dimension.JOBS: ("jobs", 1),
    Dimension.CPU_MILLI: ("CPUs", 1000),
    Dimension.MEMORY_MIB: ("GiB of memory", 1024),
    Dimension.DEVICE_MILLI: ("devices", 1000),
    Dimension.DEVICE_HOURS: ("device-hours", 1),
}


#: Hours are sums of rounded parts; all else is whole.
ROUNDED = 1e-6


class Short(NamedTuple):
    """A ceiling that a job does not fit under now."""

    #: Whose: ``user alice``, ``project vision``, ``queue side``, ``group g``.
    scope: str
    dimension: Dimension
    used: float
    wanted: float
    limit: float
    hard: bool
    #: Any of these opens when something is given back.
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
            return (
                f"{self.scope} has used or spoken for {used:.4g} of {limit:.4g} {unit}, "
                f"{wanted:.4g} wanted"
            )
        kind = "" if self.hard else " without borrowing"
        return f"{self.scope} holds {used:g} of at most {limit:g} {unit}{kind}, {wanted:g} wanted"


_Wish = tuple[float, float, float, float, float]


def _wish(amount: Amount, jobs: int, paid_s: float) -> _Wish:
    device = amount.device_milli
    return jobs, amount.cpu_milli, amount.memory_mib, device, device * paid_s / 3_600_000


def _add(used: list[float], wish: _Wish) -> None:
    used[0] += wish[0]
    used[1] += wish[1]
    used[2] += wish[2]
    used[3] += wish[3]
    used[4] += wish[4]


def _exceeds(rule: Rule, wish: _Wish) -> bool:
    """Whoever asks for nothing of a dimension is not kept waiting by it."""
    at = rule.at
    return bool(wish[at]) and rule.meter.used[at] + wish[at] > rule.limit + ROUNDED


class Quotas:
    """All ceilings during one pass. Where nothing is set, nothing is computed."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._cluster = cluster
        self._rules = cluster.policy.backfill
        self._book = RuleBook(cluster, now_s)
        self._by_key: dict[LaneKey, Bound] = {}
        self._bounds: dict[Binding, Bound] = {}

    def short(self, key: LaneKey, amount: Amount, jobs: int = 1) -> Short | None:
        """The first ceiling that this much more would pass; None: it may start."""
        firm = (self._by_key.get(key) or self._of_key(key)).firm
        if not firm:
            return None
        wish = self._wish(key, amount, jobs)
        for rule in firm:
            if _exceeds(rule, wish):
                return _short_of(rule, wish)
        return None

    def short_of_node(
        self, key: LaneKey, request: Request, node: NodeSpec, besides: Amount = NOTHING
    ) -> Short | None:
        """The ceiling that keeps a job from having a node to itself, besides what it has then."""
        if not (self._by_key.get(key) or self._of_key(key)).firm:
            return None
        return self.short(key, besides.plus(node.kept_by(request.amount)))

    def shorts(self, key: LaneKey, amount: Amount, jobs: int = 1) -> list[Short]:
        """Every ceiling that this much more would pass, for explanations."""
        wish = self._wish(key, amount, jobs)
        bound = self._by_key.get(key) or self._of_key(key)
        return [_short_of(rule, wish) for rule in bound.firm if _exceeds(rule, wish)]

    def borrowing(self, key: LaneKey, amount: Amount, jobs: int = 1) -> bool:
        """Whether this much more would pass a soft limit: it comes after those within theirs."""
        soft = (self._by_key.get(key) or self._of_key(key)).soft
        if not soft:
            return False
        wish = self._wish(key, amount, jobs)
        return any(_exceeds(rule, wish) for rule in soft)

    def reclaimable(self, job: Job) -> bool:
        """Whether a running job holds what its account borrowed: it may be made to give it back."""
        soft = self._of_job(job).soft
        if not soft:
            return False
        wish = _wish(held_by(self._cluster, job), 1, 1.0)
        return any(wish[rule.at] and _beyond(rule) for rule in soft)

    def take(self, key: LaneKey, amount: Amount, jobs: int = 1) -> None:
        """The pass gave this to a job of the lane."""
        bound = self._by_key.get(key) or self._of_key(key)
        if not bound.meters:
            return
        wish = self._wish(key, amount, jobs)
        for meter in bound.meters:
            _add(meter.used, wish)

    def evict(self, job: Job, amount: Amount | None = None) -> None:
        """A victim will give its room back: all of it and its place, or (elastic) an amount.

        Until it has gone it counts against every ceiling; but no more need be reclaimed for it.
        """
        held = held_by(self._cluster, job) if amount is None else amount
        # What it has used of a budget does not come back.
        wish = _wish(held, amount is None, 0.0)
        for meter in self._of_job(job).meters:
            _add(meter.leaving, wish)

    def _wish(self, key: LaneKey, amount: Amount, jobs: int) -> _Wish:
        paid_s = paid_s_of(key, self._rules) if amount.device_milli else 0.0
        return _wish(amount, jobs, paid_s)

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
    used, wanted, counters = rule.meter.used[rule.at], wish[rule.at], rule.meter.counters
    again_s = rule.meter.again_s(used + wanted - rule.limit)
    return Short(rule.scope, rule.at, used, wanted, rule.limit, rule.hard, counters, again_s)


def _beyond(rule: Rule) -> bool:
    return rule.meter.used[rule.at] - rule.meter.leaving[rule.at] > rule.limit


def held_by(cluster: Cluster, job: Job) -> Amount:
    """What the live attempts of a job keep from others."""
    held = NOTHING
    for attempt in job.live_attempts:
        held = held.plus(cluster.holdings.count_of(attempt).kept)
    return held


def least_of(shape: Shape) -> Amount:
    """What a job holds at the least when it starts: an elastic one has its fewest tasks then.

    What it keeps from others beyond that, on nodes of its own, depends on the nodes.
    """
    least = NOTHING
    for role in shape.roles:
        least = least.plus(role.request.amount, shape.least_tasks(role))
    return least


def _whole_nodes(cluster: Cluster, shape: Shape) -> list[Amount]:
    """What a job that has its nodes to itself keeps from others with each of those that suit."""
    given, only = max((role.request.amount for role in shape.roles), key=_size), shape.placement
    return [
        node.spec.kept_by(given)
        for name, node in cluster.nodes.items()
        if (not only.nodes or name in only.nodes)
        and name not in only.exclude
        and node.spec.cpu_milli >= given.cpu_milli
        and node.spec.memory_mib >= given.memory_mib
        and 1000 * len(node.spec.devices) >= given.device_milli
    ]


def _size(amount: Amount) -> tuple[int, int]:
    return amount.cpu_milli, amount.device_milli


def least_on(cluster: Cluster, shape: Shape) -> Amount:
    """The same on the nodes that there are: in no dimension can a start hold less."""
    least = least_of(shape)
    wholes = _whole_nodes(cluster, shape) if shape.placement.exclusive else []
    if not wholes:
        return least
    return Amount(
        max(least.cpu_milli, min(whole.cpu_milli for whole in wholes)),
        max(least.memory_mib, min(whole.memory_mib for whole in wholes)),
        max(least.disk_mib, min(whole.disk_mib for whole in wholes)),
        max(least.device_milli, min(whole.device_milli for whole in wholes)),
    )


def refuse_over_quota(cluster: Cluster, spec: JobSpec, count: int = 1) -> None:
    """Refuse what a quota can never allow, and more waiting jobs than it allows.

    ``count`` is the number of jobs, elements of an array each; a batch counts what it brings.
    """
    user, project = spec.user, spec.project
    quotas: list[tuple[str, Quota, list[str]]] = []
    own = quota_of(cluster, user)
    if own != NO_QUOTA:
        quotas.append((f"user {user}", own, []))
    for name in project_chain(cluster, project):
        quota = cluster.projects[name].quota
        if quota != NO_QUOTA:
            quotas.append((f"project {name}", quota, projects_below(cluster, name)))
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
        waiting = sum(cluster.waiting.get(counter) for counter in counters)
        if waiting + count > limits.queued:
            allowed = f"{scope} may have {limits.queued} jobs waiting and has {waiting}"
            raise Conflict(
                f"quota: {count} more is not allowed; {allowed}",
                field="quota",
                value=count,
                allowed=allowed,
            )
    shape = shape_of(spec, cluster.policy.gang.partial)
    least = least_of(shape)
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
    if spec.placement.exclusive:
        _refuse_nodes(cluster, shape, scope, limits)
    paid_s = paid_s_of(spec, cluster.policy.backfill)
    hours = _wish(least, 1, paid_s)[Dimension.DEVICE_HOURS]
    if limits.device_hours is not None and hours > limits.device_hours:
        assumed = "" if spec.time_limit_s else ", as no time limit is named"
        raise Rejected.bad(
            "resources.gpus",
            f"{least.device_milli / 1000:g} for {paid_s / 3600:.4g} hours{assumed}",
            f"{scope} has {limits.device_hours:.4g} device-hours to spend",
        )


def _refuse_nodes(cluster: Cluster, shape: Shape, scope: str, limits: Limits) -> None:
    """A job that has its nodes to itself may find only nodes that are larger than its quota."""
    wholes = _whole_nodes(cluster, shape)
    if not wholes or any(_fits(whole, limits) for whole in wholes):
        return
    least = min(wholes, key=_size)
    words = f"{least.cpu_milli / 1000:g} CPUs and {least.device_milli / 1000:g} devices"
    raise Rejected.bad(
        "exclusive",
        "true",
        f"{scope} may not hold a whole node: the smallest that suits has {words}",
    )


def _fits(whole: Amount, limits: Limits) -> bool:
    pairs = (
        (whole.cpu_milli, limits.cpu_milli),
        (whole.memory_mib, limits.memory_mib),
        (whole.device_milli, limits.device_milli),
    )
    return all(limit is None or kept <= limit for kept, limit in pairs)
