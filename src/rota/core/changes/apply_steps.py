"""How events about steps change a Cluster: a job counts the steps that were started in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.changes import events as ev
from rota.core.changes.apply_jobs import find_job, job_changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster


def _step_started(cluster: Cluster, event: ev.StepStarted, at_s: float) -> None:
    job, before = find_job(cluster, event.job)
    job.steps = event.step + 1
    job_changed(cluster, job, before)


def _step_ended(cluster: Cluster, event: ev.StepEnded, at_s: float) -> None:
    """For the record only."""


STEP_RULES: dict[type, Callable[[Cluster, Any, float], None]] = {
    ev.StepStarted: _step_started,
    ev.StepEnded: _step_ended,
}
