"""Steps on record: told to the controller when they begin and end, read again after its restart."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rota.controller.commands.commands import BeginStep, EndStep
from rota.core.changes.events import StepEnded, StepStarted
from rota.core.facts.errors import Conflict, NotFound, Unavailable
from rota.slurm.call.command import NotServed
from rota.slurm.steps.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.controller.loop import Host
    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Job
    from rota.slurm.call.command import Call
    from rota.slurm.steps.step_plan import StepPlan
    from rota.slurm.steps.steps import Steps
    from rota.store.api import Store

EVENTS_PER_READ = 1000


async def begun(call: Call, plan: StepPlan) -> StepPlan:
    """The plan with its number, which nobody else gets: not after a restart either."""
    begin = BeginStep(
        actor=call.actor,
        job=plan.job.id,
        name=plan.name,
        nodes=plan.nodes,
        tasks=len(plan.places),
        cpus=plan.cpus,
    )
    try:
        number: int = await call.context.host.ask(begin)
    except (Conflict, NotFound):
        over = "Job/step already completing or completed"
        text = f"srun: error: Unable to create step for job {plan.job.id}: {over}\n"
        raise NotServed(text) from None
    return plan._replace(step=number)


async def told(call: Call, step: Step) -> None:
    """Put the end of a step on record; srun ends like its tasks, even if that cannot be done."""
    end = EndStep(
        actor=call.actor,
        job=step.job,
        step=step.id,
        state=step.state,
        exit_code=step.exit_code,
        signal=step.signal,
        cpu_s=step.cpu_s,
        memory_mib=step.memory_mib,
    )
    with suppress(Unavailable):
        await call.context.host.ask(end)


async def recall(host: Host, steps: Steps, jobs: Iterable[Job]) -> None:
    """Read what these jobs had before this controller was there; others cost nothing."""
    absent = [job.id for job in jobs if job.steps > len(steps.of(job.id))]
    if absent:
        found = await host.read(lambda store: {job: _read(store, job) for job in absent})
        for job, known in found.items():
            steps.add_known(job, known)


def _read(store: Store, job: int) -> list[Step]:
    found: dict[int, Step] = {}
    after = 0
    while page := store.events(after=after, job=job, limit=EVENTS_PER_READ):
        for record in page:
            _take_in(found, record)
        after = page[-1].seq
    return list(found.values())


def _take_in(found: dict[int, Step], record: Recorded) -> None:
    event = record.event
    if isinstance(event, StepStarted):
        found[event.step] = Step(
            job=event.job,
            id=event.step,
            name=event.name,
            nodes=event.nodes,
            ntasks=event.tasks,
            cpus=event.cpus,
            started_s=record.at_s,
        )
    elif isinstance(event, StepEnded) and (step := found.get(event.step)) is not None:
        step.ended_s = record.at_s
        step.state = event.state
        step.exit_code, step.signal = event.exit_code, event.signal
        step.cpu_s, step.memory_mib = event.cpu_s, event.memory_mib
