"""What follows for a promise of a deadline: it is broken, or its job is let off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.controller.tick.lifecycle import let_go
from rota.core.changes import events as ev
from rota.core.changes.apply_jobs import latest_start_s
from rota.core.facts.states import ACTIVE

if TYPE_CHECKING:
    from rota.controller.tick.scribe import Scribe
    from rota.core.derived.agenda import Timer
    from rota.core.facts.job import Job, JobSpec


def break_promise(scribe: Scribe, job: Job, note: str) -> None:
    """What was promised at its submit cannot be kept: that is told, and its room is free."""
    scribe.emit(ev.PromiseBroken(job=job.id, note=note))
    let_go(scribe, job.id)


def let_off(scribe: Scribe, job: Job) -> None:
    """Its user changed what the promise rested on, or it failed: there is nothing to keep."""
    if job.promise == "open":
        scribe.emit(ev.JobUpdated(job=job.id, spec=unpromised(job.spec)))
        let_go(scribe, job.id)


def unpromised(spec: JobSpec) -> JobSpec:
    return replace(spec, promised=False, reservation=0)


def judge_start(scribe: Scribe, timer: Timer) -> None:
    """A job must have started by now to be done by its deadline, as was promised."""
    job, cluster = scribe.cluster.jobs.get(timer.id), scribe.cluster
    if job is None or job.promise != "open" or job.state in ACTIVE:
        return
    if latest_start_s(job.spec) > scribe.now_s:
        return
    if job.retries_used:
        let_off(scribe, job)
        return
    kept = cluster.reservations.get(job.spec.reservation)
    names = dict.fromkeys(held.node for held in kept.room) if kept is not None else {}
    known = {name: cluster.nodes.get(name) for name in names}
    gone = [name for name, node in known.items() if node is None or not node.takes_work]
    why = f"its room was on {', '.join(gone)}, which takes no work" if gone else "it has no room"
    break_promise(scribe, job, f"it must have started by now, and {why}")
