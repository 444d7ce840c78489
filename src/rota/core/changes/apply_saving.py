"""How events about what is due of a job change a Cluster: saved work, a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.changes import events as ev
from rota.core.changes.apply_jobs import find_job, job_changed
from rota.core.changes.charging import count_promise
from rota.core.facts.checkpoint import remembered

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster


def _save_asked(cluster: Cluster, event: ev.SaveAsked, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.saves += 1
    if event.warns:
        job.warned_s = at_s
    else:
        job.save_asked_s = at_s
    job_changed(cluster, job, before)


def _checkpoint_reported(cluster: Cluster, event: ev.CheckpointReported, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.checkpoint_s = max(job.checkpoint_s, event.saved_s)
    job.made = tuple(dict.fromkeys((*job.made, *event.data)))
    if event.record is not None:
        job.checkpoints = remembered(job.checkpoints, event.record, event.keep)
    job_changed(cluster, job, before)


def _deadline_missed(cluster: Cluster, event: ev.DeadlineMissed, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.missed_s = at_s
    job_changed(cluster, job, before)


def _promise_broken(cluster: Cluster, event: ev.PromiseBroken, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.broken_s = at_s
    count_promise(cluster, job, at_s)
    job_changed(cluster, job, before)


SAVING_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    ev.DeadlineMissed: _deadline_missed,
    ev.PromiseBroken: _promise_broken,
    ev.SaveAsked: _save_asked,
    ev.CheckpointReported: _checkpoint_reported,
}
