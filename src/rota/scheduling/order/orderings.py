"""Who comes first: the shipped orderings, and the key that a pass sorts by.

An ordering answers with one number, the lower the earlier. A pass compares queue priority, the
primary rule, the secondary rule, the bonus for a short time limit and the job's id, in this order.

The size of a job (``procs``) is the number of devices that it asks for, if any, else of CPUs: on
machines with devices they are what is scarce. Parts count, and no job is smaller than one.
Waiting counts from when nothing but room was missing: nobody ages in front of a dependency.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, log2, log10
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.policy import HIGH_MIN, LOW_MAX

if TYPE_CHECKING:
    from rota.core.derived.lanes import LaneKey, Shape
    from rota.core.facts.job import JobSpec
    from rota.core.facts.policy import OrderRules
    from rota.scheduling.api import Entry, Ordering, View

#: From the scale that people use to the one of ``priority_max`` and of preemption.
SCALE = 10
#: The priority that moves a job neither forward nor back.
MIDDLE = 50

DAY_S = 86400
#: Among jobs that may pass the first one, length weighs this many times as much as in its due.
PASSING = 3.0
#: How far back F1 sets its origin of time; see there.
F1_HORIZON_S = 30 * DAY_S

#: What a key that moves with time alone rests on beside the time: three numbers of the job.
Still = tuple[float, float, float]


def limit_bonus(time_limit_s: int) -> float:
    """100 without a limit; 200 to 300 with one, the more the shorter. Higher is earlier."""
    if not time_limit_s:
        return 100.0
    return 200.0 + (1.0 - min(time_limit_s / DAY_S, 1.0)) * 100.0


def procs(shape: Shape) -> float:
    """The size of a job: devices if it asks for any, else CPUs; at least one."""
    cpu_milli = device_milli = 0
    for role in shape.roles:
        request = role.request
        cpu_milli += role.count * request.cpu_milli
        if request.device_count:
            device_milli += role.count * request.device_use_milli
    return max((device_milli or cpu_milli) / 1000, 1.0)


def boosted(priority: int, rules: OrderRules) -> float:
    """A priority of 0 to 100 with the factor of its band, on the scale up to ``priority_max``.

    A factor below 1 brings it nearer to zero. One above 1 brings it nearer to the top by the same
    factor: 2 halves the distance. So nothing passes the top, and of two jobs of a band the one
    with the higher priority stays ahead.
    """
    top = float(rules.priority_max)
    base = min(float(priority * SCALE), top)
    if priority <= LOW_MAX:
        factor = rules.boost_low
    else:
        factor = rules.boost_high if priority >= HIGH_MIN else rules.boost_normal
    if factor == 1.0:
        return base
    return base * max(factor, 0.0) if factor < 1.0 else top - (top - base) / factor


def aged(priority: float, wait_s: float, rules: OrderRules) -> float:
    """A boosted priority after a wait: times ``age_factor`` per full period, up to the top.

    In steps and not smoothly, so that jobs of about the same age tie and the secondary rule has
    its say. Zero stays zero: a scavenger takes what nobody else wants.
    """
    after_s = rules.age_after_s
    if after_s <= 0 or wait_s < after_s or rules.age_factor <= 1.0:
        return priority
    top = float(rules.priority_max)
    try:
        grown = priority * float(rules.age_factor ** (wait_s // after_s))
    except OverflowError:
        grown = top if priority else 0.0
    return min(grown, top)


@lru_cache(maxsize=256)
def credit_s(priority: int, rules: OrderRules) -> float:
    """By how long a priority brings a job forward (or back) against one of the middle.

    Half the way to the top is worth as much as the length of a job can ever be, so that the high
    band comes before the middle whatever its jobs take. Zero is never made up for by waiting:
    such a job takes what nobody else wants.
    """
    if priority == MIDDLE:
        return 0.0
    lifted, middle = boosted(priority, rules), boosted(MIDDLE, rules)
    if lifted <= 0.0 or middle <= 0.0:
        return -inf if lifted <= 0.0 else inf
    return 2.0 * rules.due_max_s * (lifted / middle - 1.0)


def due_s(entry: Entry, rules: OrderRules) -> float:
    """When a job is due: after a multiple of its run time, but not later than all the others.

    It does not move while the job waits, so of two jobs the one that is ahead stays ahead, and a
    job that comes ``due_max_s`` later never passes one of the same priority.
    """
    return _after_s(entry, rules, 1.0)


def _after_s(entry: Entry, rules: OrderRules, times: float) -> float:
    waits_s = times * min(rules.due_factor * entry.run_s, float(rules.due_max_s))
    return (entry.eligible_s or entry.submitted_s) + waits_s - credit_s(entry.key.priority, rules)


def set_back_s(ratio: float, rules: OrderRules) -> float:
    """By how long use over target sets all jobs of an account back: half of it at the share."""
    return float(rules.share_s * (1.0 - 2.0 ** -min(ratio, 1000.0)))


def passing_s(entry: Entry, rules: OrderRules) -> float:
    """The same for jobs that may pass the first: length counts for more, but a long job that has
    waited for three times as long as any is due after comes before whatever is ready then."""
    return _after_s(entry, rules, PASSING)


def waited_s(entry: Entry, view: View) -> float:
    """How long it has waited for nothing but room; 0 while it waits for something else."""
    return max(view.now_s - entry.eligible_s, 0.0) if entry.eligible_s else 0.0


def terms(entry: Entry, view: View) -> dict[str, float]:
    """The effective priority as a sum of named terms, for people and for preemption.

    ``share`` is part of it only where the rule ``multifactor`` decides; elsewhere fair share is
    a rule of its own. ``limit bonus`` is part of it where the policy gives it a weight.
    """
    rules = view.policy.order
    base = min(float(entry.key.priority * SCALE), float(rules.priority_max))
    lifted = boosted(entry.key.priority, rules)
    found = {
        "base": base,
        "boost": lifted - base,
        "age": aged(lifted, waited_s(entry, view), rules) - lifted,
    }
    if rules.limit_bonus_weight:
        found["limit bonus"] = rules.limit_bonus_weight * limit_bonus(entry.key.time_limit_s)
    if rules.primary == MULTIFACTOR:
        found["share"] = share_term(entry.key, view)
    return found


def effective_priority(entry: Entry, view: View) -> float:
    """The sum of ``terms``: what the rules ``priority`` and ``multifactor`` sort by."""
    return worth_of(entry.key, waited_s(entry, view), view)


def worth_of(item: LaneKey | JobSpec, waited_s: float, view: View) -> float:
    """The same of a job that has waited so long. Of one that runs, the wait is over: 0."""
    total = _own_sum(item, waited_s, view)
    if view.policy.order.primary == MULTIFACTOR:
        total += share_term(item, view)
    return total


def _own_sum(item: LaneKey | JobSpec, waited_s: float, view: View) -> float:
    """All terms but that of fair share."""
    rules = view.policy.order
    total = aged(boosted(item.priority, rules), waited_s, rules)
    if rules.limit_bonus_weight:
        total += rules.limit_bonus_weight * limit_bonus(item.time_limit_s)
    return total


def share_term(item: LaneKey | JobSpec, view: View) -> float:
    """``share_weight`` for who uses nothing, half of it at exactly the share, less beyond."""
    ratio = view.shares.ratio(item.user, item.project)
    return view.policy.order.share_weight * float(2.0 ** -min(ratio, 1000.0))


def order_key(
    entry: Entry, view: View, primary: Ordering, secondary: Ordering, queue_priority: int
) -> tuple[float, ...]:
    """What a pass sorts by; the lower, the earlier.

    Where the policy sets a soft limit on shares, accounts beyond it come after all others of
    queues of the same priority.
    """
    key = entry.key
    rest = (
        primary.key(entry, view),
        secondary.key(entry, view),
        -limit_bonus(key.time_limit_s),
        float(entry.job),
    )
    soft = view.policy.share.soft_ratio
    if soft > 0.0:
        beyond = view.shares.worst(key.user, key.project) > soft
        return (-float(queue_priority), float(beyond), *rest)
    return (-float(queue_priority), *rest)


class Fifo(msgspec.Struct, frozen=True):
    """By submission: ids are given out in order."""

    name: str = "fifo"

    def key(self, entry: Entry, view: View) -> float:
        return float(entry.job)


class Priority(msgspec.Struct, frozen=True):
    """By priority with the factor of its band, growing with age up to the top."""

    name: str = "priority"

    def key(self, entry: Entry, view: View) -> float:
        return -_own_sum(entry.key, waited_s(entry, view), view)


class FairShareOrder(msgspec.Struct, frozen=True):
    """By use over target: the account that has had least of its share comes first."""

    name: str = "fairshare"

    def key(self, entry: Entry, view: View) -> float:
        return view.shares.ratio(entry.key.user, entry.key.project)


MULTIFACTOR = "multifactor"
DUE = "due"


class Multifactor(msgspec.Struct, frozen=True):
    """By one sum of priority, age, fair share and (if it has a weight) the limit bonus."""

    name: str = MULTIFACTOR

    def key(self, entry: Entry, view: View) -> float:
        return -worth_of(entry.key, waited_s(entry, view), view)


class Due(msgspec.Struct, frozen=True):
    """By when a job is due; an account that has had more than its share comes a little later."""

    name: str = DUE

    def key(self, entry: Entry, view: View) -> float:
        rules = view.policy.order
        ratio = view.shares.ratio(entry.key.user, entry.key.project)
        return due_s(entry, rules) + set_back_s(ratio, rules)


class ShortestFirst(msgspec.Struct, frozen=True):
    """By how long it is taken to run."""

    name: str = "sjf"

    def key(self, entry: Entry, view: View) -> float:
        return entry.run_s


class SmallestArea(msgspec.Struct, frozen=True):
    """By time times size."""

    name: str = "saf"

    def key(self, entry: Entry, view: View) -> float:
        return entry.run_s * procs(entry.shape)


class Wfp3(msgspec.Struct, frozen=True):
    """-(wait / run)^3 x procs: long waits in relation to the run weigh heavily, large jobs too."""

    name: str = "wfp3"

    def key(self, entry: Entry, view: View) -> float:
        return self.key_at(view.now_s, *self.still(entry))

    @staticmethod
    def still(entry: Entry) -> Still:
        return (entry.eligible_s or inf, max(entry.run_s, 1.0), procs(entry.shape))

    @staticmethod
    def key_at(now_s: float, since_s: float, run_s: float, size: float) -> float:
        waits = (now_s - since_s if now_s > since_s else 0.0) / run_s
        return float(-(waits**3)) * size


class Unicef(msgspec.Struct, frozen=True):
    """-wait / (log2(procs) x run): fast turn-around for small jobs.

    The logarithm of one is zero: a job of one counts like one of two.
    """

    name: str = "unicef"

    def key(self, entry: Entry, view: View) -> float:
        return self.key_at(view.now_s, *self.still(entry))

    @staticmethod
    def still(entry: Entry) -> Still:
        size = max(log2(procs(entry.shape)), 1.0)
        return (entry.eligible_s or inf, size * max(entry.run_s, 1.0), 0.0)

    @staticmethod
    def key_at(now_s: float, since_s: float, area: float, _: float) -> float:
        return -(now_s - since_s if now_s > since_s else 0.0) / area


class F1(msgspec.Struct, frozen=True):
    """log10(run) x procs + 870 x log10(submit).

    It was fitted to traces that begin at zero. Seconds since 1970 would make age weigh nothing,
    so time counts from 30 days ago, or from zero where the clock has not come that far.
    """

    name: str = "f1"

    def key(self, entry: Entry, view: View) -> float:
        return self.key_at(view.now_s, *self.still(entry))

    @staticmethod
    def still(entry: Entry) -> Still:
        return (entry.submitted_s, log10(max(entry.run_s, 1.0)) * procs(entry.shape), 0.0)

    @staticmethod
    def key_at(now_s: float, submitted_s: float, area: float, _: float) -> float:
        submit_s = submitted_s - (now_s - F1_HORIZON_S if now_s > F1_HORIZON_S else 0.0)
        return area + 870.0 * log10(submit_s if submit_s > 1.0 else 1.0)


class Deadline(msgspec.Struct, frozen=True):
    """The earliest deadline first; who has none comes last."""

    name: str = "deadline"

    def key(self, entry: Entry, view: View) -> float:
        return entry.key.deadline_s or inf


class Laxity(msgspec.Struct, frozen=True):
    """By the latest moment at which a job can start and still keep its deadline."""

    name: str = "laxity"

    def key(self, entry: Entry, view: View) -> float:
        deadline_s = entry.key.deadline_s
        return deadline_s - entry.run_s if deadline_s else inf


class LimitBonus(msgspec.Struct, frozen=True):
    """By the bonus for a short time limit."""

    name: str = "limit-bonus"

    def key(self, entry: Entry, view: View) -> float:
        return -limit_bonus(entry.key.time_limit_s)


_SHIPPED: tuple[Ordering, ...] = (
    Fifo(),
    Priority(),
    FairShareOrder(),
    Multifactor(),
    Due(),
    ShortestFirst(),
    SmallestArea(),
    Wfp3(),
    Unicef(),
    F1(),
    Deadline(),
    Laxity(),
    LimitBonus(),
)
#: Those whose keys move with time alone: ``key_at`` gives them from the time and ``still``.
MOVING = {rule.name: rule for rule in (Wfp3(), Unicef(), F1())}
#: The shipped orderings by name.
ORDERINGS: dict[str, Ordering] = {ordering.name: ordering for ordering in _SHIPPED}
#: Those that do not ask for anybody's share: their keys stand while others start.
UNSHARED = frozenset(rule for rule in _SHIPPED if rule.name not in ("fairshare", MULTIFACTOR, DUE))
#: Those under which the jobs of a lane differ in their age at most, and by its steps.
ALIKE = frozenset(
    rule for rule in _SHIPPED if rule.name not in ("fifo", DUE, "wfp3", "unicef", "f1")
)
