"""What is due: begin times, timeouts and limits, windows, reservations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.launches.launch import is_withheld
from rota.controller.tick import lifecycle, migrate
from rota.controller.tick.promised import break_promise, judge_start
from rota.core.changes import events as ev
from rota.core.changes.dependencies import judge
from rota.core.facts.array import Array
from rota.core.facts.errors import Blaming
from rota.core.facts.job import Job, Outcome
from rota.core.facts.policy import Overrun
from rota.core.facts.states import ACTIVE, WAITING, Cause, JobState, Phase
from rota.core.words.units import format_duration, format_when
from rota.hours import standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.tick.scribe import Scribe
    from rota.core.derived.agenda import Timer
    from rota.core.facts.job import Attempt


#: A node that ends shall be empty so long before; who saves work has so long for it, and beside
#: its grace; so often it is looked who is there.
END_MARGIN_S, SAVE_S, END_LOOK_S = 10.0, 60.0, 30.0


def fire_due(scribe: Scribe) -> None:
    """Look at everything whose time has come. A timer that is moot by now does nothing."""
    while (timer := scribe.cluster.agenda.pop_due(scribe.now_s)) is not None:
        with Blaming(timer.id, f"its timer {timer.kind!r} broke"):
            RINGS[timer.kind](scribe, timer)
    lifecycle.wake_lenders(scribe)


def _begin(scribe: Scribe, timer: Timer) -> None:
    lifecycle.consider(scribe, timer.id)


def _give_up(scribe: Scribe, timer: Timer) -> None:
    cluster = scribe.cluster
    waiting: Job | Array | None = cluster.jobs.get(timer.id) or cluster.arrays.get(timer.id)
    if waiting is None or not waiting.eligible_s:
        return
    timeout_s = waiting.spec.scheduling_timeout_s
    if not timeout_s or waiting.eligible_s + timeout_s > scribe.now_s:
        return
    outcome = Outcome(
        JobState.UNSCHEDULABLE,
        Cause.SCHEDULING_TIMEOUT,
        f"found no room within {format_duration(timeout_s)}",
    )
    _end_waiting(scribe, waiting, outcome)


def _parents_late(scribe: Scribe, timer: Timer) -> None:
    """Its parents had their time: it does not wait for them any longer."""
    cluster = scribe.cluster
    waiting: Job | Array | None = cluster.jobs.get(timer.id) or cluster.arrays.get(timer.id)
    timeout_s = waiting.spec.dependency_timeout_s if waiting is not None else 0
    if waiting is None or not timeout_s or waiting.submitted_s + timeout_s > scribe.now_s:
        return
    verdict = judge(cluster, waiting)
    if not verdict.met:
        state = verdict.parent_state or "unknown"
        detail = f"job {verdict.parent} was still {state} after {format_duration(timeout_s)}"
        outcome = Outcome(JobState.CANCELLED, Cause.DEPENDENCY, detail)
        _end_waiting(scribe, waiting, outcome)


def _end_waiting(scribe: Scribe, waiting: Job | Array, outcome: Outcome) -> None:
    if isinstance(waiting, Array):
        if waiting.waiting:
            lifecycle.cut_array(scribe, waiting, outcome)
    elif waiting.state in WAITING:
        lifecycle.settle(scribe, waiting, outcome)


def _stop_overlong(scribe: Scribe, timer: Timer) -> None:
    cluster = scribe.cluster
    job = cluster.jobs.get(timer.id)
    if job is None or job.state not in ACTIVE or not job.limit_due_s:
        return
    due_s = job.limit_due_s
    if due_s > scribe.now_s:
        cluster.agenda.push(due_s, "time-limit", job.id)
        return
    limit = format_duration(job.spec.time_limit_s)
    lifecycle.stop_attempts(scribe, job, Cause.TIME_LIMIT, f"ran longer than its limit of {limit}")


def _end_window(scribe: Scribe, timer: Timer) -> None:
    """A backfilled job is still there when the room was to be free: it goes back, or stays."""
    job = scribe.cluster.jobs.get(timer.id)
    if job is None or scribe.cluster.policy.backfill.overrun is not Overrun.STOP:
        return
    ends = [a.window_s for a in job.live_attempts if a.window_s and a.stop_cause is None]
    if ends and min(ends) <= scribe.now_s:
        detail = "was still there when the room that it was lent was due"
        lifecycle.put_back(scribe, job, Cause.BACKFILL_WINDOW, detail)


def _disband(scribe: Scribe, timer: Timer) -> None:
    """A gang of which some tasks did not start in time: all of it goes back and tries anew.

    An elastic one that has enough running members only gives up those that are missing.
    """
    cluster = scribe.cluster
    job = cluster.jobs.get(timer.id)
    timeout_s = cluster.policy.gang.assembly_timeout_s
    if job is None or not timeout_s:
        return
    unstarted = [
        task
        for task in job.tasks
        if (attempt := task.current) is not None
        and attempt.phase is Phase.PLACED
        and attempt.stop_cause is None
    ]
    if not unstarted:
        return
    if any(is_withheld(cluster, task.attempts[-1].uid) for task in unstarted):
        # Its time counts from when the others have left.
        cluster.agenda.push(scribe.now_s + timeout_s, "assembly", job.id)
        return
    late = [t for t in unstarted if _start_due_s(t.attempts[-1], timeout_s) <= scribe.now_s]
    if not late:
        next_s = min(_start_due_s(task.attempts[-1], timeout_s) for task in unstarted)
        cluster.agenda.push(next_s, "assembly", job.id)
        return
    detail = f"not all tasks had started after {format_duration(timeout_s)}"
    if migrate.enough_without(job, {task.index for task in late}):
        tasks = [task.index for task in late]
        lifecycle.stop_attempts(scribe, job, Cause.SHRUNK, detail, tasks)
    else:
        lifecycle.put_back(scribe, job, Cause.ASSEMBLY_TIMEOUT, detail)


def _start_due_s(attempt: Attempt, timeout_s: int) -> float:
    """Twice the time for one that had to wait for others: nobody wrote down when they had gone."""
    return attempt.placed_s + timeout_s * (2 if attempt.after else 1)


def _empty_nodes(scribe: Scribe, timer: Timer) -> None:
    """Nodes that had to be empty by now are."""
    for node in list(scribe.cluster.nodes.values()):
        if node.drained and node.deadline_s and node.deadline_s <= scribe.now_s:
            migrate.force(scribe, node)


def _end_nodes(scribe: Scribe, timer: Timer) -> None:
    """Nodes whose end is near take nothing new; what would outlive them saves its work and goes."""
    cluster = scribe.cluster
    for name in [*cluster.live.ending]:
        node = cluster.nodes[name]
        last_s = node.spec.ends_s - END_MARGIN_S
        stay = [
            cluster.live.attempt(uid).grace_s
            for uid in node.live
            if not 0 < cluster.jobs[cluster.live.where[uid][0]].limit_due_s <= last_s
        ]
        force_s = last_s - max(stay, default=0.0)
        due_s = force_s - (SAVE_S if stay else 0.0)
        if node.drained:
            continue
        if due_s > scribe.now_s:
            # Looked at again before that: those that come meanwhile may need longer.
            cluster.agenda.push(min(due_s, scribe.now_s + END_LOOK_S), "ends", 0)
            continue
        note = f"the node ends at {format_when(node.spec.ends_s)}"
        by_s = max(force_s, scribe.now_s)
        scribe.emit(
            ev.NodeDrained(
                node=name, drained=True, note=note, migrate=True, deadline_s=by_s, by="rota"
            )
        )
        migrate.empty(scribe, node)


def _try_nodes(scribe: Scribe, timer: Timer) -> None:
    """Nodes on which starts failed for their own sake take work again, on trial."""
    for node in list(scribe.cluster.nodes.values()):
        if node.cools_s and node.cools_s <= scribe.now_s:
            scribe.emit(ev.NodeDrained(node=node.name, drained=False, trial=True))


def _reopen_pools(scribe: Scribe, timer: Timer) -> None:
    """Pools that were closed to some tasks for a while take them again."""
    for node in list(scribe.cluster.nodes.values()):
        left = tuple(closure for closure in node.closures if closure.until_s > scribe.now_s)
        if left != node.closures:
            scribe.emit(ev.PoolClosed(node=node.name, closures=left))


def _save(scribe: Scribe, timer: Timer) -> None:
    """A job that wants to be reminded is asked to save its work, unless it has just done so."""
    cluster = scribe.cluster
    while cluster.agenda.timers and cluster.agenda.timers[0] == timer:
        # Each update of the job set one more; as they ring together, one of them goes on.
        cluster.agenda.pop_due(scribe.now_s)
    job = cluster.jobs.get(timer.id)
    if job is None or job.state is not JobState.RUNNING or not job.spec.save_every_s:
        return
    stays = all(attempt.stop_cause is None for attempt in job.live_attempts)
    if job.save_due_s <= scribe.now_s and stays and not job.suspended_s:
        scribe.emit(ev.SaveAsked(job=job.id))
    next_s = max(job.save_due_s, scribe.now_s + 1.0)
    # A job that stands still is looked at again when it goes on.
    if not job.suspended_s:
        cluster.agenda.push(next_s, "save", job.id)


def _warn(scribe: Scribe, timer: Timer) -> None:
    """The limit of a job is near, and it wants to know."""
    job = scribe.cluster.jobs.get(timer.id)
    if job is None or job.state is not JobState.RUNNING or not job.warn_due_s:
        return
    if job.warn_due_s > scribe.now_s:
        scribe.cluster.agenda.push(job.warn_due_s, "warn", job.id)
    elif all(attempt.stop_cause is None for attempt in job.live_attempts):
        scribe.emit(ev.SaveAsked(job=job.id, warns=True))


def _miss(scribe: Scribe, timer: Timer) -> None:
    """A job should have been done by now: its owner hears of it, once."""
    job = scribe.cluster.jobs.get(timer.id)
    if job is None or job.outcome is not None or not job.spec.deadline_s or job.is_late:
        return
    if job.spec.deadline_s <= scribe.now_s:
        scribe.emit(ev.DeadlineMissed(job=job.id))
        if job.promise == "open":
            break_promise(scribe, job, "it is not done")


def _look_again(scribe: Scribe, timer: Timer) -> None:
    """A reservation begins or is over: everything that waits may have another answer."""
    cluster = scribe.cluster
    for name in cluster.nodes:
        cluster.agenda.touch(name)
    cluster.rules_changed()


def _turn_queues(scribe: Scribe, timer: Timer) -> None:
    """The hours of queues begin or end; the clock may have been elsewhere in between."""
    for queue in list(scribe.cluster.queues.values()):
        if queue.turns_s and queue.turns_s <= scribe.now_s:
            scribe.emit(ev.QueueSet(queue=standing(queue, scribe.now_s)))


RINGS: dict[str, Callable[[Scribe, Timer], None]] = {
    "begin": _begin,
    "unschedulable": _give_up,
    "parents": _parents_late,
    "time-limit": _stop_overlong,
    "window": _end_window,
    "assembly": _disband,
    "reservation": _look_again,
    "hours": _turn_queues,
    "drain": _empty_nodes,
    "ends": _end_nodes,
    "cooled": _try_nodes,
    "reopen": _reopen_pools,
    "save": _save,
    "warn": _warn,
    "deadline": _miss,
    "promise": judge_start,
    # A pass found that time alone may change its answer: this tick's pass knows which.
    "pass": lambda scribe, timer: None,
}
