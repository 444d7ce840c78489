"""What follows from what: an end settles or retries a job, a settled parent frees its children.

Everything here emits events through a ``Scribe`` of the tick; nothing does I/O.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rota.core import events as ev
from rota.core.dependencies import judge
from rota.core.job import Array, Attempt, Job, Outcome, RestartPolicy
from rota.core.states import FINAL, WAITING, Cause, JobState
from rota.core.units import format_duration

if TYPE_CHECKING:
    from rota.controller.scribe import Scribe
    from rota.core.cluster import Cluster

#: A retry never waits longer than this, however often it failed.
BACKOFF_MAX_S = 3600.0
BACKOFF_DOUBLINGS_MAX = 32

_STATE_OF_CAUSE = {
    Cause.CANCELLED: JobState.CANCELLED,
    Cause.DEPENDENCY: JobState.CANCELLED,
    Cause.TIME_LIMIT: JobState.TIMEOUT,
    Cause.NODE_LOST: JobState.NODE_FAILED,
    Cause.SCHEDULING_TIMEOUT: JobState.UNSCHEDULABLE,
}


def consider(scribe: Scribe, item: int) -> None:
    """Look at a waiting job or array again, and at whatever its end would concern.

    A loop, not a recursion: a chain of dependents may be long.
    """
    look_at = deque([item])
    while look_at:
        look_at.extend(_consider_one(scribe, look_at.popleft()))


def _consider_one(scribe: Scribe, item: int) -> list[int]:
    """Is it ready, still waiting, or without hope? Returns who must be looked at next."""
    cluster = scribe.cluster
    waiting = _waiting(cluster, item)
    if waiting is None:
        return []
    verdict = judge(cluster, waiting)
    if verdict.never and not waiting.spec.keep_waiting:
        return _end_hopeless(scribe, waiting, verdict.parent, verdict.parent_state)
    if not verdict.met or waiting.held:
        return []
    if waiting.not_before_s > scribe.now_s:
        # The timer may have rung before, while a parent was still awaited or the clock was ahead.
        cluster.push_timer(waiting.not_before_s, "begin", item)
    elif isinstance(waiting, Job):
        scribe.emit(ev.JobEligible(job=item))
    else:
        scribe.emit(ev.ArrayChanged(array=item, eligible=True))
    return []


def _waiting(cluster: Cluster, item: int) -> Job | Array | None:
    """The job or array, if it waits for something else than room."""
    job, array = cluster.jobs.get(item), cluster.arrays.get(item)
    if job is not None:
        return job if not job.eligible_s and job.state in WAITING else None
    return array if array is not None and array.waiting and not array.eligible_s else None


def _end_hopeless(
    scribe: Scribe, waiting: Job | Array, parent: int, state: JobState | None
) -> list[int]:
    how = f"ended {state}" if state is not None else "does not exist"
    outcome = Outcome(JobState.CANCELLED, Cause.DEPENDENCY, f"job {parent} {how}")
    if isinstance(waiting, Job):
        return _end_job(scribe, waiting, outcome)
    return _end_untouched(scribe, waiting, outcome)


def settle(scribe: Scribe, job: Job, outcome: Outcome) -> None:
    """End a job that holds nothing, and tell those who waited for it."""
    for child in _end_job(scribe, job, outcome):
        consider(scribe, child)


def cut_array(scribe: Scribe, array: Array, outcome: Outcome) -> None:
    """End every element that nothing has touched yet, and tell those who waited for one."""
    for child in _end_untouched(scribe, array, outcome):
        consider(scribe, child)


def _end_job(scribe: Scribe, job: Job, outcome: Outcome) -> list[int]:
    """Returns who waits for the job, or for the array that it was the last of."""
    cluster = scribe.cluster
    scribe.emit(ev.JobSettled(job=job.id, outcome=outcome))
    children = [*cluster.children.get(job.id, ())]
    if job.array_id in cluster.children and cluster.array_state(job.array_id) in FINAL:
        children += cluster.children[job.array_id]
    return children


def _end_untouched(scribe: Scribe, array: Array, outcome: Outcome) -> list[int]:
    """Returns who waits for one of the elements or for the whole array."""
    block = range(array.id, array.id + array.count + 1)
    waited_for = [kids for parent, kids in scribe.cluster.children.items() if parent in block]
    children = [child for kids in waited_for for child in kids]
    scribe.emit(ev.ArrayCancelled(array=array.id, outcome=outcome))
    return children


def start_seen(scribe: Scribe, job: Job) -> None:
    """A job started: children that wait for just that may go."""
    cluster = scribe.cluster
    for parent in (job.id, job.array_id):
        if parent and parent in cluster.children:
            for child in list(cluster.children[parent]):
                consider(scribe, child)


def stop_attempts(scribe: Scribe, job: Job, cause: Cause, detail: str) -> None:
    """Ask the agents to end whatever of the job is alive. The first cause stays."""
    for task in job.tasks:
        attempt = task.current
        if attempt is not None and attempt.live and attempt.stop_cause is None:
            scribe.stops.add(attempt.uid)
            scribe.emit(
                ev.AttemptStopAsked(
                    job=job.id, task=task.index, uid=attempt.uid, cause=cause, detail=detail
                )
            )


def after_attempt_end(scribe: Scribe, job: Job, ended: Attempt) -> None:
    """An attempt ended: end its peers if it failed, conclude the job if it was the last."""
    if job.live_attempts:
        if not succeeded(ended):
            stop_attempts(scribe, job, Cause.PEER_FAILED, f"task {ended.uid} failed")
        return
    conclude(scribe, job)


def succeeded(attempt: Attempt) -> bool:
    return attempt.cause is Cause.EXIT and attempt.exit_code == 0


def conclude(scribe: Scribe, job: Job) -> None:
    """Nothing of the job is alive any more: back to the queue, another try, or the end."""
    if job.after_stop in ("requeue", "hold"):
        scribe.emit(ev.JobRequeued(job=job.id, held=job.after_stop == "hold"))
        consider(scribe, job.id)
        return
    first = _first_cause(job)
    if _tries_again(job, first):
        doublings = min(job.retries_used, BACKOFF_DOUBLINGS_MAX)
        wait_s = min(job.spec.backoff_s * 2.0**doublings, BACKOFF_MAX_S)
        scribe.emit(
            ev.JobRetried(
                job=job.id,
                not_before_s=scribe.now_s + wait_s,
                cause=first.cause or Cause.EXIT,
                detail=first.detail,
            )
        )
        consider(scribe, job.id)
        return
    settle(scribe, job, outcome_of(job, first))


def _first_cause(job: Job) -> Attempt:
    """The attempt that decided the job: the first failure that no peer caused, else the last."""
    ended = job.round
    failures = [a for a in ended if not succeeded(a) and a.cause is not Cause.PEER_FAILED]
    if failures:
        return min(failures, key=lambda a: (a.ended_s, a.uid))
    return max(ended, key=lambda a: (a.ended_s, a.uid))


def _tries_again(job: Job, first: Attempt) -> bool:
    spec = job.spec
    if job.after_stop == "cancel" or first.cause is Cause.CANCELLED:
        return False
    if job.retries_used >= spec.retries:
        return False
    if spec.restart is RestartPolicy.ALWAYS:
        return True
    if spec.restart is RestartPolicy.NEVER or succeeded(first):
        return False
    wanted = spec.retry_on
    return not wanted or str(first.exit_code) in wanted or (first.cause or "") in wanted


def outcome_of(job: Job, first: Attempt) -> Outcome:
    """State, cause and words for the end of a job."""
    cause = first.cause or Cause.EXIT
    if succeeded(first):
        return Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)
    if cause is Cause.REQUEUED:
        return Outcome(JobState.CANCELLED, Cause.CANCELLED, "while it was being requeued")
    state = _STATE_OF_CAUSE.get(cause, JobState.FAILED)
    detail = first.detail
    if not detail and cause is Cause.EXIT:
        detail = f"exit code {first.exit_code}"
    elif not detail and cause is Cause.SIGNAL:
        detail = f"killed by signal {first.signal}"
    elif not detail and cause is Cause.TIME_LIMIT:
        detail = f"ran longer than its limit of {format_duration(job.spec.time_limit_s)}"
    return Outcome(state, cause, detail, first.exit_code, first.signal)
