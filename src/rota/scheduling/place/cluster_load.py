"""How loaded clusters are: what a virtual data centre goes by that takes the least loaded one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.placing import cluster_of
from rota.core.facts.site.clusters import Choice
from rota.scheduling.place.free import UNIT
from rota.scheduling.place.scores import WEIGHT_VDC

if TYPE_CHECKING:
    from rota.core.derived.lanes import Shape
    from rota.core.facts.policy import Policy
    from rota.scheduling.place.node_index import Space

#: Parts of CPUs, memory and devices in the load, in hundredths.
CPU, MEMORY, DEVICE = 30, 30, 40


def goes_by_load(policy: Policy, shape: Shape) -> bool:
    """Whether the clusters of its virtual data centre are told apart by what is in use now."""
    vdc = policy.vdc(shape.placement.vdc) if shape.placement.vdc else None
    return vdc is not None and vdc.strategy is Choice.LOAD


class ClusterLoads:
    """Points of each cluster as of now: the less is in use there, the more."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._points: dict[str, int] = {}
        #: What of the space has been looked at.
        self._seen = -1

    def points(self, node: str) -> int:
        """What a node has for the load of its cluster."""
        space = self._space
        if self._seen != space.shifts:
            self._seen = space.shifts
            sums: dict[str, list[int]] = {}
            for name, room in space.rooms.items():
                kind = space.class_of[name]
                parts = sums.setdefault(cluster_of(kind.labels), [0] * 6)
                idle = sum(device.left_milli for device in room.devices.values())
                free = (room.cpu_milli, room.memory_mib, idle)
                there = (kind.total.cpu_milli, kind.total.memory_mib, 1000 * len(room.devices))
                for at in range(3):
                    parts[at] += max(0, free[at])
                    parts[at + 3] += there[at]
            self._points = {name: WEIGHT_VDC * _ease(parts) for name, parts in sums.items()}
        return self._points[cluster_of(space.class_of[node].labels)]


def _ease(parts: list[int]) -> int:
    """How little is in use, from 0 to ``UNIT``; what a cluster does not have counts as free."""
    points = 0
    for weight, free, there in zip((CPU, MEMORY, DEVICE), parts[:3], parts[3:], strict=True):
        points += weight * (UNIT * free // there if there else UNIT) // 100
    return points
