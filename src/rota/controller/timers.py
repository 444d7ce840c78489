"""What is due: begin times, backoffs, scheduling timeouts, run-time limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller import lifecycle
from rota.core.job import Array, Job, Outcome
from rota.core.states import ACTIVE, WAITING, Cause, JobState
from rota.core.units import format_duration

if TYPE_CHECKING:
    from rota.controller.scribe import Scribe
    from rota.core.cluster import Timer


def fire_due(scribe: Scribe) -> None:
    """Look at everything whose time has come. A timer that is moot by now does nothing."""
    while (timer := scribe.cluster.pop_due(scribe.now_s)) is not None:
        if timer.kind == "begin":
            lifecycle.consider(scribe, timer.id)
        elif timer.kind == "unschedulable":
            _give_up(scribe, timer)
        else:
            _stop_overlong(scribe, timer)


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
    if isinstance(waiting, Array):
        if waiting.waiting:
            lifecycle.cut_array(scribe, waiting, outcome)
    elif waiting.state in WAITING:
        lifecycle.settle(scribe, waiting, outcome)


def _stop_overlong(scribe: Scribe, timer: Timer) -> None:
    cluster = scribe.cluster
    job = cluster.jobs.get(timer.id)
    if job is None or job.state not in ACTIVE or not job.spec.time_limit_s or not job.started_s:
        return
    due_s = job.started_s + job.spec.time_limit_s
    if due_s > scribe.now_s:
        cluster.push_timer(due_s, "time-limit", job.id)
        return
    limit = format_duration(job.spec.time_limit_s)
    lifecycle.stop_attempts(scribe, job, Cause.TIME_LIMIT, f"ran longer than its limit of {limit}")
