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
from rota.core.facts.tenant import NO_QUOTA, UNLIMITED
from rota.scheduling.limits.quota_rules import (
    UNBOUND,
    Binding,
    Bound,
    Dimension,
    Rule,
    RuleBook,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter, LaneKey
    from rota.core.facts.job import Attempt, Job, JobSpec
    from rota.core.facts.tenant import Limits, Quota
    from rota.scheduling.limits.quota_rules import Meter

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


class Part(NamedTuple):
    """What a running job would give back: all of it with its place, or some tasks."""

    job: Job
    amount: Amount
    whole: bool = True


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
        self._lends: bool | None = None
        #: Somebody asked for what is borrowed: from here on it is noted when that changes.
        self._is_asked = False
        #: Grows with whatever changes how much an account borrows.
        self.moves = 0
        #: Grows whenever an account begins to borrow or no longer does.
        self.turns = 0

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

    @property
    def lends(self) -> bool:
        """Whether any account may hold more than its own: else there is nothing to reclaim."""
        if self._lends is None:
            tables = (self._cluster.accounts.users, self._cluster.accounts.projects)
            quotas = [record.quota for table in tables for record in table.values()]
            self._lends = any(quota.borrow and quota.soft != UNLIMITED for quota in quotas)
        return self._lends

    def reclaimable(self, part: Part) -> bool:
        """Whether this is of what its account borrowed: it may be made to give it back."""
        return self._is_borrowed(self._of_job(part.job), part)

    def all_reclaimable(self, parts: Sequence[Part], gone: Sequence[Part] = ()) -> bool:
        """Whether all of these may be reclaimed one after the other, when others have gone.

        Its account must still borrow when it is the turn of a part. Each that goes leaves less
        borrowed for the next, so a part that can even be the last one is put last.
        """
        left = [(self._of_job(part.job), part) for part in parts]
        others = [(self._of_job(part.job), part) for part in gone]
        for bound, part in (*others, *left):
            self._depart(bound, part)
        while left:
            last = next((each for each in left if self._is_borrowed(*each, back=True)), None)
            if last is None:
                break
            left.remove(last)
            self._depart(*last, sign=-1)
        for bound, part in (*others, *left):
            self._depart(bound, part, sign=-1)
        return not left

    def _is_borrowed(self, bound: Bound, part: Part, *, back: bool = False) -> bool:
        """``back``: the part was taken off already, and counts as if it had not been."""
        if not bound.soft:
            return False
        self._is_asked = True
        wish = _wish(part.amount, part.whole)
        return any(
            wish[rule.at] and self._is_beyond(rule, wish[rule.at] if back else 0.0)
            for rule in bound.soft
        )

    def _is_beyond(self, rule: Rule, more: float = 0.0) -> bool:
        used = rule.meter.used[rule.at]
        if rule.at is Dimension.DEVICE_HOURS:
            return used >= rule.limit
        return used - self._leaving(rule.meter)[rule.at] + more > rule.limit

    def _leaving(self, meter: Meter) -> list[float]:
        """What of an account's holdings is on its way out, from what is known and decided."""
        if meter.leaving is None:
            meter.leaving = [0.0] * 5
            for counter in meter.counters:
                for number in self._cluster.census.active_in.get(counter, ()):
                    job = self._cluster.jobs[number]
                    live = job.live_attempts
                    going = [attempt for attempt in live if attempt.stop_cause is not None]
                    if going:
                        _add(meter.leaving, _sum(going), len(going) == len(live))
        return meter.leaving

    def take(self, key: LaneKey, amount: Amount, jobs: int = 1) -> None:
        """The pass gave this to a job of the lane."""
        bound = self._by_key.get(key) or self._of_key(key)
        before = self._borrowers(bound)
        for meter in bound.meters:
            _add(meter.used, amount, jobs)
        self._note(bound, before)

    def give_back(self, key: LaneKey, amount: Amount, jobs: int = 1) -> None:
        """What was taken in this pass is not taken after all."""
        for meter in (self._by_key.get(key) or self._of_key(key)).meters:
            _add(meter.used, amount, jobs, -1)

    def evict(self, part: Part) -> None:
        """A victim will give its room back.

        Until it has gone it counts against every ceiling; but no more need be reclaimed for it.
        """
        bound = self._of_job(part.job)
        before = self._borrowers(bound)
        self._depart(bound, part)
        self._note(bound, before)

    def _depart(self, bound: Bound, part: Part, sign: int = 1) -> None:
        for meter in bound.meters:
            _add(self._leaving(meter), part.amount, part.whole, sign)

    def _borrowers(self, bound: Bound) -> list[bool]:
        """Which limits are exceeded, as far as anybody has asked for that in this pass."""
        return [self._is_beyond(rule) for rule in bound.soft] if self._is_asked else []

    def _note(self, bound: Bound, before: list[bool]) -> None:
        if bound.soft:
            self.moves += 1
            self.turns += before != self._borrowers(bound)

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


def _add(used: list[float], amount: Amount, jobs: int, sign: int = 1) -> None:
    used[0] += sign * jobs
    used[1] += sign * amount.cpu_milli
    used[2] += sign * amount.memory_mib
    used[3] += sign * amount.device_milli


def held_by(job: Job) -> Amount:
    """What the live attempts of a job hold."""
    return _sum(job.live_attempts)


def _sum(attempts: Iterable[Attempt]) -> Amount:
    held = NOTHING
    for attempt in attempts:
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
