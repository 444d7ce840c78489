"""Where each job of a pool stands: by the very orderings that the general pass uses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rota.core.facts.resources import NOTHING
from rota.scheduling.api import View
from rota.scheduling.order.keys import NO_SHARES
from rota.scheduling.order.orderings import MOVING, ORDERINGS, order_key
from rota.sim.pool.api import FIXED
from rota.sim.pool.line import PoolLine
from rota.sim.settings import BEGIN_S

if TYPE_CHECKING:
    from rota.core.derived.lanes import LaneKey
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Entry
    from rota.scheduling.order.orderings import Still
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
        self._line = PoolLine()
        self._waiters: dict[int, Waiter] = {}
        #: Where the order moves: how many wait in each lane, and what keys rest on beside time.
        self._lanes: Counter[LaneKey] = Counter()
        self._entries: dict[int, Entry] = {}
        self._stills: dict[int, tuple[Still, tuple[float, ...]]] = {}
        #: The pass that the order is asked for, and whether it is that of another one.
        self._now_s = 0.0
        self._stale = False
        self._rule = MOVING.get(order.primary) if order.secondary in FIXED else None

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def first(self) -> Waiter:
        return self.line.first

    @property
    def line(self) -> PoolLine:
        """In the order of this pass."""
        if self._stale:
            self._sort()
        return self._line

    def __contains__(self, job: int) -> bool:
        return job in self._waiters

    def waiter(self, job: int) -> Waiter:
        return self._waiters[job]

    def add(self, job: int, size: int, run_s: float, entry: Entry | None) -> Waiter:
        waiter: Waiter = (job, size, run_s, job)
        if not self.plain:
            assert entry is not None, "orderings but fifo look at the entry"
            if self.moving:
                self._entries[job] = entry
                self._lanes[entry.key] += 1
                if self._rule is not None:
                    view = self._view(0.0)
                    _, _, *rest = order_key(entry, view, self._primary, self._secondary, 0)
                    self._stills[job] = (self._rule.still(entry), tuple(rest))
            else:
                waiter = (self._key(entry, self._view(0.0)), size, run_s, job)
        self._waiters[job] = waiter
        if self.moving:
            self._stale = True
        else:
            self._line.add(waiter)
        return waiter

    def remove(self, job: int) -> Waiter:
        waiter = self._waiters.pop(job)
        entry = self._entries.pop(job, None)
        if entry is not None:
            self._lanes[entry.key] -= 1
            if not self._lanes[entry.key]:
                del self._lanes[entry.key]
            self._stills.pop(job, None)
        if not self._stale:
            self._line.remove(waiter)
        return waiter

    def is_behind(self, job: int) -> bool:
        """Whether a job came behind another of its lane: no pass looks at it for that."""
        return self.moving and self._lanes[self._entries[job].key] > 1

    def begin(self, now_s: float) -> None:
        """A pass begins. Where time moved them, all get a new place once that is asked for."""
        self._now_s = now_s
        self._stale = self.moving

    def _sort(self) -> None:
        now_s, rule = BEGIN_S + self._now_s, self._rule
        found: list[Waiter]
        if rule is not None:
            key_at, stills = rule.key_at, self._stills
            found = [
                ((key_at(now_s, *still), rest), size, run_s, job)
                for _, size, run_s, job in self._waiters.values()
                for still, rest in (stills[job],)
            ]
        else:
            view, entries = self._view(self._now_s), self._entries
            found = [
                (self._key(entries[job], view), size, run_s, job)
                for _, size, run_s, job in self._waiters.values()
            ]
        found.sort()
        # In this order they are nearly sorted the next time.
        self._waiters = {waiter[3]: waiter for waiter in found}
        self._line = PoolLine.of(found)
        self._stale = False

    def _view(self, now_s: float) -> View:
        return View(BEGIN_S + now_s, self._policy, NO_SHARES, NOTHING)

    def _key(self, entry: Entry, view: View) -> tuple[float, ...]:
        return order_key(entry, view, self._primary, self._secondary, 0)
