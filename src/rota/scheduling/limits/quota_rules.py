"""The rules that bind a job: each is a ceiling in one dimension on what an account holds.

``RuleBook`` finds them for a job and keeps one meter per account, so that all rules on an account
see the same sums, and what a pass decides counts for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.holdings import price_of, uncharged_s
from rota.core.derived.usage import DAY_S
from rota.core.facts.policy import Estimates
from rota.core.facts.tenant import NO_QUOTA, UNLIMITED, Quota

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.holdings import Count
    from rota.core.derived.lanes import Counter, LaneKey
    from rota.core.facts.job import Attempt, JobSpec
    from rota.core.facts.policy import BackfillRules
    from rota.core.facts.tenant import Limits


class Dimension(IntEnum):
    """What is limited; also the place in a meter and in a wish."""

    JOBS = 0
    CPU_MILLI = 1
    MEMORY_MIB = 2
    DEVICE_MILLI = 3
    #: These and all that follow are spent, not held.
    DEVICE_HOURS = 4
    COST = 5


@dataclass(slots=True)
class Meter:
    """What an account (or a queue, a group, an array) holds now, what the pass gave included."""

    #: Opened when something of it is given back.
    counters: tuple[Counter, ...]
    used: list[float] = field(default_factory=lambda: [0.0] * len(Dimension))
    #: Of it: what its holders still have and are giving back; None: it was not asked for yet.
    leaving: list[float] | None = None
    #: Of a budget: what time alone gives back, and when, in order.
    back: list[tuple[float, float]] = field(default_factory=list)

    def again_s(self, missing: float) -> float:
        """When time alone may have given back what is missing; 0: never."""
        when_s = 0.0
        for at_s, hours in self.back:
            when_s = at_s
            missing -= hours
            if missing <= 0:
                break
        return when_s


class QuotaCeiling(NamedTuple):
    """A ceiling. ``hard`` tells of what kind the limit is, not whether it binds."""

    scope: str
    at: Dimension
    limit: float
    hard: bool
    meter: Meter
    #: Who has set it, where that is not Rota, and how much of it is used outside of Rota.
    provider: str = ""
    foreign: float = 0.0
    #: Why nothing may start at all, in words.
    note: str = ""


class JobBound(NamedTuple):
    """All that binds one kind of job."""

    #: Must hold: hard limits, caps, and soft limits that may not be borrowed beyond.
    firm: tuple[QuotaCeiling, ...]
    #: Soft limits that may be borrowed beyond.
    soft: tuple[QuotaCeiling, ...]
    meters: tuple[Meter, ...]


UNBOUND = JobBound((), (), ())


class Binding(NamedTuple):
    """What decides which rules bind a job. Without a user: what binds any job of the project."""

    queue: str
    group: str
    capped_array: int
    user: str
    project: str
    type: str
    vdc: str = ""


def _is_none(quota: Quota) -> bool:
    return quota is NO_QUOTA or quota == NO_QUOTA


def paid_s_of(item: JobSpec | LaneKey, rules: BackfillRules, *, devices: bool = True) -> float:
    """How long a job may use what it has, for budgets: a limit holds, an estimate may not."""
    if item.time_limit_s:
        return float(item.time_limit_s)
    predicted_s = item.predicted_s if rules.estimates is Estimates.PREDICTED else 0
    assumed_s = rules.estimate_device_s if devices else rules.estimate_cpu_s
    return float(predicted_s or item.estimate_s or assumed_s)


Counters = tuple["Counter", ...]


def counters_of(user: str, below: Collection[str], kind: str) -> tuple[Counters, Counters]:
    """What counts under a user, or under a project and all below: in all, and of one type."""
    if not below:
        return (("user", user),), (("user type", f"{user}\n{kind}"),)
    return (
        tuple(("project", name) for name in below),
        tuple(("type", f"{name}\n{kind}") for name in below),
    )


class RuleBook:
    """Finds rules; made for one pass."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._meters: dict[tuple[str, str | int], Meter] = {}
        self._of_scope: dict[tuple[str, str], list[tuple[QuotaCeiling, bool]]] = {}
        self._free_queues: dict[str, bool] = {}
        self._below: dict[str, list[str]] | None = None

    def leaves_free(self, queue: str, user: str, project: str) -> bool:
        """Whether nothing can bind a job of these, beyond its group and its array."""
        free = self._free_queues.get(queue)
        if free is None:
            record = self._cluster.queues.get(queue)
            free = record is None or not (
                record.max_running or record.max_per_user or record.max_per_project
            )
            self._free_queues[queue] = free
        accounts = self._cluster.accounts
        outer = bool(accounts.outer and project)
        return (
            free
            and not outer
            and project not in accounts.projects
            and _is_none(accounts.quota_of(user))
        )

    def bind(self, binding: Binding) -> JobBound:
        rules = [
            *self._caps(binding),
            *self._quotas(binding),
            *self._outers(binding.user, binding.project),
        ]
        firm = tuple(rule for rule, lent in rules if not lent)
        soft = tuple(rule for rule, lent in rules if lent)
        meters = {id(rule.meter): rule.meter for rule, _ in rules}
        return JobBound(firm, soft, tuple(meters.values()))

    def _caps(self, binding: Binding) -> Iterator[tuple[QuotaCeiling, bool]]:
        """Caps on how many run at once, by queue, group and array."""
        cluster, name = self._cluster, binding.queue
        caps: list[tuple[str, Counter, int]] = []
        queue = cluster.queues.get(name)
        if queue is not None:
            user, project = binding.user, binding.project
            of_project = f"project {project or '(none)'} in queue {name}"
            caps = [
                (f"queue {name}", ("queue", name), queue.max_running),
                (f"{user} in queue {name}", ("queue user", f"{name}\n{user}"), queue.max_per_user),
                (of_project, ("queue project", f"{name}\n{project}"), queue.max_per_project),
            ]
        group = cluster.groups.get(binding.group)
        if group is not None:
            caps.append((f"group {group.name}", ("group", group.name), group.max_concurrent))
        array = cluster.arrays.get(binding.capped_array)
        if array is not None:
            caps.append((f"array {array.id}", ("array", array.id), array.cap))
        vdc = cluster.policy.vdc(binding.vdc) if binding.vdc else None
        if vdc is not None:
            whose = f"{vdc.name}\n{binding.user}"
            scope = f"{binding.user} in vdc {vdc.name}"
            caps.append((scope, ("vdc user", whose), vdc.max_per_user))
        for scope, counter, limit in caps:
            if limit:
                meter = self._meter(counter, (counter,))
                yield QuotaCeiling(scope, Dimension.JOBS, limit, True, meter), False
        if vdc is not None:
            counter = ("vdc", vdc.name)
            meter = self._meter(counter, (counter,))
            rules = self._rules(vdc.offered, f"vdc {vdc.name}", True, meter)
            yield from ((rule, False) for rule in rules)

    def _quotas(self, binding: Binding) -> Iterator[tuple[QuotaCeiling, bool]]:
        accounts, user, kind = self._cluster.accounts, binding.user, binding.type
        quotas = [(f"user {user}", accounts.quota_of(user), "")] if user else []
        chain = accounts.chain(binding.project)
        quotas += [(f"project {name}", accounts.projects[name].quota, name) for name in chain]
        for scope, quota, project in quotas:
            if _is_none(quota):
                continue
            if (scope, kind) not in self._of_scope:
                below = self._projects_below(project) if project else []
                found = self._of_quota(quota, scope, *counters_of(user, below, kind), kind)
                self._of_scope[scope, kind] = [*found]
            yield from self._of_scope[scope, kind]

    def _outers(self, user: str, project: str) -> Iterator[tuple[QuotaCeiling, bool]]:
        """What a provider outside allows the project, and those above it."""
        accounts = self._cluster.accounts
        if not accounts.outer or not project:
            return
        for name in accounts.chain(project) or [project]:
            scope = f"outer {name}"
            if (scope, "") not in self._of_scope:
                self._of_scope[scope, ""] = [(rule, False) for rule in self._of_outer(name)]
            yield from self._of_scope[scope, ""]
        outer = accounts.outer.get(project)
        if user and outer is not None and outer.users is not None and user not in outer.users:
            note = f"{outer.provider} does not let user {user} use project {project}"
            yield self._none(f"user {user}", (("project", project),), note), False

    def _of_outer(self, name: str) -> Iterator[QuotaCeiling]:
        """Limits there count what is used outside of Rota, too. Without any word it is nothing."""
        accounts, scope = self._cluster.accounts, f"project {name}"
        below = self._projects_below(name) if name in accounts.projects else [name]
        whole, _ = counters_of("", below, "")
        outer = accounts.outer.get(name)
        if outer is None or not outer.seen_s:
            note = f"{accounts.provider} has never told the quota of project {name}"
            yield self._none(scope, whole, note)
            return
        meter, amount = self._meter(("outer", name), whole), outer.foreign
        foreign = (0.0, amount.cpu_milli, amount.memory_mib, amount.device_milli)
        for at, more in zip(Dimension, foreign, strict=False):
            meter.used[at] += more
        for rule in self._rules(outer.limits, scope, True, meter):
            yield rule._replace(provider=outer.provider, foreign=foreign[rule.at])

    def _none(self, scope: str, counters: Counters, why: str) -> QuotaCeiling:
        """Nothing may start, until there is other news from the provider."""
        note = f"{why}: until it does, no job of it may start"
        provider = self._cluster.accounts.provider
        return QuotaCeiling(scope, Dimension.JOBS, 0, True, Meter(counters), provider, note=note)

    def _projects_below(self, project: str) -> list[str]:
        if self._below is None:
            self._below, accounts = {}, self._cluster.accounts
            for name in sorted(accounts.projects):
                for above in accounts.chain(name):
                    self._below.setdefault(above, []).append(name)
        return self._below[project]

    def _of_quota(
        self, quota: Quota, scope: str, whole: Counters, typed: Counters, kind: str
    ) -> Iterator[tuple[QuotaCeiling, bool]]:
        meter = self._meter(("quota", scope), whole)
        yield from ((rule, False) for rule in self._rules(quota.hard, scope, True, meter))
        yield from ((rule, quota.borrow) for rule in self._rules(quota.soft, scope, False, meter))
        for limits, hard in ((quota.hard, True), (quota.soft, False)):
            for at, limit in (
                (Dimension.DEVICE_HOURS, limits.device_hours),
                (Dimension.COST, limits.cost),
            ):
                if limit is not None:
                    meter = self._budget(scope, whole, quota.period_s, at)
                    yield QuotaCeiling(scope, at, limit, hard, meter), quota.borrow and not hard
        limits = quota.types.get(kind, UNLIMITED) if kind else UNLIMITED
        if limits is not UNLIMITED:
            name = f"{scope} for {kind}"
            meter = self._meter(("quota", name), typed)
            yield from ((rule, False) for rule in self._rules(limits, name, True, meter))

    @staticmethod
    def _rules(limits: Limits, scope: str, hard: bool, meter: Meter) -> Iterator[QuotaCeiling]:
        values = (limits.jobs, limits.cpu_milli, limits.memory_mib, limits.device_milli)
        for at, value in zip(Dimension, values, strict=False):
            if value is not None:
                yield QuotaCeiling(scope, at, value, hard, meter)

    def _meter(self, name: Counter, counters: Counters) -> Meter:
        meter = self._meters.get(name)
        if meter is None:
            meter = self._meters[name] = Meter(counters)
            used = meter.used
            for counter in counters:
                held = self._cluster.accounts.holdings.get(counter)
                used[Dimension.JOBS] += len(self._cluster.census.active_in.get(counter, ()))
                used[Dimension.CPU_MILLI] += held.cpu_milli
                used[Dimension.MEMORY_MIB] += held.memory_mib
                used[Dimension.DEVICE_MILLI] += held.device_milli
        return meter

    def _budget(self, scope: str, whole: Counters, period_s: int, at: Dimension) -> Meter:
        """What was spent comes back as days leave the period, and when jobs end early."""
        name = (f"budget of {at.name}", f"{scope}\n{period_s}")
        meter = self._meters.get(name)
        if meter is None:
            meter = self._meters[name] = Meter(whole)
            start_s = self._now_s - period_s
            by_day = self._spent_by_day(whole, start_s, at)
            live = self._live_cost if at is Dimension.COST else self._live_device_hours
            meter.used[at] = sum(by_day.values()) + sum(live(c, start_s) for c in whole)
            meter.back = [
                (float((day + 1) * DAY_S + period_s), by_day[day]) for day in sorted(by_day)
            ]
        return meter

    def _live_device_hours(self, counter: Counter, start_s: float) -> float:
        """What live attempts have used in the period, and may still use."""
        accounts = self._cluster.accounts
        found = accounts.running.since(counter, self._now_s, start_s).device_s
        if accounts.holdings.get(counter).device_milli:
            for _, count, end_s in self._live(counter):
                found += count.kept.device_milli / 1000 * max(0.0, end_s - self._now_s)
        return found / 3600

    def _live_cost(self, counter: Counter, start_s: float) -> float:
        """What live attempts have cost in the period and was not charged, and may still cost."""
        found = 0.0
        for attempt, count, end_s in self._live(counter):
            since_s = max(uncharged_s(attempt), start_s) if attempt.started_s else self._now_s
            found += price_of(attempt, count) / 3600 * (max(end_s, self._now_s) - since_s)
        return found

    def _live(self, counter: Counter) -> Iterator[tuple[Attempt, Count, float]]:
        """Live attempts, what each counts with, and when it will have used all that it may."""
        cluster = self._cluster
        for job_id in sorted(cluster.census.active_in.get(counter, ())):
            job = cluster.jobs[job_id]
            paused_s = job.paused_s + (self._now_s - job.suspended_s if job.suspended_s else 0.0)
            for attempt in job.live_attempts:
                count = cluster.accounts.holdings.count_of(attempt)
                devices = count.kept.device_milli > 0
                paid_s = paid_s_of(job.spec, cluster.policy.backfill, devices=devices)
                yield attempt, count, (attempt.started_s or self._now_s) + paid_s + paused_s

    def _spent_by_day(self, whole: Counters, start_s: float, at: Dimension) -> dict[int, float]:
        """Device-hours or money of ended attempts by day, from a moment on."""
        first = int(start_s // DAY_S)
        names = set(whole)
        found: dict[int, float] = {}
        for _, usage in sorted(self._cluster.accounts.usage.items()):
            if ("user", usage.user) not in names and ("project", usage.project) not in names:
                continue
            for day, spent in usage.days.items():
                part = 1.0 - (start_s % DAY_S) / DAY_S if day == first else float(day > first)
                if part:
                    amount = spent.cost if at is Dimension.COST else spent.device_s / 3600
                    found[day] = found.get(day, 0.0) + part * amount
        return found
