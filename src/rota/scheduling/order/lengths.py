"""How long a job is taken to run while it waits, and to stay while it runs.

A user's estimate counts for what it is worth. Where runs of the same account outlived theirs, the
next ones are taken to last longer. A run that outlives what it was taken to last is taken to last
twice as long, and so on. Nothing is taken to last longer than its limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.overruns import taken_s
from rota.core.derived.usage import usage_key
from rota.core.facts.policy import Estimates

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import LaneKey
    from rota.core.facts.job import JobSpec, Role

INFINITE = float("inf")
#: How long a job without a limit stays where limits alone count: a century.
FOREVER_S = 100 * 365 * 86400.0


def run_s_of(cluster: Cluster, item: JobSpec | LaneKey, roles: tuple[Role, ...]) -> float:
    """How long a job is taken to run: as predicted where the policy says so, else as said."""
    if item.predicted_s and cluster.policy.backfill.estimates is Estimates.PREDICTED:
        return min(float(item.predicted_s), float(item.time_limit_s or INFINITE))
    return _said_s(cluster, item, roles)


def _said_s(cluster: Cluster, item: JobSpec | LaneKey, roles: tuple[Role, ...]) -> float:
    """By what its user said, or the policy assumes, and what became of that before."""
    rules, limit_s = cluster.policy.backfill, float(item.time_limit_s or INFINITE)
    run_s = taken_s(item, roles, rules)
    if run_s >= limit_s:
        return limit_s
    usage = (
        cluster.accounts.usage.get(usage_key(item.user, item.project)) if rules.stretch else None
    )
    return run_s if usage is None else min(usage.overruns.stretch(run_s), limit_s)


def stay_s_of(cluster: Cluster, spec: JobSpec, ran_s: float) -> float:
    """How long a job that has run for so long is taken to hold its room, all in all.

    Promises to others rest on it: what was predicted counts only where its user named no limit,
    and then its bound. A run that outlives that is of another kind than the ones it was learned
    from: then it counts what is taken of jobs that nothing is known of.
    """
    limit_s = spec.time_limit_s or INFINITE
    if cluster.policy.backfill.limits_only:
        return float(spec.time_limit_s or FOREVER_S)
    if cluster.policy.backfill.estimates is Estimates.PREDICTED and spec.predicted_s:
        stay_s = float(spec.time_limit_s or spec.predicted_most_s)
        if stay_s <= ran_s < limit_s:
            stay_s = max(stay_s, _said_s(cluster, spec, spec.roles))
    else:
        stay_s = run_s_of(cluster, spec, spec.roles)
    stay_s = max(stay_s, 1.0)
    while stay_s <= ran_s and stay_s < limit_s:
        stay_s *= 2.0
    return min(stay_s, limit_s)
