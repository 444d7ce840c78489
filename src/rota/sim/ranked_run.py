"""A recorded log under rules that let jobs give way at any moment: srtf and srsf."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.sim.pool.ranked import RankedPool
from rota.sim.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.sim.trace import TraceJob

INFINITE = float("inf")
#: Ends this close are one: sums of fractions are not exact, and nobody starts for a sliver.
SLIVER_S = 1e-6


def play_ranked(
    jobs: Sequence[TraceJob],
    capacity: int,
    name: str,
    *,
    weighed: bool,
    progress: Callable[[int], object] | None = None,
) -> Run:
    """Run times are known exactly, and nothing is lost when a job gives way."""
    fitting = [job for job in jobs if job.procs <= capacity]
    playing = _Playing(fitting, RankedPool(capacity, weighed=weighed))
    before_s = time.process_time()
    playing.run(progress)
    count = len(fitting)
    return Run(
        policy=name,
        jobs=fitting,
        capacity=capacity,
        start_s=playing.start_s,
        end_s=playing.end_s,
        estimate_s=[job.run_s for job in fitting],
        preemptions=playing.preemptions if any(playing.preemptions) else [0] * count,
        pieces=playing.pieces,
        too_large=len(jobs) - count,
        cpu_s=time.process_time() - before_s,
    )


class _Playing:
    def __init__(self, jobs: Sequence[TraceJob], pool: RankedPool) -> None:
        self._jobs = jobs
        self._pool = pool
        count = len(jobs)
        self.start_s: list[float] = [-1.0] * count
        self.end_s: list[float] = [0.0] * count
        self.preemptions = [0] * count
        self.pieces: list[tuple[int, float, float]] = []
        #: When the jobs that run will be done if no other comes, and since when they run.
        self._done_s: dict[int, float] = {}
        self._since_s: dict[int, float] = {}

    def run(self, progress: Callable[[int], object] | None) -> None:
        jobs, done_s, arrived, over = self._jobs, self._done_s, 0, 0
        while arrived < len(jobs) or done_s:
            now_s = min(done_s.values(), default=INFINITE)
            if arrived < len(jobs):
                now_s = min(now_s, jobs[arrived].submit_s)
            self._pool.advance(now_s)
            for position in [job for job, at_s in done_s.items() if at_s <= now_s + SLIVER_S]:
                self._end(position, now_s)
                over += 1
            while arrived < len(jobs) and jobs[arrived].submit_s <= now_s:
                self._pool.arrive(arrived, jobs[arrived].procs, jobs[arrived].run_s)
                arrived += 1
            self._decide(now_s)
            if progress is not None:
                progress(over)

    def _end(self, position: int, now_s: float) -> None:
        self._pool.leave(position)
        del self._done_s[position]
        self._pause(position, now_s)
        self.end_s[position] = now_s

    def _pause(self, position: int, now_s: float) -> None:
        since_s = self._since_s.pop(position)
        if self.preemptions[position]:
            self.pieces.append((position, since_s, now_s))

    def _decide(self, now_s: float) -> None:
        decision = self._pool.decide(now_s)
        for position in decision.evictions:
            del self._done_s[position]
            self.preemptions[position] += 1
            self._pause(position, now_s)
        for position, _ in decision.starts:
            self._since_s[position] = now_s
            self._done_s[position] = now_s + self._pool.left_s(position)
            if self.start_s[position] < 0.0:
                self.start_s[position] = now_s
