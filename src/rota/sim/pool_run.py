"""A recorded log through the pool of the scheduling core, on a virtual clock.

Jobs are told to the pool by their position in the log. Nothing is random.
"""

from __future__ import annotations

import time
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill, Estimates
from rota.scheduling.later.predict import Predictor
from rota.sim.entries import Entries
from rota.sim.lengths import is_stopped, lasts_s, taken_s
from rota.sim.pool.easy import CountedPool
from rota.sim.pool.planned import PlannedPool
from rota.sim.pool.profile import numbers_of
from rota.sim.run import Run
from rota.sim.settings import Events, SimOverrun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.core.facts.policy import Policy
    from rota.scheduling.later.predict import Prediction
    from rota.sim.pool.api import Pool
    from rota.sim.settings import SimSettings
    from rota.sim.trace import TraceJob

INFINITE = float("inf")
#: Jobs between two looks at the progress bar.
STEP = 512


def play_pool(
    jobs: Sequence[TraceJob],
    capacity: int,
    name: str,
    policy: Policy,
    settings: SimSettings,
    progress: Callable[[int], object] | None = None,
) -> Run:
    """Play a log on equal processors. ``progress`` hears how many jobs have ended."""
    fitting = [job for job in jobs if job.procs <= capacity]
    playing = _Playing(fitting, capacity, policy, settings, progress)
    before_s = time.process_time()
    playing.run()
    run = Run(
        policy=name,
        jobs=fitting,
        capacity=capacity,
        start_s=playing.start_s,
        end_s=playing.end_s,
        estimate_s=playing.estimate_s,
        killed=playing.killed,
        too_large=len(jobs) - len(fitting),
        cpu_s=time.process_time() - before_s,
    )
    if settings.pinned:
        run.nodes = [ranges(numbers_of(held)) for held in playing.held]
    if playing.predictor is not None:
        run.extra["coverage"] = playing.predictor.coverage
    return run


def pool_for(capacity: int, policy: Policy, settings: SimSettings) -> Pool:
    """The pool that fits the policy."""
    due_is_gone = settings.events is Events.SINGLE
    conservative = policy.backfill.kind is Backfill.CONSERVATIVE
    if conservative or settings.pinned:
        return PlannedPool(capacity, policy, pinned=settings.pinned, due_is_gone=due_is_gone)
    return CountedPool(capacity, policy, due_is_gone=due_is_gone)


