"""The question that simpler schedulers ask of a policy, answered by the rules of the core.

``select_next_job`` and ``should_preempt`` are names that other tools know. A pass works otherwise:
it looks at all lanes at once. Here the same rules answer for a list of jobs, so that a tool
that thinks job by job decides as Rota would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rota.core.derived.holdings import least_of
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.answers.whatif import WhatIf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Queue
    from rota.scheduling.scheduler import Scheduler


class SchedulingPolicy(Protocol):
    """Which job comes next."""

    def select_next_job(self, queue: Queue, pending_jobs: Iterable[Job]) -> Job | None:
        """The job of this queue that comes first; None: none of them may start."""

    def should_preempt(self, running_jobs: Iterable[Job], new_job: Job) -> Job | None:
        """The one job that would give way for a waiting one; None: no single one would."""


class CorePolicy:
    """The rules that are in force, as of a moment."""

    def __init__(self, scheduler: Scheduler, now_s: float) -> None:
        self._inquiry = Inquiry(scheduler, now_s)
        self._scheduler, self._now_s = scheduler, now_s

    def select_next_job(self, queue: Queue, pending_jobs: Iterable[Job]) -> Job | None:
        if not queue.starts_jobs:
            return None
        this = self._inquiry.this
        ready = [
            job
            for job in pending_jobs
            if job.spec.queue == queue.name and job.eligible_s and not job.held
        ]

        def place(job: Job) -> tuple[float, ...]:
            entry = self._inquiry.entry_of(job, job.id)
            return this.keys.of(entry, least_of(entry.shape))

        return min(ready, key=place, default=None)

    def should_preempt(self, running_jobs: Iterable[Job], new_job: Job) -> Job | None:
        with WhatIf(self._scheduler, self._now_s) as world:
            plan = world.run()
        victims = [eviction.job for eviction in plan.evictions if eviction.by == new_job.id]
        if len(victims) != 1:
            return None
        return next((job for job in running_jobs if job.id == victims[0]), None)
