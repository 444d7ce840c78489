"""A pool whose jobs give way at any moment: the job that has least left to do runs.

Shortest remaining time first, or remaining time times size. Nothing is lost when a job gives
way. It needs to know how long jobs will take, so it is a measure for other rules rather than a
rule for a live site.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.sim.pool.api import PoolDecision, PoolStart

if TYPE_CHECKING:
    from rota.scheduling.api import Entry

#: Of remaining seconds: what is left after many subtractions is not exact, and ties are frequent.
DIGITS = 6


class RankedPool:
    """``total`` processors. ``weighed``: by remaining time times size."""

    def __init__(self, total: int, *, weighed: bool = False) -> None:
        self._total = total
        self._weighed = weighed
        self._now_s = 0.0
        self._sizes: dict[int, int] = {}
        self._left_s: dict[int, float] = {}
        self._running: dict[int, None] = {}

    def arrive(self, job: int, size: int, run_s: float, entry: Entry | None = None) -> None:
        self._sizes[job] = size
        self._left_s[job] = run_s

    def leave(self, job: int) -> None:
        del self._sizes[job], self._left_s[job]
        self._running.pop(job, None)

    withdraw = leave

    def expect(self, job: int, end_s: float) -> None:
        """What is left of a running job is another amount than was believed."""
        self._left_s[job] = end_s - self._now_s

    def left_s(self, job: int) -> float:
        return self._left_s[job]

    def advance(self, now_s: float) -> None:
        """The jobs that run have done so up to now."""
        ran_s = now_s - self._now_s
        if ran_s > 0:
            for job in self._running:
                self._left_s[job] -= ran_s
            self._now_s = now_s

    def decide(self, now_s: float) -> PoolDecision:
        self.advance(now_s)
        sizes, left_s = self._sizes, self._left_s
        if self._weighed:
            ranked = sorted(left_s, key=lambda job: (round(left_s[job] * sizes[job], DIGITS), job))
        else:
            ranked = sorted(left_s, key=lambda job: (round(left_s[job], DIGITS), job))
        chosen: dict[int, None] = {}
        free = self._total
        for job in ranked:
            if sizes[job] <= free:
                free -= sizes[job]
                chosen[job] = None
                if not free:
                    break
        starts = [PoolStart(job) for job in chosen if job not in self._running]
        evictions = [job for job in self._running if job not in chosen]
        self._running = chosen
        return PoolDecision(starts, evictions)
