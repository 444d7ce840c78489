"""Everything that the nodes on record have, added up again only when one of them is another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.order.share_use import capacity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.cluster import Cluster
    from rota.core.facts.node import NodeSpec


class Capacity:
    """The sum over all nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._specs: dict[str, NodeSpec] = {}
        self.total = capacity(cluster)

    def follow(self, names: Iterable[str]) -> None:
        """These nodes changed."""
        nodes, specs = self._cluster.nodes, self._specs
        changed = False
        for name in names:
            node = nodes.get(name)
            if (node.spec if node is not None else None) is not specs.get(name):
                changed = True
                if node is None:
                    del specs[name]
                else:
                    specs[name] = node.spec
        if changed:
            self.total = capacity(self._cluster)
