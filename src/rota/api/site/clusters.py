"""Clusters: what each one has, how much of it is free, and whether it takes work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from litestar import get

from rota.api import params
from rota.api.context import Asking, context_of
from rota.api.site.nodes import AmountView, node_view
from rota.api.site.pools import sum_of
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import when
from rota.controller.commands.clusters import clusters_in
from rota.core.facts.errors import NotFound
from rota.core.facts.states import JobState
from rota.core.words.policy_text import nearest
from rota.scheduling.answers.cluster_health import (
    ClusterHealth,
    cluster_states,
    is_away,
    named_clusters,
)

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.scheduling.answers.cluster_health import ClusterState


class ClusterView(msgspec.Struct):
    """``state``: ``up``, ``waiting`` (nothing speaks for its nodes), ``away`` (its engine does not
    answer) or ``closed`` (all nodes are drained). ``waiting`` counts the jobs bound to it."""

    name: str
    state: ClusterHealth
    since: str | None
    note: str
    engines: list[str]
    nodes: int
    ready: int
    total: AmountView
    free: AmountView
    running: int
    waiting: int


class ClustersView(Listed):
    items: list[ClusterView]
    #: Jobs that wait and may go to any of them.
    unbound: int


def cluster_views(cluster: Cluster) -> ClustersView:
    """Every cluster that has a node on record."""
    waiting, unbound = _waiting(cluster)
    states = cluster_states(cluster)
    views = [_view(cluster, state, waiting.get(state.name, 0)) for state in states]
    return ClustersView(views, unbound)


def _waiting(cluster: Cluster) -> tuple[dict[str, int], int]:
    """How many jobs wait for each cluster, and for any."""
    found: dict[str, int] = {}
    unbound = 0
    held = (JobState.QUEUED, JobState.PREEMPTED, JobState.HELD)
    numbers = [number for state in held for number in cluster.census.by_state[state]]
    items = [(cluster.jobs[number].spec.placement, 1) for number in numbers]
    items += [(a.spec.placement, len(a.pending())) for a in cluster.arrays.values() if a.waiting]
    for placement, count in items:
        named = named_clusters(cluster, placement)
        if named is None:
            unbound += count
        for name in named or ():
            found[name] = found.get(name, 0) + count
    return found, unbound


def _view(cluster: Cluster, state: ClusterState, waiting: int) -> ClusterView:
    views = [node_view(cluster, node) for node in state.nodes]
    pairs = zip(state.nodes, views, strict=True)
    ready = [view for node, view in pairs if node.takes_work and not is_away(node)]
    return ClusterView(
        name=state.name,
        state=state.health,
        since=when(state.since_s),
        note=state.note,
        engines=sorted({node.spec.engine for node in state.nodes} - {""}),
        nodes=len(views),
        ready=len(ready),
        total=sum_of([view.total for view in views]),
        free=sum_of([view.free for view in ready]),
        running=len(state.jobs),
        waiting=waiting,
    )


@get("/clusters", summary="Every cluster, and whether it takes work", opt={"right": "read"})
async def list_clusters(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> ClustersView:
    """A node is in the cluster that its label `cluster` names; without one in `local`."""
    found = cluster_views(context_of(request).host.cluster)
    page, after = ListPart(limit, cursor).of(found.items, lambda view: view.name)
    return ClustersView(page, found.unbound, cursor=after)


@get("/clusters/{name:str}", summary="One cluster", opt={"right": "read", "errors": (404,)})
async def show_cluster(request: Asking, name: params.NamePath) -> ClusterView:
    """By its name."""
    cluster = context_of(request).host.cluster
    for view in cluster_views(cluster).items:
        if view.name == name:
            return view
    hint = nearest(name, clusters_in(cluster))
    raise NotFound(f"there is no cluster {name}; {hint}", field="cluster", value=name)


ROUTES = [list_clusters, show_cluster]
