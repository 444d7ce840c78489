"""Where each job of a pool stands: by the very orderings that the general pass uses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rota.core.facts.resources import NOTHING
from rota.scheduling.api import View
from rota.scheduling.order.keys import NO_SHARES
from rota.scheduling.order.orderings import ORDERINGS, order_key
from rota.sim.pool.api import FIXED
from rota.sim.pool.line import Line
from rota.sim.settings import BEGIN_S

if TYPE_CHECKING:
    from rota.core.derived.lanes import LaneKey
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Entry
    from rota.sim.pool.line import Waiter


class Ranking:
    """All who wait, in the order of the policy."""

    def __init__(self, policy: Policy) -> None:
        order = policy.order
        self._policy = policy
        self._primary = ORDERINGS[order.primary]
        self._secondary = ORDERINGS[order.secondary]
        self.plain = order.primary == "fifo"
        #: The order may be another one in each pass.
        self.moving = not (self.plain or {order.primary, order.secondary} <= FIXED)
        self.line = Line()
        self._waiters: dict[int, Waiter] = {}
        self._entries: dict[int, Entry] = {}
        #: How many wait in each lane, where the order moves.
        self._lanes: Counter[LaneKey] = Counter()

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def first(self) -> Waiter:
        return self.line.first

    def __contains__(self, job: int) -> bool:
        return job in self._waiters

    def waiter(self, job: int) -> Waiter:
        return self._waiters[job]

    def add(self, job: int, size: int, run_s: float, entry: Entry | None) -> Waiter:
        waiter: Waiter
        if self.plain:
            waiter = (job, size, run_s, job)
        else:
            assert entry is not None, "orderings but fifo look at the entry"
            waiter = (self._key(entry, entry.eligible_s - BEGIN_S), size, run_s, job)
            if self.moving:
                self._entries[job] = entry
                self._lanes[entry.key] += 1
        self._waiters[job] = waiter
        self.line.add(waiter)
        return waiter

    def remove(self, job: int) -> Waiter:
        waiter = self._waiters.pop(job)
        entry = self._entries.pop(job, None)
        if entry is not None:
            self._lanes[entry.key] -= 1
        self.line.remove(waiter)
        return waiter

    def is_behind(self, job: int) -> bool:
        """Whether a job came behind another of its lane: no pass looks at it for that."""
        return self.moving and self._lanes[self._entries[job].key] > 1

    def begin(self, now_s: float) -> None:
        """A pass begins. Where time moved them, all get a new place."""
        if not self.moving:
            return
        line = Line()
        waiters = [
            (self._key(self._entries[job], now_s), size, run_s, job)
            for _, size, run_s, job in self.line
        ]
        for waiter in sorted(waiters):
            self._waiters[waiter[3]] = waiter
            line.add(waiter)
        self.line = line

    def _key(self, entry: Entry, now_s: float) -> tuple[float, ...]:
        view = View(BEGIN_S + now_s, self._policy, NO_SHARES, NOTHING)
        return order_key(entry, view, self._primary, self._secondary, 0)
