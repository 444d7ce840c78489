"""How a job does: how long it waited and ran, what it used of what it held, and what went wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import get

from rota.api import params
from rota.api.bodies.mib import ShowsMib
from rota.api.context import Asking, context_of
from rota.api.views.lookup import find, one_job
from rota.core.facts.faults import Fault, fault_of
from rota.core.facts.states import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.facts.job import Attempt, Job

#: What held a CPU for less than this says nothing: to start it took longer.
TELLING_S = 0.1


class MetricsView(ShowsMib, msgspec.Struct, kw_only=True):
    """Figures over all tries of all tasks. What is used is known of tries that have ended."""

    id: int
    state: JobState
    #: From when it was ready until its latest start, or until now.
    wait_s: float
    #: From its place to its start, over all tries: folders unpacked, images and saved work fetched.
    setup_s: float
    #: How long its latest try has run, without the time that it was suspended.
    run_s: float
    tries: int
    retries_used: int
    preemptions: int
    cpu_s: float
    peak_memory_mb: int
    peak_memory_mib: int = 0
    #: Held times time, over all tries.
    cpu_held_s: float
    gpu_held_s: float
    #: Used parts of what the tries that have ended held; null: none has, or it held next to none.
    cpu_efficiency: float | None
    memory_efficiency: float | None
    #: How busy its GPUs were, as a part of what they could do; null: not measured.
    gpu_efficiency: float | None
    #: On all GPUs of one try, the most at once; 0: not measured.
    gpu_peak_memory_mib: int
    gpu_energy_wh: float
    #: Seconds times GPUs that did nothing in tries that have ended.
    gpu_idle_s: float
    #: What its end is put down to; null: it ended well, or has not ended.
    fault: Fault | None
    #: Likewise of each single try.
    faults: dict[Fault, int]


@get(
    "/jobs/{job_id:str}/metrics",
    summary="How long a job waited and ran, what it used, and what went wrong",
    opt={"right": "read", "errors": (404,)},
)
async def job_metrics(request: Asking, job_id: params.JobPath) -> MetricsView:
    """Of one job; of an array, name an element."""
    host = context_of(request).host
    job = one_job(await find(host, job_id), "has no figures")
    return measure(job, host.clock.now_s())


def measure(job: Job, now_s: float) -> MetricsView:
    """The figures of a job at a moment."""
    tries = [attempt for task in job.tasks for attempt in task.attempts]
    started_s = job.started_s
    until_s = job.ended_s or now_s
    eligible_s = job.eligible_s or until_s
    paused_s = job.paused_s + (until_s - job.suspended_s if job.suspended_s else 0.0)
    ran_s = until_s - started_s - paused_s if started_s else 0.0
    faults = Counter(fault for attempt in tries if (fault := fault_of(attempt)))
    fault = fault_of(job.outcome) if job.outcome is not None else None
    return MetricsView(
        id=job.id,
        state=job.state,
        wait_s=_figure((started_s or until_s) - eligible_s),
        setup_s=_figure(sum(one.started_s - one.placed_s for one in tries if one.started_s)),
        run_s=_figure(ran_s),
        tries=len(tries),
        retries_used=job.retries_used,
        preemptions=job.preemptions,
        cpu_s=_figure(sum(attempt.cpu_s for attempt in tries)),
        peak_memory_mb=max((attempt.peak_memory_mib for attempt in tries), default=0),
        cpu_held_s=_figure(sum(_held_cpu_s(attempt, now_s) for attempt in tries)),
        gpu_held_s=_figure(
            sum(len(one.allocation.devices) * _length_s(one, now_s) for one in tries)
        ),
        cpu_efficiency=_cpu_efficiency(tries),
        memory_efficiency=_memory_efficiency(tries),
        **_gpu_figures(tries),
        fault=fault,
        faults=dict(sorted(faults.items())),
    )


def _figure(number: float) -> float:
    """Clocks of nodes differ a little: nothing took less than no time."""
    return round(max(0.0, number), 3)


def _length_s(attempt: Attempt, now_s: float) -> float:
    if not attempt.started_s:
        return 0.0
    return max(0.0, (attempt.ended_s or now_s) - attempt.started_s)


def _held_cpu_s(attempt: Attempt, now_s: float) -> float:
    return attempt.allocation.cpu_milli / 1000 * _length_s(attempt, now_s)


def _cpu_efficiency(tries: Sequence[Attempt]) -> float | None:
    ended = [attempt for attempt in tries if not attempt.live]
    held_s = sum(_held_cpu_s(attempt, attempt.ended_s) for attempt in ended)
    if held_s < TELLING_S:
        return None
    return round(sum(attempt.cpu_s for attempt in ended) / held_s, 4)


def _gpu_figures(tries: Sequence[Attempt]) -> dict[str, Any]:
    figures = [attempt.gpu for attempt in tries if attempt.gpu is not None]
    measured_s = sum(one.measured_s for one in figures)
    used_s = sum(one.mean_use_percent / 100 * one.measured_s for one in figures)
    return {
        "gpu_efficiency": round(used_s / measured_s, 4) if measured_s else None,
        "gpu_peak_memory_mib": max((one.peak_memory_mib for one in figures), default=0),
        "gpu_energy_wh": round(sum(one.energy_j for one in figures) / 3600, 3),
        "gpu_idle_s": round(sum(one.idle_s for one in figures), 1),
    }


def _memory_efficiency(tries: Sequence[Attempt]) -> float | None:
    """Of the try that came closest to what it held."""
    parts = [
        attempt.peak_memory_mib / attempt.allocation.memory_mib
        for attempt in tries
        if not attempt.live and attempt.started_s and attempt.allocation.memory_mib
    ]
    return round(max(parts), 4) if parts else None


ROUTES = [job_metrics]
