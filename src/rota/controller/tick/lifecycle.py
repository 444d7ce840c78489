"""What follows from what: an end settles or retries a job, a settled parent frees its children.

Everything here emits events through a ``Scribe`` of the tick; nothing does I/O.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING

from rota.controller.launches.launch import is_withheld
from rota.controller.tick.endings import no_bundle, outcome_of, succeeded
from rota.core.changes import events as ev
from rota.core.changes.dependencies import judge
from rota.core.facts.faults import lacks_bundle
from rota.core.facts.job import Attempt, Job, Outcome, RestartPolicy
from rota.core.facts.policy import PreemptMode
from rota.core.facts.states import ACTIVE, FINAL, WAITING, Blame, Cause, JobState

if TYPE_CHECKING:
    from collections.abc import Collection

    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Task
    from rota.scheduling.api import Eviction

#: A retry never waits longer than this, however often it failed.
BACKOFF_MAX_S = 3600.0
BACKOFF_DOUBLINGS_MAX = 32
#: A job whose start failed for its node's sake is given back at once the first time; then after a
#: second, twice as long each time, and never longer than this.
GIVEN_BACK_S_MAX = 120.0


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
        cluster.agenda.push(waiting.not_before_s, "begin", item)
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
    """End a job that holds nothing, and tell the jobs that waited for it."""
    for child in _end_job(scribe, job, outcome):
        consider(scribe, child)


def cut_array(scribe: Scribe, array: Array, outcome: Outcome) -> None:
    """End every element that nothing has touched yet, and tell the jobs that waited for one."""
    for child in _end_untouched(scribe, array, outcome):
        consider(scribe, child)


def _end_job(scribe: Scribe, job: Job, outcome: Outcome) -> list[int]:
    """Returns who waits for the job, or for the array that it was the last of."""
    cluster = scribe.cluster
    scribe.emit(ev.JobSettled(job=job.id, outcome=outcome))
    if job.spec.reservation:
        let_go(scribe, job.id)
    children = [*cluster.families.children.get(job.id, ())]
    if job.array_id in cluster.families.children and cluster.state_of(job.array_id) in FINAL:
        children += cluster.families.children[job.array_id]
    return children


def let_go(scribe: Scribe, job: int) -> int:
    """Devices that were kept for a job are anybody's; how many reservations that were."""
    gone = [one.id for one in scribe.cluster.reservations.values() if one.job == job]
    for number in gone:
        scribe.emit(ev.ReservationRemoved(reservation=number))
    return len(gone)


def _end_untouched(scribe: Scribe, array: Array, outcome: Outcome) -> list[int]:
    """Returns who waits for one of the elements or for the whole array."""
    block = range(array.id, array.id + array.count + 1)
    waiting = scribe.cluster.families.children.items()
    children = [child for parent, kids in waiting if parent in block for child in kids]
    scribe.emit(ev.ArrayCancelled(array=array.id, outcome=outcome))
    return children


def news_of(scribe: Scribe, job: Job) -> None:
    """A job started, or said what it has done: children that wait for just that may go."""
    cluster = scribe.cluster
    for parent in (job.id, job.array_id):
        if parent and parent in cluster.families.children:
            for child in list(cluster.families.children[parent]):
                consider(scribe, child)


def evict(scribe: Scribe, eviction: Eviction) -> None:
    """A job gives way to another, whole or with some of its tasks.

    Told in the same tick as the placement that it serves. ``suspend`` stops it where it is, and
    it lends its CPUs; ``cancel`` ends it; the other modes bring it back in its place once it has
    gone.
    """
    job = scribe.cluster.jobs.get(eviction.job)
    if job is None or job.state not in ACTIVE:
        return
    if eviction.mode is PreemptMode.SUSPEND:
        if not job.yields_to:
            yield_to(scribe, job, eviction.by)
        return
    detail = f"gave way to job {eviction.by}"
    if eviction.tasks:
        stop_attempts(scribe, job, Cause.SHRUNK, detail, eviction.tasks)
        return
    if job.after_stop in ("", "preempt", "return"):
        then = "evict" if eviction.mode is PreemptMode.CANCEL else "preempt"
        scribe.emit(ev.StopPlanned(job=job.id, then=then))
    stop_attempts(scribe, job, Cause.PREEMPTED, detail)


