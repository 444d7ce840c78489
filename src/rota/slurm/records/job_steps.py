"""The steps of a job: the batch script, the allocation itself, and what ``srun`` started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.states import Cause
from rota.slurm.records.records import StepRecord
from rota.slurm.records.tres import without_billing
from rota.slurm.words.states import ENDED, NEVER_BEGAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import Attempt
    from rota.slurm.orders.detail import Detail
    from rota.slurm.records.records import JobRecord
    from rota.slurm.steps.steps import Step

#: Stops that reach a script as a signal from outside.
_STOPPED = frozenset(
    {
        Cause.CANCELLED,
        Cause.TIME_LIMIT,
        Cause.REQUEUED,
        Cause.PREEMPTED,
        Cause.SHRUNK,
        Cause.BACKFILL_WINDOW,
        Cause.MIGRATED,
    }
)

#: What ends the tasks of a job without memory, and what Slurm says of them.
_KILLED = 9
_NO_MEMORY = 125


def steps_of(
    record: JobRecord, attempts: list[Attempt], detail: Detail, started: Iterable[Step]
) -> tuple[StepRecord, ...]:
    """In the order in which accounting lists them: batch, extern, then by number."""
    # A round that was put back had steps of its own.
    mine = [step for step in started if step.started_s >= record.start_s - 1]
    # The nodes count everything; what is not of a step is of the script.
    own_s = sum(attempt.cpu_s for attempt in attempts) - sum(step.cpu_s for step in mine)
    steps = [] if detail.interactive else [_batch(record, attempts[0], max(0.0, own_s))]
    return (*steps, _extern(record, attempts), *(_numbered(record, step) for step in mine))


def _numbered(record: JobRecord, step: Step) -> StepRecord:
    over = record.state in ENDED
    lost = step.state == "RUNNING" and over
    short = record.state == "OUT_OF_MEMORY" and step.signal == _KILLED
    state = "OUT_OF_MEMORY" if short else "CANCELLED" if lost else step.state
    return StepRecord(
        id=str(step.id),
        name=step.name,
        state=state,
        nodes=step.nodes,
        tasks=step.ntasks,
        cpus=step.cpus,
        exit_code=step.exit_code,
        signal=_NO_MEMORY if short else step.signal,
        start_s=step.started_s,
        end_s=record.end_s if lost else step.ended_s,
        tres=without_billing(record.tres_alloc),
        memory_mib=step.memory_mib,
        cpu_s=step.cpu_s,
        pids=tuple(step.pids.values()),
    )


def _batch(record: JobRecord, attempt: Attempt, cpu_s: float) -> StepRecord:
    state, code, signal = _end(attempt)
    first = record.held[0] if record.held else None
    return StepRecord(
        id="batch",
        name="batch",
        state=state,
        nodes=record.nodes[:1],
        tasks=1,
        cpus=first.cpus if first is not None else record.cpus,
        exit_code=code,
        signal=signal,
        start_s=attempt.started_s or attempt.placed_s,
        end_s=attempt.ended_s,
        tres=without_billing(record.tres_alloc),
        memory_mib=attempt.peak_memory_mib,
        cpu_s=cpu_s,
        pids=(attempt.pid,) if attempt.pid else (),
    )


def _extern(record: JobRecord, attempts: list[Attempt]) -> StepRecord:
    over = record.state in ENDED or not any(attempt.live for attempt in attempts)
    lost = over and any(attempt.cause is Cause.NODE_LOST for attempt in attempts)
    return StepRecord(
        id="extern",
        name="extern",
        state=("CANCELLED" if lost else "COMPLETED") if over else "RUNNING",
        nodes=record.nodes,
        tasks=max(1, record.node_count),
        cpus=record.cpus,
        exit_code=None if lost else 0,
        start_s=record.start_s,
        end_s=max((attempt.ended_s for attempt in attempts), default=0.0) if over else 0.0,
        tres=record.tres_alloc,
    )


def _end(attempt: Attempt) -> tuple[str, int | None, int]:
    """State, exit code and signal of the batch script."""
    if attempt.live:
        return "RUNNING", 0, 0
    cause = attempt.cause
    if cause is Cause.NODE_LOST:
        return "CANCELLED", None, 0
    if cause is Cause.OUT_OF_MEMORY:
        return "OUT_OF_MEMORY", 0, _NO_MEMORY
    if cause is Cause.START_FAILED:
        return "CANCELLED", 0, NEVER_BEGAN
    if cause in _STOPPED:
        return "CANCELLED", 0, attempt.signal or 15
    if attempt.signal:
        return "CANCELLED", 0, attempt.signal
    code = attempt.exit_code or 0
    return ("COMPLETED" if code == 0 and cause is Cause.EXIT else "FAILED"), code, 0
