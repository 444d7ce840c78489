"""How events about attempts change a Cluster: placed, started, asked to stop, ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.changes import events as ev
from rota.core.changes.apply_jobs import find_job, job_changed, set_attempt_timers, set_timers
from rota.core.changes.charging import asked_price, begin, charge, stop_clock
from rota.core.changes.holding import get_room, hold, let_go
from rota.core.derived.overruns import taken_s
from rota.core.derived.usage import usage_key
from rota.core.facts.errors import IllegalMove
from rota.core.facts.job import Attempt, Job, Task, granted_s
from rota.core.facts.quarantine import after_end
from rota.core.facts.states import Blame, Cause, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster

#: The most failed starts of a node that are remembered.
FAILED_KEPT = 8


def _attempt(job: Job, task: int, uid: str) -> Attempt:
    attempt = job.tasks[task].current if job.tasks else None
    if attempt is None or attempt.uid != uid or not attempt.live:
        raise IllegalMove(f"attempt {uid} is not the live attempt of job {job.id}")
    return attempt


def _attempt_placed(cluster: Cluster, event: ev.AttemptPlaced, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    number = job.next_number
    _add_missing_tasks(job)
    attempt = Attempt(
        uid=event.uid,
        number=number,
        allocation=event.allocation,
        incarnation=event.incarnation,
        placed_s=at_s,
        after=event.after,
        window_s=event.window_s,
        grace_s=granted_s(job.spec, cluster.policy.grace_max_s),
        borrows=event.borrows,
        port=event.port,
    )
    attempt.price = asked_price(cluster, attempt)
    job.tasks[event.task].attempts.append(attempt)
    job.preempted = False
    hold(cluster, job, event.task, attempt, at_s)
    if event.window_s or job.spec.task_count > 1:
        _set_first_timers(cluster, job)
    job_changed(cluster, job, before)


def _set_first_timers(cluster: Cluster, job: Job) -> None:
    """Once for all members that are placed together, and for each one that joins later."""
    latest = job.round
    if len(latest) == 1 or any(attempt.started_s for attempt in latest):
        set_attempt_timers(cluster, job)


def _add_missing_tasks(job: Job) -> None:
    """A task for each member that the spec asks for now; tasks of an older spec stay as history."""
    roles = [number for number, role in enumerate(job.spec.roles) for _ in range(role.count)]
    for index in range(len(job.tasks), len(roles)):
        job.tasks.append(Task(index=index, role=roles[index]))


def _attempt_waits(cluster: Cluster, event: ev.AttemptWaits, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    attempt = _attempt(job, event.task, event.uid)
    if attempt.stop_cause is None:
        attempt.detail = event.detail
    attempt.external, attempt.where = event.external, event.where
    attempt.waits_s = attempt.waits_s or at_s
    _wait_inside(cluster, attempt, waits=not event.where)
    job_changed(cluster, job, before)


def _wait_inside(cluster: Cluster, attempt: Attempt, *, waits: bool) -> None:
    """How many a pool lets wait decides whether it gets more."""
    node = cluster.nodes.get(attempt.allocation.node)
    if node is None or not node.spec.pool or (attempt.uid in node.inside) == waits:
        return
    if waits:
        node.inside[attempt.uid] = None
    else:
        del node.inside[attempt.uid]
    cluster.agenda.touch(node.name)


def _attempt_started(cluster: Cluster, event: ev.AttemptStarted, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    attempt = _attempt(job, event.task, event.uid)
    stop_clock(cluster, job, attempt)
    begin(cluster, job, attempt, event.started_s)
    if attempt.allocation.early:
        get_room(cluster, attempt)
    attempt.pid, attempt.external, attempt.where = event.pid, event.external, event.where
    _wait_inside(cluster, attempt, waits=False)
    if attempt.stop_cause is None:
        attempt.detail = ""
    _judge_node(cluster, job, attempt)
    set_timers(cluster, job.id, job)
    job_changed(cluster, job, before)


def _attempt_stop_asked(cluster: Cluster, event: ev.AttemptStopAsked, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    attempt = _attempt(job, event.task, event.uid)
    if attempt.stop_cause is None:
        attempt.stop_cause, attempt.stop_s, attempt.detail = event.cause, at_s, event.detail
        # When it will be gone is another moment now.
        cluster.agenda.touch(attempt.allocation.node)
    job_changed(cluster, job, before)


def _attempt_ended(cluster: Cluster, event: ev.AttemptEnded, at_s: float) -> None:
    """The end of its last attempt is not yet the end of a job: the next event of the tick says."""
    job, before = find_job(cluster, event.job)
    attempt = _attempt(job, event.task, event.uid)
    first_seen = not attempt.started_s
    if first_seen and event.started_s:
        begin(cluster, job, attempt, event.started_s)
    stop_clock(cluster, job, attempt)
    attempt.phase = Phase.ENDED
    attempt.ended_s = event.ended_s
    attempt.cause = event.cause
    attempt.exit_code = event.exit_code
    attempt.signal = event.signal
    attempt.detail = event.detail
    attempt.fault = event.fault
    attempt.peak_memory_mib = event.peak_memory_mib
    attempt.cpu_s = event.cpu_s
    attempt.gpu = event.gpu
    attempt.external = event.external or attempt.external
    attempt.where = event.where or attempt.where
    _charge(cluster, job, attempt)
    let_go(cluster, job, attempt)
    if first_seen:
        _judge_node(cluster, job, attempt)
    _remember_end(cluster, job, attempt)
    if not event.task:
        _judge_estimate(cluster, job, attempt)
    cluster.dirty.jobs[job.id] = job
    if job.live_attempts:
        # Its peers go on, and its start may have been news.
        set_timers(cluster, job.id, job)
        job_changed(cluster, job, before)


def _judge_node(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """Remember whose starts failed for the node's sake; one start that works clears it."""
    node = cluster.nodes.get(attempt.allocation.node)
    if node is None or node.spec.pool:
        return
    before = (node.failed_starts, node.coolings)
    if attempt.started_s:
        node.failed_starts, node.coolings = (), 0
    elif attempt.fault is Blame.NODE and not attempt.allocation.early:
        node.failed_starts = (*node.failed_starts, job.spec.user)[-FAILED_KEPT:]
    if (node.failed_starts, node.coolings) != before:
        cluster.dirty.nodes[node.name] = None


