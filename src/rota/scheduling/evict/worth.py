"""What jobs are worth when one wants the room of another: by priority, or by length.

By length a job that is taken to run half as long is worth 100 more. A run that outlives what it
was taken to last is taken to last twice as long, so it is worth 100 less from then on: a job of
which nobody knew how long it is gives way to shorter ones in the end.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from rota.core.facts.policy import PreemptBy
from rota.scheduling.order.lengths import run_s_of
from rota.scheduling.order.orderings import effective_priority, worth_of

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.scheduling.api import Entry, View

INFINITE = float("inf")
#: What half the length is worth.
HALVED = 100.0


class Worth:
    """Made for each pass."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        self._cluster = cluster
        self._view = view
        self.by_length = cluster.policy.preempt.by is PreemptBy.LENGTH

    def of(self, entry: Entry) -> float:
        """A job that waits."""
        if self.by_length:
            return _of_length(entry.run_s)
        return effective_priority(entry, self._view)

    def of_running(self, job: Job) -> float:
        """A job whose wait is over, so that age does not count."""
        if self.by_length:
            return _of_length(self._lasts_s(job))
        return worth_of(job.spec, 0.0, self._view)

    def fades_on_s(self, name: str, below: float) -> float:
        """When the first job on a node that is worth more than this no longer is; infinite: never.

        That one is worth less already is known, and was looked at.
        """
        if not self.by_length:
            return INFINITE
        where, jobs = self._cluster.live.where, self._cluster.jobs
        here = {where[uid][0] for uid in self._cluster.nodes[name].live}
        return min([self._fades_s(jobs[job], below) for job in here], default=INFINITE)

    def fades_s(self, below: float) -> float:
        """The same on all nodes."""
        if not self.by_length:
            return INFINITE
        return min([self.fades_on_s(name, below) for name in self._cluster.nodes], default=INFINITE)

    def _lasts_s(self, job: Job) -> float:
        """How long a running job is taken to run, all in all."""
        run_s, limit_s = self._taken_s(job)
        while job.started_s and job.started_s + run_s <= self._view.now_s and run_s < limit_s:
            run_s *= 2.0
        return min(run_s, limit_s)

    def _fades_s(self, job: Job, below: float) -> float:
        run_s, limit_s = self._taken_s(job)
        if not job.started_s or _of_length(limit_s) > below:
            return INFINITE
        while _of_length(min(2.0 * run_s, limit_s)) > below:
            run_s *= 2.0
        at_s = job.started_s + run_s
        return at_s if at_s > self._view.now_s and _of_length(run_s) > below else INFINITE

    def _taken_s(self, job: Job) -> tuple[float, float]:
        """What it was taken to run when it started, and its limit."""
        run_s = max(run_s_of(self._cluster, job.spec, job.spec.roles), 1.0)
        return run_s, float(job.spec.time_limit_s or INFINITE)


def _of_length(run_s: float) -> float:
    return -HALVED * log2(max(run_s, 1.0)) if run_s < INFINITE else -INFINITE
