"""What has to be looked at again: at its time, by the next tick, or by the next pass."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple


class Timer(NamedTuple):
    """Something to look at when its time has come. Checked again then: it may be moot."""

    at_s: float
    kind: str
    id: int


class Agenda:
    """Timers, and what changed since a pass or the controller last looked."""

    def __init__(self) -> None:
        #: A heap: the first one is the next one.
        self.timers: list[Timer] = []
        #: Nodes that changed since a pass last looked: which attempts on them, or None for all.
        self.touched: dict[str, dict[str, None] | None] = {}
        #: Jobs that got a loan back since the controller last looked.
        self.repaid: dict[int, None] = {}
        #: Grows when the rules change: policy, queues, reservations, shares, quotas.
        self.rules_version = 0

    def push(self, at_s: float, kind: str, item: int) -> None:
        heappush(self.timers, Timer(at_s, kind, item))

    def pop_due(self, now_s: float) -> Timer | None:
        if self.timers and self.timers[0].at_s <= now_s:
            return heappop(self.timers)
        return None

    def touch(self, node: str, uid: str = "") -> None:
        """The room on a node changed: the next pass looks at it again, or at one attempt there."""
        known = self.touched.setdefault(node, {})
        if not uid:
            self.touched[node] = None
        elif known is not None:
            known[uid] = None

    def take_repaid(self) -> dict[int, None]:
        taken, self.repaid = self.repaid, {}
        return taken
