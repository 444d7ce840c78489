"""Going into a running job: who may, where it runs, and a line in the record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.commands.change import own_job
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, NotFound
from rota.core.facts.states import Phase

if TYPE_CHECKING:
    from rota.controller.commands.commands import EnterJob
    from rota.controller.tick.scribe import Scribe
    from rota.core.facts.job import Attempt, Job


def enter(scribe: Scribe, command: EnterJob) -> Attempt:
    """The attempt that runs; that somebody went in is on record by then."""
    job = own_job(scribe, command.actor, command.job)
    attempt = running_attempt(job, command.task)
    scribe.emit(ev.JobEntered(job=job.id, task=command.task, way=command.way))
    return attempt


def running_attempt(job: Job, task: int) -> Attempt:
    """The attempt of a task that runs now; ``Conflict`` when none does."""
    if task >= job.spec.task_count:
        raise NotFound(f"job {job.id} has no task {task}", field="task", value=task)
    current = job.tasks[task].current if task < len(job.tasks) else None
    if job.outcome is not None or current is None or current.phase is not Phase.RUNNING:
        raise Conflict(f"job {job.id} is {job.state}; only a running job can be entered")
    return current
