"""Where each job of a pool stands: by the very orderings that the general pass uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.resources import NOTHING
from rota.scheduling.api import View
from rota.scheduling.order.keys import NO_SHARES
from rota.scheduling.order.orderings import ORDERINGS, order_key
from rota.scheduling.pool.line import Line

if TYPE_CHECKING:
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Entry
    from rota.scheduling.pool.line import Waiter

#: Orderings whose keys never change while a job waits.
FIXED = frozenset({"fifo", "sjf", "saf", "deadline", "laxity", "limit-bonus"})


class Ranking:
    """All who wait, in the order of the policy."""

    def __init__(self, policy: Policy) -> None:
        order = policy.order
        self._policy = policy
        self._primary = ORDERINGS[order.primary]
        self._secondary = ORDERINGS[order.secondary]
        self.plain = order.primary == "fifo"
        #: The order may be another one in each pass.
        self.moving = not {order.primary, order.secondary} <= FIXED
        self.line = Line()
        self._waiters: dict[int, Waiter] = {}
        self._entries: dict[int, Entry] = {}

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
            waiter = (self._key(entry, entry.eligible_s), size, run_s, job)
            if self.moving:
                self._entries[job] = entry
        self._waiters[job] = waiter
        self.line.add(waiter)
        return waiter

    def remove(self, job: int) -> Waiter:
        waiter = self._waiters.pop(job)
        self._entries.pop(job, None)
        self.line.remove(waiter)
        return waiter

    def reorder(self, now_s: float) -> None:
        """Time moved them: everybody gets a new place."""
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
        view = View(now_s, self._policy, NO_SHARES, NOTHING)
        return order_key(entry, view, self._primary, self._secondary, 0)