class _Playing:
    """One log while it is played."""

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        capacity: int,
        policy: Policy,
        settings: SimSettings,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._jobs = jobs
        self._settings = settings
        self._pool = pool_for(capacity, policy, settings)
        self._progress = progress
        count = len(jobs)
        self.start_s: list[float] = [0] * count
        self.end_s: list[float] = [0] * count
        self.estimate_s: list[float] = [0] * count
        self.held: list[int] = [0] * count if settings.pinned else []
        self.killed = [at for at, job in enumerate(jobs) if is_stopped(job, settings)]
        predicts = policy.backfill.estimates is Estimates.PREDICTED
        self.predictor = Predictor() if predicts else None
        self._made: dict[int, Prediction] = {}
        self._entries = None if policy.order.primary == "fifo" else Entries()
        #: How long each one runs, now that nobody waits for it any more.
        self._lasts_s = [lasts_s(job, settings) for job in jobs]
        #: What it is taken to run by what its user said, or by people who know.
        self._taken_s = [taken_s(job, settings) for job in jobs]
        self._stops = settings.overrun is SimOverrun.KILL
        #: What ends, and what outlives its estimate: when, in the order of starts, and who.
        self._ends: list[tuple[float, int, int]] = []
        self._expiries: list[tuple[float, int, int]] = []
        #: When somebody is to start even if nothing happens before.
        self._wake_s = INFINITE
        self._started = 0
        self._arrived = 0
        self._over = 0

    def run(self) -> None:
        step = self._one if self._settings.events is Events.SINGLE else self._instant
        count = len(self._jobs)
        while self._arrived < count or self._ends or self._wake_s != INFINITE:
            step()
        if self._progress is not None:
            self._progress(count)

    @property
    def _next_arrival_s(self) -> float:
        at = self._arrived
        return self._jobs[at].submit_s if at < len(self._jobs) else INFINITE

    def _one(self) -> None:
        """The next event by itself, and a pass.

        That somebody stays longer is no event, but what is known from then on: of all who do, it
        is known before anything is decided, or the others' room would count as free.
        """
        arrival_s = self._next_arrival_s
        end_s = self._ends[0][0] if self._ends else INFINITE
        now_s = min(arrival_s, end_s, self._wake_s)
        expiries = self._expiries
        if expiries and expiries[0][0] < now_s:
            now_s = expiries[0][0]
        while expiries and expiries[0][0] <= now_s:
            self._expire()
        if arrival_s <= now_s:
            self._arrive()
        elif end_s <= now_s:
            self._leave()
        # Else time alone brings a slot, or changes what is known.
        self._decide(now_s)

    def _instant(self) -> None:
        """Everything that happens at the next instant, and one pass."""
        now_s = min(self._next_arrival_s, self._wake_s)
        ends, expiries = self._ends, self._expiries
        if ends and ends[0][0] < now_s:
            now_s = ends[0][0]
        if expiries and expiries[0][0] < now_s:
            now_s = expiries[0][0]
        while ends and ends[0][0] <= now_s:
            self._leave()
        while expiries and expiries[0][0] <= now_s:
            self._expire()
        jobs = self._jobs
        while self._arrived < len(jobs) and jobs[self._arrived].submit_s <= now_s:
            self._arrive()
        self._decide(now_s)

    def _arrive(self) -> None:
        position = self._arrived
        self._arrived += 1
        job = self._jobs[position]
        estimate_s = self.estimate_s[position] = self._estimate(position, job)
        # Promises to others rest on how long it may stay, not on what it likely takes.
        stay_s = self._made[position].stay_s if self.predictor is not None else 0.0
        entry = None
        if self._entries is not None:
            limit_s = self._taken_s[position] if self._stops else 0
            entry = self._entries.entry(position, job, estimate_s, limit_s)
        self._pool.arrive(position, job.procs, estimate_s, entry, stay_s)

    def _estimate(self, position: int, job: TraceJob) -> float:
        if self.predictor is not None:
            most_s = self._taken_s[position]
            made = self.predictor.predict(job.user, job.name, job.procs, most_s)
            self._made[position] = made
            return min(made.planned_s, most_s) if made.known else most_s
        return self._taken_s[position]

    def _leave(self) -> None:
        end_s, _, position = heappop(self._ends)
        self._pool.leave(position)
        self.end_s[position] = end_s
        self._over += 1
        if self.predictor is not None:
            job, made = self._jobs[position], self._made.pop(position)
            ran_s = self._lasts_s[position]
            most_s = self._taken_s[position]
            self.predictor.learn(job.user, job.name, job.procs, most_s, ran_s, made)
        if self._progress is not None and not self._over % STEP:
            self._progress(self._over)

    def _expire(self) -> None:
        """A job outlives its estimate: it is taken to run longer from now on."""
        now_s, order, position = heappop(self._expiries)
        ran_s = now_s - self.start_s[position]
        if self._lasts_s[position] <= ran_s:
            return
        known_s = max(2 * ran_s, ran_s + 1)
        self._pool.expect(position, self.start_s[position] + known_s)
        if known_s < self._lasts_s[position]:
            heappush(self._expiries, (self.start_s[position] + known_s, order, position))

    def _decide(self, now_s: float) -> None:
        starts, _, self._wake_s = self._pool.decide(now_s)
        for position, held in starts:
            self._started += 1
            self.start_s[position] = now_s
            if self.held:
                self.held[position] = held
            lasts_s, estimate_s = self._lasts_s[position], self.estimate_s[position]
            if self.predictor is not None:
                estimate_s = self._made[position].stay_s
                self._pool.expect(position, now_s + estimate_s)
            heappush(self._ends, (now_s + lasts_s, self._started, position))
            if lasts_s > estimate_s:
                heappush(self._expiries, (now_s + estimate_s, self._started, position))


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as people write them: ``0-3,7``."""
    parts: list[str] = []
    at = 0
    while at < len(numbers):
        last = at
        while last + 1 < len(numbers) and numbers[last + 1] == numbers[last] + 1:
            last += 1
        first = str(numbers[at])
        parts.append(first if last == at else f"{first}-{numbers[last]}")
        at = last + 1
    return ",".join(parts)
