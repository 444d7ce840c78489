"""How events about jobs, arrays and attempts change a Cluster.

One short function per event. Each one finds the job, changes it and hands it to ``_changed``,
which checks the move against the table, brings the indexes in step and marks the row dirty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.changes.charging import count_promise
from rota.core.changes.holding import hold
from rota.core.facts.array import Array
from rota.core.facts.endpoints import changed
from rota.core.facts.errors import IllegalMove
from rota.core.facts.indices import IndexSet
from rota.core.facts.job import Job
from rota.core.facts.states import JobState, Phase, check_move

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec


def job_changed(cluster: Cluster, job: Job, before: JobState) -> None:
    after = job.state
    if before is not after:
        check_move(job.id, before, after)
    cluster.index_job(job, before)
    cluster.dirty.jobs[job.id] = job


def find_job(cluster: Cluster, job_id: int) -> tuple[Job, JobState]:
    job = cluster.jobs.get(job_id)
    if job is None:
        raise IllegalMove(f"job {job_id} is not an unfinished job")
    return job, job.state


def _blob_stored(cluster: Cluster, event: ev.BlobStored, at_s: float) -> None:
    cluster.dirty.blobs[event.digest] = event.body


def _job_submitted(cluster: Cluster, event: ev.JobSubmitted, at_s: float) -> None:
    job = Job(
        id=event.job,
        uid=event.uid,
        spec=event.spec,
        submitted_s=at_s,
        held=event.held,
        eligible_s=at_s if event.eligible else 0.0,
        not_before_s=event.not_before_s,
        key=event.key,
    )
    cluster.ids.give(event.job)
    cluster.ids.remember(event.spec.user, event.key, event.job)
    add_job(cluster, job)
    cluster.dirty.jobs[job.id] = job


def add_job(cluster: Cluster, job: Job) -> None:
    """A job enters the cluster: at submit, on expansion, and when it is loaded from a row."""
    cluster.jobs[job.id] = job
    for task in job.tasks:
        attempt = task.current
        if attempt is not None and attempt.live:
            hold(cluster, job, task.index, attempt)
    cluster.families.enter(job)
    set_timers(cluster, job.id, job)
    if job.tasks:
        set_attempt_timers(cluster, job)
    cluster.index_job(job, None)


def set_timers(cluster: Cluster, item: int, job: Job | Array) -> None:
    if job.not_before_s and not job.eligible_s:
        cluster.agenda.push(job.not_before_s, "begin", item)
    if job.spec.dependency_timeout_s and job.spec.dependencies and not job.parents_met:
        cluster.agenda.push(job.submitted_s + job.spec.dependency_timeout_s, "parents", item)
    if job.spec.scheduling_timeout_s and job.eligible_s:
        cluster.agenda.push(job.eligible_s + job.spec.scheduling_timeout_s, "unschedulable", item)
    if isinstance(job, Job) and job.spec.deadline_s and not job.is_late:
        cluster.agenda.push(job.spec.deadline_s, "deadline", item)
        if job.promise == "open":
            cluster.agenda.push(latest_start_s(job.spec), "promise", item)
    if isinstance(job, Job) and job.tasks and job.state is JobState.RUNNING:
        if job.limit_due_s:
            cluster.agenda.push(job.limit_due_s, "time-limit", item)
        if job.spec.save_every_s:
            cluster.agenda.push(job.save_due_s, "save", item)
        if job.warn_due_s:
            cluster.agenda.push(job.warn_due_s, "warn", item)


def latest_start_s(spec: JobSpec) -> float:
    """When a job must have started, so that its limit ends it before its deadline."""
    return spec.deadline_s - spec.time_limit_s


def set_attempt_timers(cluster: Cluster, job: Job) -> None:
    """When its window ends, and when all members of a gang must have started."""
    live = job.live_attempts
    window_s = min((a.window_s for a in live if a.window_s), default=0.0)
    if window_s:
        cluster.agenda.push(window_s, "window", job.id)
    timeout_s = cluster.policy.gang.assembly_timeout_s
    unstarted = [a.placed_s for a in live if a.phase is Phase.PLACED]
    if timeout_s and unstarted and job.spec.task_count > 1:
        cluster.agenda.push(min(unstarted) + timeout_s, "assembly", job.id)


def _array_submitted(cluster: Cluster, event: ev.ArraySubmitted, at_s: float) -> None:
    array = Array(
        id=event.array,
        uid=event.uid,
        spec=event.spec,
        submitted_s=at_s,
        runs=event.runs,
        count=event.count,
        cap=event.cap,
        held=event.held,
        eligible_s=at_s if event.eligible else 0.0,
        not_before_s=event.not_before_s,
        rows=event.rows,
        waiting=IndexSet.full(event.count).spans,
        key=event.key,
    )
    cluster.ids.give(event.array + event.count)
    cluster.ids.remember(event.spec.user, event.key, event.array)
    add_array(cluster, array)
    cluster.dirty.arrays[array.id] = array


def add_array(cluster: Cluster, array: Array) -> None:
    """An array enters the cluster: at submit and when it is loaded from a row."""
    cluster.arrays[array.id] = array
    cluster.families.array_ids.append(array.id)
    if array.waiting:
        cluster.families.link(array)
        set_timers(cluster, array.id, array)
    cluster.index_array(array)


def _element_expanded(cluster: Cluster, event: ev.ElementExpanded, at_s: float) -> None:
    array = cluster.arrays[event.array]
    if event.position not in array.pending():
        raise IllegalMove(f"element {event.position} of array {array.id} was expanded before")
    array.pending().discard(event.position)
    job = array.expand(event.position)
    add_job(cluster, job)
    _array_changed_rows(cluster, array)
    cluster.dirty.jobs[job.id] = job


def _array_changed_rows(cluster: Cluster, array: Array) -> None:
    cluster.index_array(array)
    if not array.waiting:
        cluster.families.unlink(array)
    cluster.dirty.arrays[array.id] = array


def _array_cancelled(cluster: Cluster, event: ev.ArrayCancelled, at_s: float) -> None:
    array = cluster.arrays[event.array]
    for first, last in array.waiting:
        first_id, last_id = array.element_id(first), array.element_id(last)
        cluster.ids.ended.put_span(first_id, last_id, event.outcome.state)
    array.cut, array.waiting = array.waiting, []
    array.cut_outcome, array.cut_s = event.outcome, at_s
    _array_changed_rows(cluster, array)


def _array_changed(cluster: Cluster, event: ev.ArrayChanged, at_s: float) -> None:
    array = cluster.arrays[event.array]
    cluster.families.unlink(array)
    if event.spec is not None:
        _replace_spec(array, event.spec)
    if event.cap is not None:
        array.cap = event.cap
    if event.held is not None:
        array.held, array.held_note = event.held, event.note
    if event.eligible is not None:
        array.eligible_s = at_s if event.eligible else 0.0
    if event.eligible:
        array.not_before_s, array.parents_met = 0.0, True
    cluster.families.link(array)
    set_timers(cluster, array.id, array)
    cluster.lanes.remove(array.id)
    for job_id in cluster.families.unfinished.get(array.id, {}):
        cluster.index_job(cluster.jobs[job_id], cluster.jobs[job_id].state)
    cluster.rules_changed()
    _array_changed_rows(cluster, array)


def _job_eligible(cluster: Cluster, event: ev.JobEligible, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.eligible_s, job.not_before_s, job.parents_met = at_s, 0.0, True
    cluster.families.unlink(job)
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _job_held(cluster: Cluster, event: ev.JobHeld, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.held, job.held_note, job.eligible_s = True, event.note, 0.0
    cluster.families.link(job)
    job_changed(cluster, job, before)


def _job_released(cluster: Cluster, event: ev.JobReleased, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.held, job.held_note = False, ""
    job_changed(cluster, job, before)


def _job_suspended(cluster: Cluster, event: ev.JobSuspended, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    if not job.live_attempts:
        raise IllegalMove(f"job {job.id} cannot be suspended: nothing of it is alive")
    if event.yields_to and not job.suspended_s:
        job.preemptions += 1
    job.suspended_s = job.suspended_s or at_s
    job.suspended_by, job.yields_to = event.by, event.yields_to
    _touch_nodes(cluster, job)
    job_changed(cluster, job, before)


def _job_resumed(cluster: Cluster, event: ev.JobResumed, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    _wake(job, at_s)
    _touch_nodes(cluster, job)
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _touch_nodes(cluster: Cluster, job: Job) -> None:
    """It leaves its room at another time than a pass believed."""
    for attempt in job.live_attempts:
        cluster.agenda.touch(attempt.allocation.node)


def _wake(job: Job, at_s: float) -> None:
    """It is no longer suspended; the time that it was is remembered for its limit."""
    if job.suspended_s:
        job.paused_s += max(0.0, at_s - job.suspended_s)
        job.suspended_s, job.suspended_by, job.yields_to = 0.0, "", 0


def _job_updated(cluster: Cluster, event: ev.JobUpdated, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    cluster.families.unlink(job)
    cluster.lanes.remove(job.id)
    _replace_spec(job, event.spec)
    for attempt in job.live_attempts:
        # With another limit it will be gone at another moment.
        cluster.agenda.touch(attempt.allocation.node)
        cluster.live.note_mode(job, attempt)
    cluster.families.link(job)
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _replace_spec(item: Job | Array, spec: JobSpec) -> None:
    """Other parents or another begin time: what was met before must be met again."""
    old = item.spec
    if (old.dependencies, old.any_dependency) != (spec.dependencies, spec.any_dependency):
        item.eligible_s, item.parents_met = 0.0, False
    if old.begin_s != spec.begin_s:
        item.eligible_s, item.not_before_s = 0.0, spec.begin_s
    item.spec = spec


def _stop_planned(cluster: Cluster, event: ev.StopPlanned, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.after_stop = event.then
    job_changed(cluster, job, before)


def _back_in_queue(job: Job, not_before_s: float) -> None:
    _end_round(job)
    job.eligible_s = 0.0
    job.not_before_s = not_before_s


def _end_round(job: Job) -> None:
    """What concerned the attempts that have gone is over; the next round begins afresh."""
    job.after_stop = job.suspended_by = ""
    job.suspended_s = job.paused_s = 0.0
    job.yields_to = 0


def _job_retried(cluster: Cluster, event: ev.JobRetried, at_s: float) -> None:
    job, before = _job_whose_attempts_ended(cluster, event.job)
    job.retries_used += 1
    _back_in_queue(job, event.not_before_s)
    cluster.families.link(job)
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _job_requeued(cluster: Cluster, event: ev.JobRequeued, at_s: float) -> None:
    job, before = _job_whose_attempts_ended(cluster, event.job)
    if not event.kept:
        job.retries_used = 0
    job.requeues += 1
    job.held = event.held
    _back_in_queue(job, event.not_before_s)
    cluster.families.link(job)
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _job_preempted(cluster: Cluster, event: ev.JobPreempted, at_s: float) -> None:
    job, before = _job_whose_attempts_ended(cluster, event.job)
    job.preempted = True
    job.preemptions += 1
    if event.predicted_s:
        most_s = max(job.spec.predicted_most_s, event.predicted_s)
        job.spec = replace(job.spec, predicted_s=event.predicted_s, predicted_most_s=most_s)
    _end_round(job)
    job.eligible_s = at_s
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _endpoint_set(cluster: Cluster, event: ev.EndpointSet, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    alive = frozenset(attempt.uid for attempt in job.live_attempts)
    job.endpoints = changed(job.endpoints, event.endpoint, alive)
    job_changed(cluster, job, before)


def _job_entered(cluster: Cluster, event: ev.JobEntered, at_s: float) -> None:
    """For the record only."""
    find_job(cluster, event.job)


def _job_settled(cluster: Cluster, event: ev.JobSettled, at_s: float) -> None:
    job, before = _job_whose_attempts_ended(cluster, event.job)
    if job.live_attempts:
        raise IllegalMove(f"job {job.id} cannot settle: an attempt is alive")
    job.outcome = event.outcome
    job.ended_s = at_s
    if job.promise == "kept":
        count_promise(cluster, job, at_s)
    _wake(job, at_s)
    cluster.families.unlink(job)
    job_changed(cluster, job, before)


def _job_whose_attempts_ended(cluster: Cluster, job_id: int) -> tuple[Job, JobState]:
    """The state before the attempts of this tick ended: the index still knows it."""
    job, before = find_job(cluster, job_id)
    for state in (JobState.RUNNING, JobState.SCHEDULED):
        if job_id in cluster.census.by_state[state]:
            return job, state
    return job, before


JOB_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    ev.BlobStored: _blob_stored,
    ev.JobSubmitted: _job_submitted,
    ev.ArraySubmitted: _array_submitted,
    ev.ElementExpanded: _element_expanded,
    ev.ArrayCancelled: _array_cancelled,
    ev.ArrayChanged: _array_changed,
    ev.JobEligible: _job_eligible,
    ev.JobHeld: _job_held,
    ev.JobReleased: _job_released,
    ev.JobSuspended: _job_suspended,
    ev.JobResumed: _job_resumed,
    ev.JobUpdated: _job_updated,
    ev.StopPlanned: _stop_planned,
    ev.JobRetried: _job_retried,
    ev.JobRequeued: _job_requeued,
    ev.JobPreempted: _job_preempted,
    ev.EndpointSet: _endpoint_set,
    ev.JobEntered: _job_entered,
    ev.JobSettled: _job_settled,
}
