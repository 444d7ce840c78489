"""Single tries of single tasks as the API shows them, and what each holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.api.bodies.mib import ShowsMib
from rota.api.views.times import Moment, when
from rota.core.facts.states import Cause, Phase

if TYPE_CHECKING:
    from rota.core.facts.gpu_use import GpuFigures
    from rota.core.facts.job import Attempt, Job, Outcome
    from rota.core.facts.node import Allocation

#: Causes whose detail is about what the job's user named.
_NAMES_FILES = frozenset({Cause.START_FAILED, Cause.EXIT, Cause.UNHEALTHY})


class AllocationView(ShowsMib, msgspec.Struct):
    """What a task holds on its node."""

    task: int
    node: str
    cpus: float
    memory_mb: int
    disk_mb: int
    cpu_ids: list[int]
    gpus: list[int]
    gpu_memory_mb: int
    shared: bool
    #: The share of each GPU, where one was named so: 0.5.
    gpu_share: float | None = None
    exclusive: bool = False
    memory_mib: int = 0
    disk_mib: int = 0
    gpu_memory_mib: int = 0


class GpuUseView(msgspec.Struct):
    """What a try made of its GPUs; memory is on all of them together."""

    peak_memory_mib: int
    mean_memory_mib: int
    peak_use_percent: float
    mean_use_percent: float
    energy_wh: float
    #: Seconds times GPUs: that were measured, and those in which they did nothing.
    measured_s: float
    idle_s: float


class AttemptView(ShowsMib, msgspec.Struct):
    """One try of one task."""

    number: int
    task: int
    uid: str
    node: str
    state: Phase
    placed_at: Moment | None
    started_at: Moment | None
    ended_at: Moment | None
    exit_code: int | None
    signal: int | None
    cause: str | None
    cause_code: Cause | None
    peak_memory_mb: int
    cpu_s: float
    pid: int | None
    #: What an hour of it costs, by the prices when it was placed; null: nothing.
    price: float | None
    #: What its engine calls it; null: it ran on a machine with an agent.
    external_id: str | None
    #: The machine of its engine that it runs or ran on; null: the engine did not say, or has none.
    engine_node: str | None
    peak_memory_mib: int = 0
    #: Null: it had no GPUs, has not ended, or was not measured.
    gpu: GpuUseView | None = None
    #: What its owner was told about its GPUs: overuse, idle.
    warned: list[str] = []


def gpu_use_view(figures: GpuFigures | None) -> GpuUseView | None:
    if figures is None:
        return None
    return GpuUseView(
        figures.peak_memory_mib,
        figures.mean_memory_mib,
        figures.peak_use_percent,
        figures.mean_use_percent,
        round(figures.energy_j / 3600, 3),
        figures.measured_s,
        figures.idle_s,
    )


def cause_text(outcome: Outcome | Attempt, *, open_: bool) -> str | None:
    """``time_limit: ran longer than 2h``."""
    if outcome.cause is None:
        return None
    detail = told_detail(outcome, open_=open_)
    return f"{outcome.cause}: {detail}" if detail else str(outcome.cause)


def told_detail(outcome: Outcome | Attempt, *, open_: bool) -> str:
    """Some name a folder, a file or the command: that is for those to whom these are open."""
    return outcome.detail if open_ or outcome.cause not in _NAMES_FILES else ""


def allocation_view(task: int, held: Allocation) -> AllocationView:
    return AllocationView(
        task=task,
        node=held.node,
        cpus=held.cpu_milli / 1000,
        memory_mb=held.memory_mib,
        disk_mb=held.disk_mib,
        cpu_ids=list(held.cpus),
        gpus=list(held.devices),
        gpu_memory_mb=held.device_memory_mib,
        shared=held.shared,
        gpu_share=held.device_milli / 1000 if held.device_milli else None,
        exclusive=held.exclusive,
    )


def attempt_views(job: Job, *, open_: bool) -> list[AttemptView]:
    """Every attempt at every task, in order of tasks and tries."""
    return [
        AttemptView(
            number=attempt.number,
            task=task.index,
            uid=attempt.uid,
            node=attempt.allocation.node,
            state=attempt.phase,
            placed_at=when(attempt.placed_s),
            started_at=when(attempt.started_s),
            ended_at=when(attempt.ended_s),
            exit_code=attempt.exit_code,
            signal=attempt.signal or None,
            cause=cause_text(attempt, open_=open_),
            cause_code=attempt.cause,
            peak_memory_mb=attempt.peak_memory_mib,
            cpu_s=attempt.cpu_s,
            pid=attempt.pid or None,
            price=attempt.price or None,
            external_id=attempt.external or None,
            engine_node=attempt.where or None,
            gpu=gpu_use_view(attempt.gpu),
            warned=list(attempt.warned),
        )
        for task in job.tasks
        for attempt in task.attempts
    ]
