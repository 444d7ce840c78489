"""How a wall clock that was set changes a Cluster: unfinished work keeps the time that it had.

A limit, a timeout or a charge is a length of time between a moment on record and now. When the
clock is set in between, the moment on record moves with it and the length stays what it was.
Moments that people named (a begin time, a reservation, a deadline) are theirs and stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.changes.apply_jobs import set_attempt_timers, set_timers
from rota.core.changes.apply_site import set_drain_timer
from rota.core.changes.charging import begin_clock, stop_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job

_OF_ATTEMPT = ("placed_s", "started_s", "stop_s", "window_s", "charged_s")
_OF_JOB = (
    *("submitted_s", "eligible_s", "suspended_s", "save_asked_s", "warned_s", "checkpoint_s"),
    *("missed_s", "broken_s"),
)
_OF_ARRAY = ("submitted_s", "eligible_s")


def _clock_moved(cluster: Cluster, event: ev.ClockMoved, at_s: float) -> None:
    for job in cluster.jobs.values():
        for attempt in job.live_attempts:
            stop_clock(cluster, job, attempt)
            _move(attempt, _OF_ATTEMPT, event.shift_s)
            begin_clock(cluster, job, attempt)
        _move(job, _OF_JOB, event.shift_s)
        _move_begin(job, event.shift_s)
        set_timers(cluster, job.id, job)
        set_attempt_timers(cluster, job)
        cluster.dirty.jobs[job.id] = job
    for array in cluster.arrays.values():
        if array.waiting:
            _move(array, _OF_ARRAY, event.shift_s)
            _move_begin(array, event.shift_s)
            set_timers(cluster, array.id, array)
            cluster.dirty.arrays[array.id] = array
    for name, node in cluster.nodes.items():
        cluster.agenda.touch(name)
        if node.cools_s or node.closures:
            _move(node, ("cools_s",), event.shift_s)
            node.closures = tuple(
                replace(closure, until_s=closure.until_s + event.shift_s)
                for closure in node.closures
            )
            set_drain_timer(cluster, node)
            cluster.dirty.nodes[name] = None
    cluster.rules_changed()


def _move(record: Any, fields: tuple[str, ...], by_s: float) -> None:  # noqa: ANN401 - any record
    """0 is no moment: it says that there was none."""
    for field in fields:
        if at_s := getattr(record, field):
            setattr(record, field, at_s + by_s)


def _move_begin(item: Job | Array, by_s: float) -> None:
    """The end of a pause between two tries moves; a begin time that a user named does not."""
    if item.not_before_s != item.spec.begin_s:
        _move(item, ("not_before_s",), by_s)


CLOCK_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {ev.ClockMoved: _clock_moved}