def wake_lenders(scribe: Scribe) -> None:
    """Jobs that stood still for others go on when all their CPUs were given back."""
    cluster = scribe.cluster
    repaid = cluster.agenda.take_repaid()
    for job_id in repaid:
        job = cluster.jobs.get(job_id)
        if job is None or not job.yields_to:
            continue
        borrower = cluster.live.borrower_of(job)
        if not borrower:
            scribe.emit(ev.JobResumed(job=job_id))
        elif borrower != job.yields_to:
            yield_to(scribe, job, borrower)


def yield_to(scribe: Scribe, job: Job, borrower: int) -> None:
    """It stands still, and lends its CPUs to this job from now on."""
    scribe.emit(ev.JobSuspended(job=job.id, by=f"job {borrower}", yields_to=borrower))


def put_back(scribe: Scribe, job: Job, cause: Cause, detail: str) -> None:
    """Stop all of a job and let it wait again: no retry is used up and no eviction counted."""
    if not job.after_stop:
        scribe.emit(ev.StopPlanned(job=job.id, then="return"))
    stop_attempts(scribe, job, cause, detail)


def stop_attempts(
    scribe: Scribe, job: Job, cause: Cause, detail: str, tasks: Collection[int] | None = None
) -> None:
    """Ask the agents to end whatever of the job is alive. The first cause stays.

    Only these ``tasks``, if any are named. No agent has heard of an attempt whose launch is
    withheld: it ends here and now. A suspended job that ends as a whole is resumed, so that it
    hears of it.
    """
    if job.suspended_s and tasks is None:
        scribe.emit(ev.JobResumed(job=job.id))
    ended = False
    for task in job.tasks:
        attempt = task.current
        if attempt is None or not attempt.live or attempt.stop_cause is not None:
            continue
        if tasks is not None and task.index not in tasks:
            continue
        if is_withheld(scribe.cluster, attempt.uid):
            _end_withheld(scribe, job, task, attempt, cause, detail)
            ended = True
            continue
        scribe.stops.add(attempt.uid)
        scribe.emit(
            ev.AttemptStopAsked(
                job=job.id, task=task.index, uid=attempt.uid, cause=cause, detail=detail
            )
        )
    if ended and not job.live_attempts:
        conclude(scribe, job)


def _end_withheld(
    scribe: Scribe, job: Job, task: Task, attempt: Attempt, cause: Cause, detail: str
) -> None:
    scribe.emit(
        ev.AttemptEnded(
            job=job.id,
            task=task.index,
            uid=attempt.uid,
            ended_s=scribe.now_s,
            cause=cause,
            detail=detail,
        )
    )


def after_attempt_end(scribe: Scribe, job: Job, ended: Attempt) -> None:
    """An attempt ended: end its peers if it failed, conclude the job if it was the last.

    The peers of a task that an elastic job gave up go on.
    """
    if job.live_attempts:
        if not succeeded(ended) and ended.cause is not Cause.SHRUNK:
            failed = next(task.index for task in job.tasks if ended in task.attempts)
            stop_attempts(scribe, job, Cause.PEER_FAILED, f"task {failed} failed")
        return
    conclude(scribe, job)


def conclude(scribe: Scribe, job: Job) -> None:
    """Nothing of the job is alive any more: back to the queue, another try, or the end."""
    if _goes_back(scribe, job):
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


