"""What a pass must ask of the single node: names, neighbours, plugged-in filters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rota.core.derived.holdings import amount_of_all
from rota.core.facts.resources import NOTHING, Amount
from rota.scheduling.api import NodeView
from rota.scheduling.place.cluster_load import ClusterLoads, goes_by_load
from rota.scheduling.place.filters import Neighbours, affinity_problem, topologies_of
from rota.scheduling.place.scores import neighbour_score

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Allocation, Node
    from rota.scheduling.api import Entry
    from rota.scheduling.limits.quota import Quotas, Short
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.rules import Rules


def pool_problem(node: Node, shape: Shape) -> str:
    """Why a pool with room gets no such task now: order is ours, and waiting inside has none."""
    inside, engine = len(node.inside), node.spec.engine
    if inside and inside >= node.spec.inside_max and not node.spec.early:
        return f"{inside} {'waits' if inside == 1 else 'wait'} inside {engine} already"
    requests = [role.request for role in shape.roles]
    for closure in node.closures:
        if closure.request in requests:
            return f"closed to such tasks for a minute: {closure.note}"
    return ""


class NodeChecks:
    """Answers for one pass; who runs where is found out when somebody asks."""

    def __init__(self, cluster: Cluster, space: Space, rules: Rules, quotas: Quotas) -> None:
        self._cluster = cluster
        self._space = space
        self._rules = rules
        self._quotas = quotas
        self._neighbours: Neighbours | None = None
        #: Who started in this pass before anybody asked: (node, its labels, the job's labels).
        self._started: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = []

    @cached_property
    def _loads(self) -> ClusterLoads:
        return ClusterLoads(self._space)

    def hinders(self, shape: Shape) -> bool:
        """Whether more than room and rules of its own may keep a shape waiting."""
        return bool(shape.placement.affinities or self._rules.filters or self._space.engines.pools)

    def may_refuse(self, shape: Shape) -> bool:
        """Whether a node that suits a shape by its class may still be refused."""
        placement = shape.placement
        return bool(placement.exclude or placement.nodes) or self.hinders(shape)

    def refuses(self, shape: Shape, name: str) -> bool:
        return bool(self.problem(shape, name))

    def problem(self, shape: Shape, name: str) -> str:
        """Why a node that has room must not be used; empty when it may."""
        placement = shape.placement
        if name in placement.exclude:
            return "is excluded"
        if placement.nodes and name not in placement.nodes:
            return "is not one of the nodes it names"
        if placement.affinities:
            labels = self._space.class_of[name].labels
            text = affinity_problem(shape, name, labels, self._all(), dict(shape.labels))
            if text:
                return text
        if name in self._space.engines.pools and (
            text := pool_problem(self._cluster.nodes[name], shape)
        ):
            return text
        return self._rules.plugged_problem(shape, self.view(name))[1] if self._rules.filters else ""

    def keeps_off(self, entry: Entry, name: str) -> bool:
        """Whether neighbours or quotas keep a job from a node, whatever room there is."""
        return self.refuses(entry.shape, name) or self.short_of_node(entry, name) is not None

    def short_of_node(self, entry: Entry, name: str, kept: Amount = NOTHING) -> Short | None:
        """The quota that keeps a job from having a node to itself beside what it keeps already."""
        node = self._cluster.nodes.get(name)
        if node is None or not entry.shape.placement.exclusive:
            return None
        request = entry.shape.roles[0].request
        return self._quotas.short_of_node(entry.key, request, node.spec, kept)

    def is_over_quota(self, entry: Entry, allocations: Iterable[Allocation]) -> bool:
        """Whether nodes that a job could have to itself are too many of them together."""
        if not entry.shape.placement.exclusive:
            return False
        return self._quotas.short(entry.key, amount_of_all(allocations)) is not None

    def has_bonus(self, shape: Shape) -> bool:
        """Whether single nodes have points of their own for this shape."""
        placement = shape.placement
        if placement.vdc and goes_by_load(self._cluster.policy, shape):
            return True
        return bool(placement.affinities) and any(wish.weight for wish in placement.affinities)

    def bonus(self, shape: Shape, name: str) -> int:
        """What wishes about neighbours that hold on a node, and its cluster's load, are worth."""
        policy, points = self._cluster.policy, 0
        if shape.placement.affinities:
            labels = self._space.class_of[name].labels
            points = neighbour_score(shape, name, labels, self._all(), policy)
        return points + self._loads.points(name) if goes_by_load(policy, shape) else points

    def view(self, name: str) -> NodeView:
        kind, room = self._space.class_of[name], self._space.rooms[name]
        idle = sum(device.idle for device in room.devices.values())
        free = Amount(room.cpu_milli, room.memory_mib, room.disk_mib, idle * 1000)
        return NodeView(room.node.spec, kind.labels, kind.taints, free)

    def _all(self) -> Neighbours:
        if self._neighbours is None:
            cluster = self._cluster
            found = Neighbours(topologies_of(cluster.lanes.shapes.values()))
            for job_id, task in cluster.live.where.values():
                job = cluster.jobs[job_id]
                node = cluster.nodes.get(job.tasks[task].attempts[-1].allocation.node)
                if node is not None and job.spec.labels:
                    found.add(node.name, node.all_labels, job.spec.labels)
            for name, labels, own in self._started:
                found.add(name, labels, own)
            self._neighbours = found
        return self._neighbours

    def started(self, own: Mapping[str, str], names: Iterable[str]) -> None:
        """Later jobs of this pass have neighbours with these labels on these nodes."""
        for name in names:
            labels = self._space.class_of[name].labels
            if self._neighbours is None:
                self._started.append((name, labels, own))
            else:
                self._neighbours.add(name, labels, own)
