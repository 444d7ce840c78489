"""How long a remembered key holds: a pass need not work out again what cannot have changed.

With the orderings that stay steady over time, a key changes when its lane has another first job,
when that job grows one step older, or when it has waited too long. The moment of the next step is
known, so it is kept beside the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.order.orderings import MULTIFACTOR

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.core.facts.policy import OrderRules
    from rota.core.facts.tenant import Quota
    from rota.scheduling.api import Entry

INFINITE = float("inf")
#: A key is worked out again a little before its step, so that rounding cannot hide it.
MARGIN_S = 0.001
#: The rules that look at how long a job has waited.
AGEING = frozenset({"priority", MULTIFACTOR})


class Steps(NamedTuple):
    """After which waits keys change; infinite: never."""

    too_long_s: float
    older_s: float


def steps_of(rules: OrderRules) -> Steps:
    ages = rules.age_after_s > 0 and rules.age_factor > 1.0
    ages = ages and bool(AGEING & {rules.primary, rules.secondary})
    return Steps(rules.wait_max_s or INFINITE, rules.age_after_s if ages else INFINITE)


def note_key(lane: Lane, key: tuple[float, ...], entry: Entry, steps: Steps, now_s: float) -> None:
    """Remember the key of a lane's first job, and up to when it is right."""
    lane.note = key
    lane.noted = (entry.job, entry.eligible_s, now_s, _next_step_s(entry, steps, now_s))


def holds(lane: Lane, cluster: Cluster, now_s: float) -> bool:
    """Whether working out the remembered key of a lane again would give the same.

    Not asked where accounts may borrow: that changes with what others hold. Elements of arrays
    come to the front without a word, so keys of arrays never hold.
    """
    if lane.note is None:
        return False
    item, eligible_s, from_s, until_s = lane.noted
    if not from_s <= now_s < until_s or lane.first != item:
        return False
    job = cluster.jobs.get(item)
    return job is not None and job.eligible_s == eligible_s


def next_key(lane: Lane, entry: Entry, steps: Steps, now_s: float) -> tuple[float, ...] | None:
    """The key of a lane's first job, from the one that was remembered; None: work it out.

    Only for rules under which jobs of a lane are ``ALIKE``. Then age is all that tells two of
    them apart, and if no step lies between their ages, their keys differ in the id alone.
    """
    if lane.note is None:
        return None
    _, eligible_s, from_s, _ = lane.noted
    behind = _behind(entry.eligible_s, steps, now_s)
    if behind[0] or _behind(eligible_s, steps, from_s) != behind:
        # Those that waited too long stand in the order of their age.
        return None
    key = (*lane.note[:-1], float(entry.job))
    note_key(lane, key, entry, steps, now_s)
    return key


def _behind(eligible_s: float, steps: Steps, now_s: float) -> tuple[bool, float]:
    """Which steps somebody has behind him who is ready since then."""
    waited_s = max(now_s - eligible_s, 0.0) if eligible_s else 0.0
    return waited_s > steps.too_long_s, waited_s // steps.older_s


def _next_step_s(entry: Entry, steps: Steps, now_s: float) -> float:
    """When the key of a job may be another one by the passing of time."""
    ready_s = entry.eligible_s
    if not ready_s:
        return INFINITE
    waited_s = max(now_s - ready_s, 0.0)
    wait_s = steps.too_long_s if waited_s <= steps.too_long_s else INFINITE
    if steps.older_s < INFINITE:
        wait_s = min(wait_s, (waited_s // steps.older_s + 1) * steps.older_s)
    return ready_s + wait_s - MARGIN_S


def may_borrow(cluster: Cluster) -> bool:
    """Whether anybody has a soft limit that he may pass: keys then depend on what others hold."""
    return any(
        _is_soft(record.quota)
        for table in (cluster.projects, cluster.users)
        for record in table.values()
    )


def _is_soft(quota: Quota) -> bool:
    soft = quota.soft
    values = (soft.jobs, soft.cpu_milli, soft.memory_mib, soft.device_milli, soft.device_hours)
    return quota.borrow and any(value is not None for value in values)
