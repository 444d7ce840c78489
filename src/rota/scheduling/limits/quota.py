"""Caps and quotas during a pass: what an account may still take, and what it takes beyond its own.

Meters start from what the Cluster derives from live attempts and move with what the pass decides,
so that one pass cannot exceed a ceiling either. A project's quota binds all projects under it
together.

A hard limit is never exceeded. Beyond a soft one an account borrows, if its quota allows that:
the pass puts borrowers behind all accounts that do not borrow (``borrowing``), and when a job of an
account within its own limits waits, jobs of accounts beyond theirs may be evicted for it.

A job that has its nodes to itself counts with all of them, so which nodes it may have depends on
its quotas (``short_of_node``).

A budget of device-hours is never overdrawn by what is known: a job that asks for devices starts if
what was used within the period, what running jobs may still use, and what it may use itself stay
within the budget. A job without a time limit is taken to run as long as the policy assumes; it is
not stopped when it runs for longer. Use is not recorded by type of job, so a budget in a limit by
type does not bind. A budget of money works in the same way: a job that waits counts with the price
of the cheapest node that suits it, one that runs with the price that it was placed at.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.site.prices import money
from rota.core.words.units import counted
from rota.scheduling.limits.licenses import LicenseCounts
from rota.scheduling.limits.quota_rules import (
    UNBOUND,
    Binding,
    Dimension,
    JobBound,
    QuotaCeiling,
    RuleBook,
    paid_s_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter, LaneKey
    from rota.core.facts.job import Attempt, Job, JobSpec
    from rota.core.facts.node import NodeSpec
    from rota.core.facts.resources import Request
    from rota.scheduling.limits.licenses import Lacking
    from rota.scheduling.limits.quota_rules import Meter

#: How a dimension is told: its unit, and how much of the stored number makes one.
UNITS: dict[Dimension, tuple[str, float]] = {
    Dimension.JOBS: ("jobs", 1),
    Dimension.CPU_MILLI: ("CPUs", 1000),
    Dimension.MEMORY_MIB: ("GiB of memory", 1024),
    Dimension.DEVICE_MILLI: ("devices", 1000),
    Dimension.DEVICE_HOURS: ("device-hours", 1),
    Dimension.COST: ("", 1),
}


#: How the scope of a licence begins.
LICENSE = "license "
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
    again_s: float
    #: Who has set it, where that is not Rota, how much of it is used outside of Rota, and why
    #: nothing may start at all, in words.
    provider: str = ""
    foreign: float = 0.0
    note: str = ""

    @property
    def missing(self) -> float:
        """How much higher the ceiling would have to be."""
        return self.used + self.wanted - self.limit

    def __str__(self) -> str:
        if self.note:
            return self.note
        if self.scope.startswith(LICENSE):
            use = f"{self.used:g} of {self.limit:g} in use"
            return f"{self.scope}: {use}, {self.wanted:g} wanted"
        if self.dimension is Dimension.JOBS:
            return f"{self.scope} runs {self.used:g} of at most {self.limit:g}"
        unit, size = UNITS[self.dimension]
        used, limit, wanted = (n / size for n in (self.used, self.limit, self.wanted))
        if self.dimension is Dimension.COST:
            return (
                f"{self.scope} has spent or spoken for {money(used)} of {money(limit)}, "
                f"{money(wanted)} wanted"
            )
        if self.dimension is Dimension.DEVICE_HOURS:
            return (
                f"{self.scope} has used or spoken for {used:.4g} of {limit:.4g} {unit}, "
                f"{wanted:.4g} wanted"
            )
        kind = "" if self.hard else " without borrowing"
        by = f" by the quota in {self.provider}" if self.provider else ""
        outside = f" ({self.foreign / size:g} outside Rota)" if self.foreign else ""
        return (
            f"{self.scope} holds {used:g}{outside} of at most {counted(limit, unit)}{kind}{by}, "
            f"{wanted:g} wanted"
        )


class GivenBack(NamedTuple):
    """What a running job would give back: all of it with its place, or some tasks."""

    job: Job
    amount: Amount
    whole: bool = True


_Wish = tuple[float, float, float, float, float, float]


def wish_of(amount: Amount, jobs: int, paid_s: float, cost: float = 0.0) -> _Wish:
    device = amount.device_milli
    return jobs, amount.cpu_milli, amount.memory_mib, device, device * paid_s / 3_600_000, cost


def _add(used: list[float], wish: _Wish, sign: int = 1) -> None:
    for at, amount in enumerate(wish):
        used[at] += sign * amount


def _exceeds(rule: QuotaCeiling, wish: _Wish) -> bool:
    """A job that asks for nothing of a dimension is not kept waiting by it."""
    at = rule.at
    return bool(wish[at]) and rule.meter.used[at] + wish[at] > rule.limit + ROUNDED


class Quotas:
    """All ceilings during one pass. Where nothing is set, nothing is computed."""

    def __init__(
        self,
        cluster: Cluster,
        now_s: float,
        price: Callable[[int, Amount], float] | None = None,
    ) -> None:
        """``price``: what an hour of a shape, by its number, or else of an amount costs."""
        self._cluster = cluster
        self._rules = cluster.policy.backfill
        self._price = price
        self._book = RuleBook(cluster, now_s)
        self._by_key: dict[LaneKey, JobBound] = {}
        self._bounds: dict[Binding, JobBound] = {}
        #: What is borrowed was asked for: from here on it is noted when that changes.
        self._is_asked = False
        #: Grows with whatever changes how much an account borrows.
        self.moves = 0
        #: Grows whenever an account begins to borrow or no longer does.
        self.turns = 0

    def short(self, key: LaneKey, amount: Amount, jobs: int = 1) -> Short | None:
        """The first ceiling that this much more would pass; None: it may start."""
        if jobs and key.licenses and (lacking := self._short_of_licenses(key)):
            return lacking[0]
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
        return self.short(key, besides.plus(node.kept_by(request.amount)))

    def shorts(self, key: LaneKey, amount: Amount) -> list[Short]:
        firm = (self._by_key.get(key) or self._of_key(key)).firm
        wish = self._wish(key, amount, 1)
        found = [_short_of(rule, wish) for rule in firm if _exceeds(rule, wish)]
        return self._short_of_licenses(key) + found

    def _short_of_licenses(self, key: LaneKey) -> list[Short]:
        return [_short_of_license(each) for each in self._licenses.lacking(key.licenses)]

    def is_over(self, job: Job) -> bool:
        """Whether the accounts of a job hold more than they may of something that it holds."""
        wish = wish_of(held_by(self._cluster, job), 1, 0.0)
        firm = self._of_job(job).firm
        return any(wish[r.at] and r.meter.used[r.at] > r.limit + ROUNDED for r in firm)

    def borrowing(self, key: LaneKey, amount: Amount) -> bool:
        """Whether this much more would pass a soft limit: it comes after jobs within theirs."""
        soft = (self._by_key.get(key) or self._of_key(key)).soft
        if not soft:
            return False
        wish = self._wish(key, amount, 1)
        return any(_exceeds(rule, wish) for rule in soft)

    @cached_property
    def _licenses(self) -> LicenseCounts:
        return LicenseCounts(self._cluster)

    @cached_property
    def lends(self) -> bool:
        """Whether any account may hold more than its own: else there is nothing to reclaim."""
        return self._cluster.accounts.may_borrow()

    def reclaimable(self, part: GivenBack) -> bool:
        """Whether this is of what its account borrowed: it may be made to give it back."""
        return self._is_borrowed(self._of_job(part.job), part)

    def all_reclaimable(self, parts: Sequence[GivenBack], gone: Sequence[GivenBack] = ()) -> bool:
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

    def _is_borrowed(self, bound: JobBound, part: GivenBack, *, back: bool = False) -> bool:
        """``back``: the part was taken off already, and counts as if it had not been."""
        if not bound.soft:
            return False
        self._is_asked = True
        wish = wish_of(part.amount, part.whole, 1.0)
        return any(
            wish[rule.at] and self._is_beyond(rule, wish[rule.at] if back else 0.0)
            for rule in bound.soft
        )

    def _is_beyond(self, rule: QuotaCeiling, more: float = 0.0) -> bool:
        left = rule.meter.used[rule.at] - self._leaving(rule.meter)[rule.at]
        return left + (0.0 if rule.at >= Dimension.DEVICE_HOURS else more) > rule.limit

    def _leaving(self, meter: Meter) -> list[float]:
        """What of an account's holdings is on its way out, from what is known and decided."""
        if meter.leaving is None:
            meter.leaving = [0.0] * len(Dimension)
            for counter in meter.counters:
                for number in self._cluster.census.active_in.get(counter, ()):
                    job = self._cluster.jobs[number]
                    live = job.live_attempts
                    going = [attempt for attempt in live if attempt.stop_cause is not None]
                    if going:
                        # What it has used of a budget does not come back.
                        wish = wish_of(_kept(self._cluster, going), len(going) == len(live), 0.0)
                        _add(meter.leaving, wish)
        return meter.leaving

    def take(self, key: LaneKey, amount: Amount, jobs: int = 1) -> None:
        """The pass gave this to a job of the lane."""
        if jobs and key.licenses:
            self._licenses.take(key.licenses)
        bound = self._by_key.get(key) or self._of_key(key)
        if not bound.meters:
            return
        before = self._borrowers(bound)
        wish = self._wish(key, amount, jobs)
        for meter in bound.meters:
            _add(meter.used, wish)
        self._note(bound, before)

    def evict(self, part: GivenBack) -> None:
        """A victim will give its room back.

        Until it has gone it counts against every ceiling; but no more need be reclaimed for it.
        """
        bound = self._of_job(part.job)
        before = self._borrowers(bound)
        self._depart(bound, part)
        self._note(bound, before)

    def _depart(self, bound: JobBound, part: GivenBack, sign: int = 1) -> None:
        for meter in bound.meters:
            _add(self._leaving(meter), wish_of(part.amount, part.whole, 0.0), sign)

    def _borrowers(self, bound: JobBound) -> list[bool]:
        """Which limits are exceeded, as far as that was asked for in this pass."""
        return [self._is_beyond(rule) for rule in bound.soft] if self._is_asked else []

    def _note(self, bound: JobBound, before: list[bool]) -> None:
        if bound.soft:
            self.moves += 1
            self.turns += before != self._borrowers(bound)

    def _wish(self, key: LaneKey, amount: Amount, jobs: int) -> _Wish:
        paid_s = paid_s_of(key, self._rules) if amount.device_milli else 0.0
        if self._price is None:
            return wish_of(amount, jobs, paid_s)
        hours = (paid_s or paid_s_of(key, self._rules, devices=False)) / 3600
        return wish_of(amount, jobs, paid_s, self._price(key.shape, amount) * hours)

    def _of_key(self, key: LaneKey) -> JobBound:
        is_free = self._book.leaves_free(key.queue, key.user, key.project) and not key.vdc
        bound = UNBOUND
        if key.group or key.capped_array or not is_free:
            bound = self._bound(key, key.capped_array)
        self._by_key[key] = bound
        return bound

    def _of_job(self, job: Job) -> JobBound:
        array = self._cluster.arrays.get(job.array_id)
        return self._bound(job.spec, array.id if array is not None and array.cap else 0)

    def _bound(self, of: LaneKey | JobSpec, capped: int) -> JobBound:
        binding = Binding(of.queue, of.group, capped, of.user, of.project, of.type, of.vdc)
        bound = self._bounds.get(binding)
        if bound is None:
            bound = self._bounds[binding] = self._book.bind(binding)
        return bound


def _short_of(rule: QuotaCeiling, wish: _Wish) -> Short:
    used, wanted, counters = rule.meter.used[rule.at], wish[rule.at], rule.meter.counters
    again_s = rule.meter.again_s(used + wanted - rule.limit)
    return Short(
        *(rule.scope, rule.at, used, wanted, rule.limit, rule.hard, counters, again_s),
        *(rule.provider, rule.foreign, rule.note),
    )


def _short_of_license(lacking: Lacking) -> Short:
    name, used, wanted, limit = lacking
    counters: tuple[Counter, ...] = (("license", name),)
    return Short(f"{LICENSE}{name}", Dimension.JOBS, used, wanted, limit, True, counters, 0.0)


def held_by(cluster: Cluster, job: Job) -> Amount:
    """What the live attempts of a job keep from others."""
    return _kept(cluster, job.live_attempts)


def _kept(cluster: Cluster, attempts: Iterable[Attempt]) -> Amount:
    held, count_of = NOTHING, cluster.accounts.holdings.count_of
    for attempt in attempts:
        held = held.plus(count_of(attempt).kept)
    return held
