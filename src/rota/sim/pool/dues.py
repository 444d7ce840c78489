"""Who comes first in a pool under the order ``due``: by when a job is due and by fair share.

Shares move with every start and with time, and all jobs of a user move together, by a bounded
time. So the first is found among the few that are due within that time of the earliest.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from rota.scheduling.order.orderings import due_s, passing_s, set_back_s
from rota.sim.pool.api import INFINITE
from rota.sim.pool.line import PoolLine
from rota.sim.pool.shares import PoolShares
from rota.sim.settings import BEGIN_S

if TYPE_CHECKING:
    from rota.core.derived.lanes import LaneKey
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Entry
    from rota.sim.pool.line import Waiter


class Dues:
    """All who wait, by their own keys: since when too long, when due, number."""

    #: The order of those that wait is theirs for good, but for the share.
    plain = moving = False

    def __init__(self, policy: Policy, total: int) -> None:
        self._rules = policy.order
        self._too_long_s = policy.order.wait_max_s or INFINITE
        self._trust_s = policy.backfill.trust_s or self._too_long_s
        self._shares = PoolShares(policy.share, total)
        self.line = PoolLine()
        self._waiters: dict[int, Waiter] = {}
        self._entries: dict[int, Entry] = {}
        #: In the order in which they came: when each one has waited too long is known.
        self._coming: deque[int] = deque()
        #: How many wait in each lane: jobs that are alike in all but their age.
        self._lanes: Counter[tuple[LaneKey, float]] = Counter()
        #: Lanes that no pass has looked at yet.
        self._new_lanes: set[tuple[LaneKey, float]] = set()
        self._now_s = 0.0
        #: The first, while neither the jobs that wait nor the shares are others.
        self._first: Waiter | None = None

    def __contains__(self, job: int) -> bool:
        return job in self._waiters

    def __len__(self) -> int:
        return len(self._waiters)

    def waiter(self, job: int) -> Waiter:
        return self._waiters[job]

    def add(self, job: int, size: int, run_s: float, entry: Entry | None) -> Waiter:
        assert entry is not None, "the order looks at the entry"
        self._first = None
        waiter = ((INFINITE, due_s(entry, self._rules), job), size, run_s, job)
        self._waiters[job], self._entries[job] = waiter, entry
        self.line.add(waiter)
        self._coming.append(job)
        lane = (entry.key, run_s)
        if lane not in self._lanes:
            self._new_lanes.add(lane)
        self._lanes[lane] += 1
        self._shares.waits(entry.key, 1)
        return waiter

    def remove(self, job: int) -> Waiter:
        self._first = None
        waiter, entry = self._waiters.pop(job), self._entries.pop(job)
        self.line.remove(waiter)
        lane = (entry.key, waiter[2])
        self._lanes[lane] -= 1
        if not self._lanes[lane]:
            del self._lanes[lane]
        self._shares.waits(entry.key, -1)
        return waiter

    def is_behind(self, job: int) -> bool:
        """Whether a job came behind another of its lane: no pass looks at it for that."""
        lane = (self._entries[job].key, self._waiters[job][2])
        return self._lanes[lane] > 1 and lane not in self._new_lanes

    def passing_key(self, job: int) -> tuple[float, int]:
        """In which order jobs may pass the first."""
        return (passing_s(self._entries[job], self._rules), job)

    def limit_s(self, job: int) -> float:
        return self._entries[job].key.time_limit_s or INFINITE

    def begin(self, now_s: float) -> None:
        """A pass begins: jobs that have waited too long come to the front, the oldest first."""
        self._now_s = BEGIN_S + now_s
        self._first = None
        self._new_lanes.clear()
        self._shares.begin(now_s)
        coming = self._coming
        while coming:
            waiter = self._waiters.get(coming[0])
            if waiter is not None:
                since_s = self._entries[coming[0]].eligible_s
                if not self._now_s - since_s > self._too_long_s:
                    return
                (_, own_s, job), size, run_s, _ = waiter
                self.line.remove(waiter)
                waiter = self._waiters[job] = ((since_s, own_s, job), size, run_s, job)
                self.line.add(waiter)
            coming.popleft()

    @property
    def first(self) -> Waiter:
        """The job that comes first as of this pass."""
        if self._first is None:
            self._first = self._find_first()
        return self._first

    def _find_first(self) -> Waiter:
        return self._alone() or self._by_share()

    def _alone(self) -> Waiter | None:
        """The one that comes first whatever the shares: no other user's job is due so soon that
        use could set the one behind the other."""
        front: Waiter | None = None
        user, since_s, until_s = "", 0.0, 0.0
        for waiter in self.line:
            if front is None:
                front = waiter
                user = self._entries[waiter[3]].key.user
                since_s, until_s = waiter[0][0], waiter[0][1] + self._rules.share_s
            elif waiter[0][0] > since_s or waiter[0][1] > until_s:
                break
            elif self._entries[waiter[3]].key.user != user:
                return None
        return front

    def _by_share(self) -> Waiter:
        best: tuple[float, float, int] | None = None
        seen: set[str] = set()
        for waiter in self.line:
            since_s, own_s, job = waiter[0]
            if best is not None and (since_s, own_s) > best[:2]:
                break
            user = self._entries[job].key.user
            if user in seen:
                continue
            seen.add(user)
            full = (since_s, own_s + set_back_s(self._shares.ratio(user), self._rules), job)
            if best is None or full < best:
                best = full
        assert best is not None, "nobody waits"
        return self._waiters[best[2]]

    def is_firm(self, job: int) -> bool:
        """Whether a job has waited so long that only limits count against it."""
        return self._now_s - self._entries[job].eligible_s - self._trust_s > 0.0

    def starts(self, job: int, size: int) -> None:
        self._first = None
        self._shares.starts(job, self._entries[job].key, size)

    def leaves(self, job: int) -> None:
        self._shares.leaves(job)