def _remember_end(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """A job that died at once counts against the node, one that ran well speaks for it."""
    node = cluster.nodes.get(attempt.allocation.node)
    if node is None or node.spec.pool:
        return
    ends = after_end(node.early_ends, job, attempt)
    if ends != node.early_ends:
        node.early_ends = ends
        cluster.dirty.nodes[node.name] = None


def _charge(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """The end of an attempt that ran: the rest of its use is charged, and it counts as one."""
    if attempt.started_s and attempt.ended_s > attempt.started_s:
        charge(cluster, job, attempt, attempt.ended_s)
        key = usage_key(job.spec.user, job.spec.project)
        usage = cluster.accounts.usage.get(key)
        if usage is not None:
            usage.attempts += 1
            cluster.dirty.usage[key] = None


def _judge_estimate(cluster: Cluster, job: Job, attempt: Attempt) -> None:
    """Remember whether a run outlived what it was taken to last by what its user said.

    One that was stopped before that says nothing, and a limit is kept to by force.
    """
    spec, key = job.spec, usage_key(job.spec.user, job.spec.project)
    usage = cluster.accounts.usage.get(key)
    said_s = taken_s(spec, spec.roles, cluster.policy.backfill)
    ran_s = attempt.ended_s - attempt.started_s - job.paused_s
    is_limit = spec.time_limit_s and said_s >= spec.time_limit_s
    if usage is None or not attempt.started_s or is_limit:
        return
    if attempt.cause is not Cause.EXIT and ran_s <= said_s:
        return
    before, after = usage.overruns, usage.overruns.after(said_s, ran_s)
    usage.overruns = after
    cluster.dirty.usage[key] = None
    if (after.times, after.run_s) != (before.times, before.run_s):
        cluster.lengths_changed(spec.user, spec.project)


ATTEMPT_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    ev.AttemptPlaced: _attempt_placed,
    ev.AttemptWaits: _attempt_waits,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptStopAsked: _attempt_stop_asked,
    ev.AttemptEnded: _attempt_ended,
}
