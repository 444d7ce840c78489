"""A pool that counts: strict, with skipping, or with EASY backfill.

EASY needs two numbers: the *shadow*, when the first who waits can start by what is known, and
the *spare* processors that it leaves over then. Both stand until a job leaves, so that an
arrival costs one comparison, however many wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill
from rota.scheduling.order.orderings import DUE
from rota.sim.pool.api import PoolDecision, PoolStart
from rota.sim.pool.candidates import PoolCandidates
from rota.sim.pool.dues import Dues
from rota.sim.pool.ranking import Ranking

if TYPE_CHECKING:
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Entry
    from rota.sim.pool.line import Waiter

INFINITE = float("inf")
#: When it is taken to end, in which order it started, its size, its number.
Runner = tuple[float, int, int, int]


class CountedPool:
    """``total`` processors; who waits, who runs, and how long they are taken to."""

    def __init__(self, total: int, policy: Policy, *, due_is_gone: bool = False) -> None:
        """``due_is_gone``: who is taken to end now leaves its room before it says so."""
        self.free = total
        self._due_is_gone = due_is_gone
        self._strict = policy.order.strict
        self._easy = policy.backfill.kind is Backfill.EASY and not self._strict
        self._spares = policy.backfill.spare
        self._dues = Dues(policy, total) if policy.order.primary == DUE else None
        self._ranking = Ranking(policy) if self._dues is None else self._dues
        self._candidates = PoolCandidates(
            self._dues, shortest=policy.backfill.shortest and self._easy
        )
        self._running: list[Runner] = []
        self._runners: dict[int, Runner] = {}
        self._started = 0
        #: Came since the last pass.
        self._fresh: list[Waiter] = []
        #: Somebody left, or is taken to leave at another time: all who wait are asked again.
        self._stale = False
        #: How many jobs of each size wait, and the smallest of these sizes.
        self._sizes: dict[int, int] = {}
        self._least: float = INFINITE
        #: When the first job that waits starts at the latest (None: not asked for as of the last
        #: pass, which was then), and what it leaves over.
        self._shadow_s: float | None = INFINITE
        self._looked_s = 0.0
        self._spare = 0

    def arrive(
        self,
        job: int,
        size: int,
        run_s: float,
        entry: Entry | None = None,
        stay_s: float = 0.0,
    ) -> None:
        waiter = self._ranking.add(job, size, run_s, entry)
        self._candidates.add(job, size, run_s, stay_s)
        self._sizes[size] = self._sizes.get(size, 0) + 1
        self._least = min(self._least, size)
        if not self._ranking.is_behind(job) or self._keeps_out:
            self._fresh.append(waiter)

    @property
    def _keeps_out(self) -> bool:
        """Whether a job that has room waits for the sake of the first: then every pass looks."""
        return self._easy and self._least <= self.free

    @property
    def shadow_s(self) -> float:
        """When the first job that waits starts at the latest, as of the last pass."""
        if self._shadow_s is None:
            self._find_shadow(self._ranking.first[1], self._looked_s)
        assert self._shadow_s is not None
        return self._shadow_s

    def withdraw(self, job: int) -> None:
        waiter = self._take(job)
        self._fresh = [fresh for fresh in self._fresh if fresh is not waiter]
        self._stale = True

    def _take(self, job: int) -> Waiter:
        """A job waits no longer."""
        size = self._ranking.waiter(job)[1]
        self._candidates.remove(job)
        self._sizes[size] -= 1
        if not self._sizes[size]:
            del self._sizes[size]
            self._least = min(self._sizes, default=INFINITE)
        return self._ranking.remove(job)

    def hold(self, job: int, size: int, end_s: float) -> None:
        """A job runs that the pool need not start, or started itself: it is taken to end then."""
        if job in self._runners:
            self.expect(job, end_s)
            return
        self._started += 1
        self.free -= size
        runner = self._runners[job] = (end_s, self._started, size, job)
        insort(self._running, runner)
        self._stale = True

    @property
    def first(self) -> int | None:
        """Who waits and is first; None: nobody does."""
        return self._ranking.first[3] if len(self._ranking) else None

    def leave(self, job: int) -> None:
        runner = self._runners.pop(job, None)
        if runner is None:
            # Its time was up: its room counts as free already.
            return
        running = self._running
        del running[bisect_left(running, runner)]
        self.free += runner[2]
        self._stale = True
        if self._dues is not None:
            self._dues.leaves(job)

    def expect(self, job: int, end_s: float) -> None:
        runner = self._runners.get(job)
        if runner is None:
            return
        if runner[0] == end_s:
            return
        _, order, size, _ = runner
        del self._running[bisect_left(self._running, runner)]
        runner = self._runners[job] = (end_s, order, size, job)
        insort(self._running, runner)
        self._stale = True

    def decide(self, now_s: float) -> PoolDecision:
        if self._due_is_gone:
            self._let_due_go(now_s)
        starts: list[PoolStart] = []
        fresh, ranking = self._fresh, self._ranking
        # A job that is let past may hold its room beyond the shadow, which moves: others may pass.
        while fresh or self._stale:
            ranking.begin(now_s)
            if self._least > self.free:
                # Who comes first is not asked before a job is small enough to start.
                self._stale, self._shadow_s, self._looked_s = False, None, now_s
                self._candidates.behind(-1)
                fresh.clear()
                break
            if ranking.moving or (len(ranking) and ranking.first[3] != self._candidates.head):
                self._stale = True
            if self._stale:
                self._look_at_all(now_s, starts)
            else:
                self._look_at(fresh, now_s, starts)
            fresh.clear()
        return PoolDecision(starts)

    def _let_due_go(self, now_s: float) -> None:
        running = self._running
        while running and running[0][0] <= now_s:
            _, _, size, job = running.pop(0)
            del self._runners[job]
            self.free += size
            self._stale = True

    def _look_at_all(self, now_s: float, starts: list[PoolStart]) -> None:
        """From the first on: what fits starts, and behind a job that does not, what may pass it."""
        ranking = self._ranking
        self._stale, self._shadow_s = False, INFINITE
        self._candidates.behind(-1)
        while len(ranking):
            head = ranking.first
            if head[1] > self.free:
                break
            self._start(head, now_s, starts)
        if not len(ranking) or self._strict:
            return
        head = ranking.first
        self._candidates.behind(head[3])
        if not self._easy:
            chosen = ranking.line.choose(self.free, now_s, INFINITE, 0) if self.free else []
        else:
            self._find_shadow(head[1], now_s)
            if not self.free or len(ranking) == 1:
                return
            among = self._candidates.among(ranking.line)
            stays = self._candidates.stays
            chosen = among.choose(self.free, now_s, self.shadow_s, self._spare, head[3], stays)
        for waiter in chosen:
            self._start(ranking.waiter(waiter[3]), now_s, starts)

    def _look_at(self, fresh: list[Waiter], now_s: float, starts: list[PoolStart]) -> None:
        """No job left since the last pass: what waited then waits still."""
        if len(fresh) == len(self._ranking) or self._ranking.first in fresh:
            # It is the first itself, and what was promised to another is not any more.
            self._look_at_all(now_s, starts)
            return
        if self._strict:
            return
        until_s = self.shadow_s if self._easy else INFINITE
        candidates = self._candidates
        candidates.behind(candidates.head)
        candidates.sort(fresh, plain=self._ranking.plain)
        for waiter in fresh:
            size = waiter[1]
            in_time = now_s + candidates.stays_s(waiter) <= until_s
            if size <= self.free and (in_time or size <= self._spare):
                self._start(waiter, now_s, starts)

    def _find_shadow(self, size: int, now_s: float) -> None:
        """When the first job that waits finds room, and what it leaves over then."""
        free, shadow_s = self.free, INFINITE
        for end_s, _, held, _ in self._running:
            if free >= size and end_s > shadow_s:
                break
            free += held
            if free >= size:
                shadow_s = end_s
        self._shadow_s = max(shadow_s, now_s)
        self._spare = free - size if self._spares else 0

    def _start(self, waiter: Waiter, now_s: float, starts: list[PoolStart]) -> None:
        _, size, run_s, job = waiter
        holds_s = self._candidates.holds_s(waiter)
        end_s = now_s + holds_s
        if self._dues is not None:
            self._dues.starts(job, size)
        self._take(job)
        self.free -= size
        if end_s > self.shadow_s:
            self._spare -= size
            # The first may start later than was worked out: others may be gone by then.
            self._stale = self._stale or holds_s > run_s
        self._started += 1
        runner = self._runners[job] = (end_s, self._started, size, job)
        insort(self._running, runner)
        starts.append(PoolStart(job))
