"""A pool that counts: strict, with skipping, or with EASY backfill.

EASY needs two numbers: the *shadow*, when the first who waits can start by what is known, and
the *spare* processors that it leaves over then. Both stand until a job leaves, so that an
arrival costs one comparison, however many wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill
from rota.sim.pool.api import Decision, PoolStart
from rota.sim.pool.line import Line
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
        self._ranking = Ranking(policy)
        #: Candidates by how long they take, where not the queue's order decides between them.
        self._shortest = Line() if policy.backfill.shortest and self._easy else None
        self._running: list[Runner] = []
        self._runners: dict[int, Runner] = {}
        self._started = 0
        #: Came since the last pass.
        self._fresh: list[Waiter] = []
        #: Somebody left, or is taken to leave at another time: all who wait are asked again.
        self._stale = False
        #: When the first job that waits starts at the latest, and what it leaves over then.
        self.shadow_s = INFINITE
        self._spare = 0

    def arrive(self, job: int, size: int, run_s: float, entry: Entry | None = None) -> None:
        waiter = self._ranking.add(job, size, run_s, entry)
        if self._shortest is not None:
            self._shortest.add(((run_s, job), size, run_s, job))
        if not self._ranking.is_behind(job):
            self._fresh.append(waiter)

    def withdraw(self, job: int) -> None:
        waiter = self._ranking.remove(job)
        self._forget(waiter)
        self._fresh = [fresh for fresh in self._fresh if fresh is not waiter]
        self._stale = True

    def _forget(self, waiter: Waiter) -> None:
        if self._shortest is not None:
            _, size, run_s, job = waiter
            self._shortest.remove(((run_s, job), size, run_s, job))

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
        line = self._ranking.line
        return line.first[3] if len(line) else None

    def leave(self, job: int) -> None:
        runner = self._runners.pop(job, None)
        if runner is None:
            # Its time was up: its room counts as free already.
            return
        running = self._running
        del running[bisect_left(running, runner)]
        self.free += runner[2]
        self._stale = True

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

    def decide(self, now_s: float) -> Decision:
        if self._due_is_gone:
            self._let_due_go(now_s)
        starts: list[PoolStart] = []
        fresh, ranking = self._fresh, self._ranking
        if fresh or self._stale:
            if ranking.moving:
                ranking.reorder(now_s)
                self._stale = True
            if self._stale:
                self._look_at_all(now_s, starts)
            else:
                self._look_at(fresh, now_s, starts)
            fresh.clear()
        return Decision(starts)

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
        line = ranking.line
        self._stale = False
        while len(line):
            head = line.first
            if head[1] > self.free:
                break
            self._start(head, now_s, starts)
        if not len(line) or self._strict:
            return
        head = line.first
        if not self._easy:
            chosen = line.choose(self.free, now_s, INFINITE, 0) if self.free else []
        else:
            self._find_shadow(head[1], now_s)
            if not self.free or len(line) == 1:
                return
            by_key = self._shortest if self._shortest is not None else line
            chosen = by_key.choose(self.free, now_s, self.shadow_s, self._spare, head[3])
        for waiter in chosen:
            self._start(waiter, now_s, starts)

    def _look_at(self, fresh: list[Waiter], now_s: float, starts: list[PoolStart]) -> None:
        """No job left since the last pass: what waited then waits still."""
        line = self._ranking.line
        if len(fresh) == len(line) or line.first in fresh:
            # It is the first itself, and what was promised to another is not any more.
            self._look_at_all(now_s, starts)
            return
        if self._strict:
            return
        until_s = self.shadow_s if self._easy else INFINITE
        if self._shortest is not None:
            fresh.sort(key=lambda waiter: (waiter[2], waiter[3]))
        elif not self._ranking.plain:
            fresh.sort()
        for waiter in fresh:
            size = waiter[1]
            if size <= self.free and (now_s + waiter[2] <= until_s or size <= self._spare):
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
        self.shadow_s = max(shadow_s, now_s)
        self._spare = free - size if self._spares else 0

    def _start(self, waiter: Waiter, now_s: float, starts: list[PoolStart]) -> None:
        _, size, run_s, job = waiter
        self._ranking.remove(job)
        self._forget(waiter)
        end_s = now_s + run_s
        self.free -= size
        if end_s > self.shadow_s:
            self._spare -= size
        self._started += 1
        runner = self._runners[job] = (end_s, self._started, size, job)
        insort(self._running, runner)
        starts.append(PoolStart(job))