def _goes_back(scribe: Scribe, job: Job) -> bool:
    """Whether it was stopped to wait again; that is seen to here.

    A job that finished its work after all, while it was giving way, has ended.
    """
    then = job.after_stop
    if not then and _first_cause(job).cause is Cause.PREEMPTED:
        then = "preempt"  # By the engine that it ran on, for somebody of whom we know nothing.
    if then in ("requeue", "hold"):
        scribe.emit(ev.JobRequeued(job=job.id, held=then == "hold"))
        consider(scribe, job.id)
        return True
    if then in ("cancel", "evict"):
        return False
    if lacks_bundle(_first_cause(job)):
        # It is as it was submitted, and can go on once the folder is there again.
        scribe.emit(ev.JobRequeued(job=job.id, kept=True))
        scribe.emit(ev.JobHeld(job=job.id, note=no_bundle(job.spec.bundle)))
        return True
    if _first_cause(job).fault is Blame.NODE:
        scribe.emit(ev.JobRequeued(job=job.id, kept=True, not_before_s=_next_start_s(scribe, job)))
        consider(scribe, job.id)
        return True
    stayed = [attempt for attempt in job.round if attempt.cause is not Cause.SHRUNK]
    if stayed and (then not in ("preempt", "return") or all(map(succeeded, stayed))):
        return False
    if then == "preempt" and job.preemptions >= job.spec.preempt_retries:
        return False
    if then == "preempt":
        scribe.emit(ev.JobPreempted(job=job.id, predicted_s=_outlived_s(job, scribe.now_s)))
    else:
        scribe.emit(ev.JobRequeued(job=job.id, kept=True))
        consider(scribe, job.id)
    return True


def _outlived_s(job: Job, now_s: float) -> int:
    """How long a job is taken to run that outlived its prediction: twice as long, as often as it
    takes; 0: it did not."""
    predicted_s = job.spec.predicted_s
    ran_s = now_s - job.started_s if job.started_s else 0.0
    while predicted_s and predicted_s <= ran_s:
        predicted_s *= 2
    return predicted_s if predicted_s != job.spec.predicted_s else 0


def _next_start_s(scribe: Scribe, job: Job) -> float:
    """When a job may be placed again that was given back; 0: now."""
    rounds: dict[int, bool] = {}
    for task in job.tasks:
        for attempt in task.attempts:
            failed = rounds.get(attempt.number, False)
            rounds[attempt.number] = failed or attempt.fault is Blame.NODE
    newest_first = [rounds[number] for number in sorted(rounds, reverse=True)]
    failed_before = len(list(itertools.takewhile(bool, newest_first))) - 1
    if not failed_before:
        return 0.0
    doublings = min(failed_before - 1, BACKOFF_DOUBLINGS_MAX)
    return scribe.now_s + min(2.0**doublings, GIVEN_BACK_S_MAX)


def _first_cause(job: Job) -> Attempt:
    """The attempt that decided the job: the first failure that no peer caused, else the last.

    Tasks that an elastic job gave up decide nothing.
    """
    ended = [a for a in job.round if a.cause is not Cause.SHRUNK] or job.round
    failures = [a for a in ended if not succeeded(a) and a.cause is not Cause.PEER_FAILED]
    if failures:
        return min(failures, key=lambda a: (a.ended_s, a.uid))
    return max(ended, key=lambda a: (a.ended_s, a.uid))


def _tries_again(job: Job, first: Attempt) -> bool:
    """Whether the budget for failures has one more try; a gang has one for all its members.

    Giving way has a budget of its own (``preempt_retries``), which no failure uses up.
    """
    spec = job.spec
    if job.after_stop in ("cancel", "evict"):
        return False
    if first.cause in (Cause.CANCELLED, Cause.PREEMPTED):
        return False
    if job.retries_used >= spec.retries:
        return False
    if spec.restart is RestartPolicy.ALWAYS:
        return True
    if spec.restart is RestartPolicy.NEVER or succeeded(first):
        return False
    wanted = spec.retry_on
    return not wanted or str(first.exit_code) in wanted or (first.cause or "") in wanted
