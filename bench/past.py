"""What happens to a Cluster between passes: starts come true, jobs end. Facts only, no disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState

CANCELLED = Outcome(JobState.CANCELLED, Cause.CANCELLED)

if TYPE_CHECKING:
    from random import Random

    from rota.core.cluster import Cluster
    from rota.scheduling.api import PassResult


def commit(cluster: Cluster, plan: PassResult, now_s: float, chance: Random | None = None) -> None:
    """All starts of a plan run. With ``chance`` each began at some moment within its limit."""
    for start in plan.starts:
        job = cluster.jobs[start.job]
        ago_s = chance.random() * job.spec.time_limit_s * 0.98 if chance is not None else 0.0
        tasks = start.tasks or range(len(start.allocations))
        for task, allocation in zip(tasks, start.allocations, strict=True):
            uid = job.attempt_uid(task)
            placed = ev.AttemptPlaced(
                job=job.id, task=task, uid=uid, allocation=allocation, incarnation="i/b",
                after=start.after, window_s=start.window_s,
            )  # fmt: skip
            apply(cluster, placed, now_s)
            began = ev.AttemptStarted(
                job=job.id, task=task, uid=uid, pid=1, started_s=now_s - ago_s
            )
            apply(cluster, began, now_s)


def end(cluster: Cluster, job_id: int, now_s: float) -> None:
    """A running job completes."""
    job = cluster.jobs[job_id]
    for task in job.tasks:
        if task.current is not None:
            ended = ev.AttemptEnded(
                job=job_id, task=task.index, uid=task.current.uid, ended_s=now_s,
                cause=Cause.EXIT, exit_code=0,
            )  # fmt: skip
            apply(cluster, ended, now_s)
    outcome = Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)
    apply(cluster, ev.JobSettled(job=job_id, outcome=outcome), now_s)
