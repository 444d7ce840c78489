"""Which shapes come, for the strategies that mind stranded devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.place.fragments import coming_shapes
from rota.scheduling.place.scores import MEASURES

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.scheduling.place.fragments import Typical
    from rota.scheduling.place.node_index import Space


class Coming:
    """What the free room was last told of the shapes that come."""

    def __init__(self, usual: tuple[Typical, ...] | None = None) -> None:
        """``usual``: the shapes, where a host knows them; else those that wait or run."""
        self._usual = usual
        self._told: tuple[Typical, ...] = ()
        self._seen = -1

    def anew(self) -> Coming:
        return Coming(self._usual)

    def tell(self, space: Space, cluster: Cluster) -> None:
        """Tell which shapes come, if that changed."""
        demand = cluster.census.demand
        if cluster.policy.place.strategy not in MEASURES or demand.version == self._seen:
            return
        self._seen = demand.version
        typical = self._usual if self._usual is not None else coming_shapes(demand.ranked)
        if typical != self._told:
            self._told = typical
            space.expect(typical)
