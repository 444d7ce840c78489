"""Steps of running jobs go on record: their numbers, and how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.commands.change import own_job
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict
from rota.core.facts.states import JobState

if TYPE_CHECKING:
    from rota.controller.commands.commands import BeginStep, EndStep
    from rota.controller.tick.scribe import Scribe


def begin(scribe: Scribe, command: BeginStep) -> int:
    """The number of the step; it is on disk before any of its processes exists."""
    job = own_job(scribe, command.actor, command.job)
    if job.state is not JobState.RUNNING:
        raise Conflict(
            f"job {job.id} is {job.state}; only a running job can have steps",
            field="id",
            value=job.id,
        )
    number = job.steps
    scribe.emit(
        ev.StepStarted(
            job=job.id,
            step=number,
            name=command.name,
            nodes=command.nodes,
            tasks=command.tasks,
            cpus=command.cpus,
        )
    )
    return number


def end(scribe: Scribe, command: EndStep) -> None:
    """Said by the server itself, of a step that a user with the right to has begun.

    Who ends a job ends its steps too, so the job may be over by now, but not unknown.
    """
    cluster = scribe.cluster
    if command.job in cluster.jobs or cluster.ids.ended.get(command.job) is not None:
        scribe.emit(
            ev.StepEnded(
                job=command.job,
                step=command.step,
                state=command.state,
                exit_code=command.exit_code,
                signal=command.signal,
                cpu_s=command.cpu_s,
                memory_mib=command.memory_mib,
            )
        )
