"""Packing rules of the literature, as they were published: whole hundredths, and no finer.

Best fit, dot product and packing are those of the comparison in Weng et al., "Beware of
Fragmentation" (ATC 2023), down to the rounding. They look at CPUs and devices only, against the
largest node that there is. Many nodes come out equal, and the first of them by name is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rota.scheduling.place.fragments import share_milli
from rota.scheduling.place.node_room import WHOLE

if TYPE_CHECKING:
    from rota.core.facts.resources import Request
    from rota.scheduling.place.free import Free, Total

#: (request, what is left, what there is) -> how good it is, from 0 to 100.
Rule = Callable[["Request", "Free", "Total"], int]

#: The best that a node can be.
FULL = 100


def best_fit(largest: Total) -> Rule:
    """The node with the least left afterwards, CPUs and devices in equal parts."""
    cpu_most, device_most = largest.cpu_milli, WHOLE * largest.devices

    def rule(request: Request, free: Free, total: Total) -> int:
        left = (free[0] - request.cpu_milli) / cpu_most * 0.5
        left += (sum(free[5]) - _asked_milli(request, total)) / device_most * 0.5
        return int((1.0 - left) * FULL)

    return rule


def dot_product(largest: Total) -> Rule:
    """The node whose free amounts are least in line with what is asked for.

    A job that wants many devices goes where CPUs are what is left over, and the other way round.
    """
    cpu_most, device_most = largest.cpu_milli, WHOLE * largest.devices

    def rule(request: Request, free: Free, total: Total) -> int:
        product = (free[0] / cpu_most) * (request.cpu_milli / cpu_most)
        product += (sum(free[5]) / device_most) * (_asked_milli(request, total) / device_most)
        return int(FULL * (1 - product / 2))

    return rule


def gpu_packing(request: Request, free: Free, total: Total) -> int:
    """Devices in use first, then idle ones on nodes with others in use, then idle nodes."""
    count = request.device_count
    if not count:
        return 0
    idle = free[3]
    if idle == total[3]:
        return max(FULL // 3 - idle, idle)
    share = share_milli(request, total[4])
    used = [left for left in reversed(free[5]) if left >= share][:count]
    opened = used.count(WHOLE)
    if opened:
        return max(FULL // 2 - opened, FULL // 3)
    return max(FULL - sum(FULL * left // WHOLE for left in used) // 10, FULL // 2)


def _asked_milli(request: Request, total: Total) -> int:
    return request.device_count * share_milli(request, total[4]) if request.device_count else 0
