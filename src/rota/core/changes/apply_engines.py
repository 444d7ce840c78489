"""How events about engines change a Cluster: quotas that they keep, allocations asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.changes import events as ev
from rota.core.facts.site.outer import Outer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster


def _quota_provider_set(cluster: Cluster, event: ev.QuotaProviderSet, at_s: float) -> None:
    outer = cluster.accounts.outer
    cluster.dirty.outers.update(dict.fromkeys(outer))
    outer.clear()
    if event.provider:
        outer[""] = Outer("", event.provider, seen_s=at_s)
        cluster.dirty.outers[""] = None
    cluster.rules_changed()


def _quotas_seen(cluster: Cluster, event: ev.QuotasSeen, at_s: float) -> None:
    """Other limits are other rules; of use, only what was given back may let jobs start."""
    known = cluster.accounts.outer
    for outer in event.outers:
        before = known.get(outer.project)
        known[outer.project] = outer
        cluster.dirty.outers[outer.project] = None
        if before is None or (before.limits, before.users) != (outer.limits, outer.users):
            cluster.rules_changed()
        elif before.foreign != outer.foreign:
            cluster.lanes.given_back.add(("project", outer.project))
    for name in event.gone:
        del known[name]
        cluster.dirty.outers[name] = None


def _pilot_set(cluster: Cluster, event: ev.PilotSet, at_s: float) -> None:
    cluster.pilots[event.pilot.name] = event.pilot
    cluster.dirty.pilots[event.pilot.name] = None


def _pilot_removed(cluster: Cluster, event: ev.PilotRemoved, at_s: float) -> None:
    del cluster.pilots[event.pilot]
    cluster.dirty.pilots[event.pilot] = None


ENGINE_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    ev.QuotaProviderSet: _quota_provider_set,
    ev.QuotasSeen: _quotas_seen,
    ev.PilotSet: _pilot_set,
    ev.PilotRemoved: _pilot_removed,
}
