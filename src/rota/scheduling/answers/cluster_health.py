"""How clusters are: up, waiting for their agents, away with their engine, or closed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rota.core.facts.site.clusters import AWAY_KEY, AWAY_VALUE
from rota.core.facts.states import NodeState

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node
    from rota.core.facts.placing import Placement


class ClusterHealth(StrEnum):
    """Whether a cluster takes work, and if not, what is missing."""

    UP = "up"
    WAITING = "waiting"  # nothing speaks for its nodes: an agent, or the process of an engine
    AWAY = "away"  # the engine does not answer; its process says so
    CLOSED = "closed"  # every node is drained


@dataclass(slots=True)
class ClusterState:
    """One cluster, as of now."""

    name: str
    nodes: list[Node]
    health: ClusterHealth
    #: Since when it takes no work, as far as that is known; 0: it does, or an operator closed it.
    since_s: float = 0.0
    note: str = ""
    #: Jobs with something there.
    jobs: tuple[int, ...] = ()


def is_away(node: Node) -> bool:
    """Whether its engine does not answer."""
    return any(t.key == AWAY_KEY and t.value == AWAY_VALUE for t in node.spec.taints)


def cluster_states(cluster: Cluster) -> list[ClusterState]:
    """Every cluster that has a node on record, by name."""
    members: dict[str, list[Node]] = {}
    for name in sorted(cluster.nodes):
        node = cluster.nodes[name]
        members.setdefault(node.cluster, []).append(node)
    return [_state(cluster, name, members[name]) for name in sorted(members)]


def _state(cluster: Cluster, name: str, nodes: list[Node]) -> ClusterState:
    where = cluster.live.where
    jobs = tuple(sorted({where[uid][0] for node in nodes for uid in node.live if uid in where}))
    state = ClusterState(name, nodes, ClusterHealth.UP, jobs=jobs)
    if any(node.takes_work and not is_away(node) for node in nodes):
        return state
    missing = [node for node in nodes if not node.drained]
    if not missing:
        state.health = ClusterHealth.CLOSED
        return state
    away = [node for node in missing if node.state is NodeState.UP]
    state.health = ClusterHealth.AWAY if away else ClusterHealth.WAITING
    first = min(away or missing, key=lambda node: (node.seen_s, node.name))
    remarks = first.spec.remarks
    state.since_s, state.note = first.seen_s, remarks[-1] if away and remarks else first.note
    return state


def named_clusters(cluster: Cluster, placement: Placement) -> set[str] | None:
    """The clusters that a job is bound to; None: it may go to any."""
    found: set[str] | None = None
    vdc = cluster.policy.vdc(placement.vdc) if placement.vdc else None
    if vdc is not None:
        found = set(vdc.names)
    if placement.engine:
        engine = placement.engine
        own = {node.cluster for node in cluster.nodes.values() if node.spec.engine == engine}
        found = own if found is None else found & own
    if placement.cluster:
        found = {placement.cluster}
    return found
