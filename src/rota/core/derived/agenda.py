"""What has to be looked at again: at its time, by the next tick, or by the next pass."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.log import Log

if TYPE_CHECKING:
    from collections.abc import Container

#: Timers about a job or an array; the ones that are moot are dropped once they are this many more.
JOB_TIMERS = frozenset(
    {
        *("begin", "parents", "unschedulable", "deadline", "time-limit", "save", "warn"),
        *("window", "assembly", "promise"),
    }
)
TIMERS_SPARE = 512


class Timer(NamedTuple):
    """Something to look at when its time has come. Checked again then: it may be moot."""

    at_s: float
    kind: str
    id: int


class Agenda:
    """Timers, and what changed since a pass or the controller last looked."""

    def __init__(self, jobs: Container[int], arrays: Container[int]) -> None:
        """``jobs`` and ``arrays`` are the Cluster's own tables."""
        self._jobs = jobs
        self._arrays = arrays
        #: A heap: the first one is the next one.
        self.timers: list[Timer] = []
        self._timers_max = TIMERS_SPARE
        #: Nodes that changed, and which attempt there did; "": anything may have.
        self.touched: Log[tuple[str, str]] = Log()
        #: Jobs that got a loan back since the controller last looked.
        self.repaid: dict[int, None] = {}
        #: Grows when the rules change: policy, queues, reservations, shares, quotas.
        self.rules_version = 0
        #: When somebody last had everything looked at again; not kept.
        self.triggered_s = -1e9

    def push(self, at_s: float, kind: str, item: int) -> None:
        heappush(self.timers, Timer(at_s, kind, item))
        if len(self.timers) > self._timers_max:
            self._drop_moot()

    def _drop_moot(self) -> None:
        """A job that ended early leaves a timer for its limit, which may be weeks away."""
        self.timers = [
            timer
            for timer in dict.fromkeys(self.timers)
            if timer.kind not in JOB_TIMERS or timer.id in self._jobs or timer.id in self._arrays
        ]
        heapify(self.timers)
        self._timers_max = 2 * len(self.timers) + TIMERS_SPARE

    def pop_due(self, now_s: float) -> Timer | None:
        if self.timers and self.timers[0].at_s <= now_s:
            return heappop(self.timers)
        return None

    def touch(self, node: str, uid: str = "") -> None:
        """The room on a node changed: of one attempt there, or in some other way."""
        self.touched.add((node, uid))

    def take_repaid(self) -> dict[int, None]:
        taken, self.repaid = self.repaid, {}
        return taken
