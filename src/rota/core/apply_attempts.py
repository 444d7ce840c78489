"""How events about attempts change a Cluster: placed, started, asked to stop, ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core import events as ev
from rota.core.apply_jobs import find_job, job_changed, set_timers
from rota.core.errors import IllegalMove
from rota.core.holdings import hold, let_go
from rota.core.job import Attempt, Job, Task
from rota.core.states import Phase
from rota.core.usage import Spent, Usage, rate_of, usage_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster


def _attempt(job: Job, task: int, uid: str) -> Attempt:
    attempt = job.tasks[task].current if job.tasks else None
    if attempt is None or attempt.uid != uid or not attempt.live:
        raise IllegalMove(f"attempt {uid} is not the live attempt of job {job.id}")
    return attempt


def _attempt_placed(cluster: Cluster, event: ev.AttemptPlaced, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    number = job.next_number
    _add_missing_tasks(job)
    job.tasks[event.task].attempts.append(
        Attempt(
            uid=event.uid,
            number=number,
            allocation=event.allocation,
            incarnation=event.incarnation,
            placed_s=at_s,
            after=event.after,
            window_s=event.window_s,
        )
    )
    job.preempted = False
    hold(cluster, job, event.task, job.tasks[event.task].attempts[-1])
    job_changed(cluster, job, before)


def _add_missing_tasks(job: Job) -> None:
    """A task for each member that the spec asks for now; those of an older spec stay as history."""
    roles = [number for number, role in enumerate(job.spec.roles) for _ in range(role.count)]
    for index in range(len(job.tasks), len(roles)):
        job.tasks.append(Task(index=index, role=roles[index]))


def _attempt_started(cluster: Cluster, event: ev.AttemptStarted, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    attempt = _attempt(job, event.task, event.uid)
    attempt.phase = Phase.RUNNING
    attempt.pid = event.pid
    attempt.started_s = event.started_s
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _attempt_stop_asked(cluster: Cluster, event: ev.AttemptStopAsked, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    attempt = _attempt(job, event.task, event.uid)
    if attempt.stop_cause is None:
        attempt.stop_cause, attempt.stop_s, attempt.detail = event.cause, at_s, event.detail
    job_changed(cluster, job, before)


def _attempt_ended(cluster: Cluster, event: ev.AttemptEnded, at_s: float) -> None:
    """The end of its last attempt is not yet the end of a job: the next event of the tick says."""
    job, before = find_job(cluster, event.job)
    attempt = _attempt(job, event.task, event.uid)
    attempt.phase = Phase.ENDED
    attempt.started_s = attempt.started_s or event.started_s
    attempt.ended_s = event.ended_s
    attempt.cause = event.cause
    attempt.exit_code = event.exit_code
    attempt.signal = event.signal
    attempt.detail = event.detail
    attempt.peak_memory_mib = event.peak_memory_mib
    attempt.cpu_s = event.cpu_s
    let_go(cluster, job, attempt)
    _charge(cluster, job, attempt)
    cluster.dirty.jobs[job.id] = job
    if job.live_attempts:
        # Its peers go on, and its start may have been news.
        set_timers(cluster, job.id, job)
        job_changed(cluster, job, before)


def _charge(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """What ran is charged to its user and project: by what was declared, for as long as it ran."""
    if not attempt.started_s or attempt.ended_s <= attempt.started_s:
        return
    key = usage_key(job.spec.user, job.spec.project)
    usage = cluster.usage.get(key)
    if usage is None:
        usage = cluster.usage[key] = Usage(
            job.spec.user, job.spec.project, Spent(), attempt.ended_s, {}
        )
    usage.charge(
        rate_of(attempt.allocation),
        attempt.started_s,
        attempt.ended_s,
        cluster.policy.share.half_life_s,
    )
    cluster.dirty.usage[key] = None


ATTEMPT_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    ev.AttemptPlaced: _attempt_placed,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptStopAsked: _attempt_stop_asked,
    ev.AttemptEnded: _attempt_ended,
}
