"""The two questions that simpler schedulers ask of a policy, answered by the rules of the core.

``select_next_job`` and ``should_preempt`` are names that other tools know. A pass does not work
like that: it looks at all lanes at once. Here the same rules answer for a list of jobs, so that
a tool that thinks job by job decides as Rota would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rota.core.facts.states import JobState
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.evict.search import Preemption
from rota.scheduling.limits.quota import least_of
from rota.scheduling.order.account_queues import entry_key
from rota.scheduling.order.orderings import effective_priority

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Queue
    from rota.scheduling.scheduler import Scheduler


class SchedulingPolicy(Protocol):
    """Who comes next, and who gives way for him."""

    def select_next_job(self, queue: Queue, pending_jobs: Iterable[Job]) -> Job | None:
        """The job of this queue that comes first; None: none of them may start."""

    def should_preempt(self, running_jobs: Iterable[Job], new_job: Job) -> Job | None:
        """The one job that has to give way so that the new one can start; None: nobody."""


class CorePolicy:
    """The rules that are in force, as of a moment."""

    def __init__(self, scheduler: Scheduler, now_s: float) -> None:
        self._scheduler = scheduler
        self._inquiry = Inquiry(scheduler, now_s)
        self._now_s = now_s

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
            return entry_key(this, entry, least_of(entry.shape), this.view)

        return min(ready, key=place, default=None)

    def should_preempt(self, running_jobs: Iterable[Job], new_job: Job) -> Job | None:
        """One victim that is enough; where it takes several, nobody is named."""
        this, cluster = self._inquiry.this, self._scheduler.cluster
        if not this.policy.preempt.enabled:
            return None
        search = Preemption(
            cluster, this.space.rooms, self._now_s, self._worth, self._scheduler.rules().victims
        )
        entry = self._inquiry.entry_of(new_job, new_job.id)
        priority = effective_priority(entry, this.view)
        found = search.find(entry, priority, sorted(this.space.rooms))
        if found is None or len(found.evictions) != 1:
            return None
        victim = found.evictions[0].job
        return next((job for job in running_jobs if job.id == victim), None)

    def _worth(self, job: Job) -> float:
        """What a running job is worth: its wait is over, so age does not count."""
        assert job.state is JobState.RUNNING
        entry = self._inquiry.entry_of(job, job.id)._replace(eligible_s=0.0)
        return effective_priority(entry, self._inquiry.this.view)
