"""What was measured in the last half hour: of the GPUs of a node, and of the tries of a job."""

from __future__ import annotations

from bisect import bisect_right
from math import isnan
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from rota.api import params
from rota.api.context import Asking, context_of
from rota.api.views.lookup import ID_MAX, find, one_job
from rota.api.views.times import Moment, when
from rota.controller.chores.measures import POINTS
from rota.core.facts.errors import named

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.controller.chores.measures import AttemptTrack, Curve
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import Allocation, Node

#: The most places that one sum looks at: an open page asks for it every few seconds.
LOOKS_MAX = 4_000
#: Of the figures of an attempt, the one that is a mean and no sum.
USE_COLUMN = 2


class DeviceCurveView(msgspec.Struct):
    """Columns of equal length; null: not known at that moment."""

    index: int
    at: list[Moment | None]
    use_percent: list[float | None]
    memory_used_mib: list[float | None]
    power_w: list[float | None]
    temperature_c: list[float | None]


class NodeCurvesView(msgspec.Struct):
    node: str
    #: Seconds between two looks of its agent; 0: nothing is measured.
    every_s: float
    gpus: list[DeviceCurveView]


class OnGpuView(msgspec.Struct):
    """What an attempt has on one GPU now."""

    index: int
    memory_used_mib: int
    use_percent: float | None


class AttemptCurveView(msgspec.Struct):
    """One try: what it asked for, what it uses now, and columns of equal length over time."""

    uid: str
    task: int
    number: int
    node: str
    asked_cpus: float
    #: 0: no limit.
    asked_memory_mib: int
    #: On each of its GPUs; with a whole one, all that it has.
    asked_gpu_memory_mib: int
    gpus_held: list[int]
    #: As of the last look; null: not known.
    cpus: float | None
    memory_used_mib: int | None
    gpus: list[OnGpuView]
    at: list[Moment | None]
    cpus_used: list[float | None]
    memory_mib: list[float | None]
    #: The mean over its GPUs, and the sum.
    gpu_use_percent: list[float | None]
    gpu_memory_mib: list[float | None]


class SumCurveView(msgspec.Struct):
    """All tasks of a job together, each with its last try: sums, but of GPU use the mean."""

    tasks: int
    asked_cpus: float
    #: 0: no limit.
    asked_memory_mib: int
    gpus: int
    asked_gpu_memory_mib: int
    at: list[Moment | None]
    cpus_used: list[float | None]
    memory_mib: list[float | None]
    gpu_use_percent: list[float | None]
    gpu_memory_mib: list[float | None]


class JobCurvesView(msgspec.Struct):
    id: int
    #: Seconds between two looks of an agent; 0: nothing is measured.
    every_s: float
    attempts: list[AttemptCurveView]
    #: Of a job with several tasks; null: it has one, or nothing was measured.
    sum: SumCurveView | None


@get(
    "/nodes/{name:str}/curves",
    summary="What was measured of the GPUs of a node in the last half hour",
    opt={"right": "read", "errors": (404,)},
)
async def node_curves(request: Asking, name: params.NamePath) -> NodeCurvesView:
    """Kept in memory: a restart of the controller begins anew."""
    context = context_of(request)
    node = named(context.host.cluster.nodes, "node", name)
    curves = context.measures.device_curves(node.name)
    every_s = context.measures.settings.measure_s
    gpus = [
        DeviceCurveView(index, _moments(curve), *_columns(curve))
        for index, curve in sorted(curves.items())
    ]
    return NodeCurvesView(node.name, every_s, gpus)


@get(
    "/jobs/{job_id:str}/curves",
    summary="What the tries of a job used in the last half hour, against what they asked for",
    opt={"right": "read", "errors": (404,)},
)
async def job_curves(
    request: Asking,
    job_id: params.JobPath,
    task: Annotated[
        int | None, QueryParameter(description="Tries of this task only", ge=0, lt=ID_MAX)
    ] = None,
) -> JobCurvesView:
    """Kept in memory, for a while also of tries that have ended; of an array, name an element.

    With `task` only the tries of that one are listed; the sum is of all tasks.
    """
    context = context_of(request)
    job = one_job(await find(context.host, job_id), "has no curves")
    nodes = context.host.cluster.nodes
    found = [
        _attempt_curve(one.index, attempt, track, nodes.get(attempt.allocation.node))
        for one in job.tasks
        if task is None or one.index == task
        for attempt in one.attempts
        if (track := context.measures.attempt(attempt.uid)) is not None
    ]
    every_s = context.measures.settings.measure_s
    together = _sum_curve(context, job) if job.spec.task_count > 1 else None
    return JobCurvesView(job.id, every_s, found, together)


def _sum_curve(context: Context, job: Job) -> SumCurveView | None:
    """At moments that lie evenly, and are the fewer the more tasks there are."""
    last = [one.attempts[-1] for one in job.tasks if one.attempts]
    tracks = {one.uid: context.measures.attempt(one.uid) for one in last}
    known = [(one, track) for one in last if (track := tracks[one.uid]) and track.curve.at]
    if not known:
        return None
    begin_s = min(track.curve.at[0] for _, track in known)
    end_s = max(track.curve.at[-1] for _, track in known)
    steps = max(1, min(POINTS, LOOKS_MAX // len(known)) - 1)
    at_s = [begin_s + (end_s - begin_s) * step / steps for step in range(steps)] + [end_s]
    held = [one.allocation for one, _ in known]
    nodes = context.host.cluster.nodes
    given = [_gpu_memory_mib(one.allocation, nodes.get(one.allocation.node)) for one, _ in known]
    sums = [_sum_at(moment_s, known, context.measures.stale_s) for moment_s in at_s]
    return SumCurveView(
        tasks=len(known),
        asked_cpus=sum(one.cpu_milli for one in held) / 1000,
        asked_memory_mib=sum(one.memory_mib for one in held),
        gpus=sum(len(one.devices) for one in held),
        asked_gpu_memory_mib=sum(
            mib * len(one.devices) for mib, one in zip(given, held, strict=True)
        ),
        at=[when(moment_s) for moment_s in at_s],
        cpus_used=[one[0] for one in sums],
        memory_mib=[one[1] for one in sums],
        gpu_use_percent=[one[2] for one in sums],
        gpu_memory_mib=[one[3] for one in sums],
    )


def _sum_at(
    moment_s: float, known: list[tuple[Attempt, AttemptTrack]], stale_s: float
) -> list[float | None]:
    """What all had at a moment, as far as each was looked at not long before."""
    sums: list[float | None] = [None] * 4
    gpus = 0
    for attempt, track in known:
        place = bisect_right(track.curve.at, moment_s) - 1
        if place < 0 or moment_s - track.curve.at[place] > stale_s:
            continue
        count = len(attempt.allocation.devices)
        for column, values in enumerate(track.curve.columns):
            if isnan(value := values[place]):
                continue
            if column == USE_COLUMN:
                gpus += count
                value *= count
            sums[column] = (sums[column] or 0.0) + value
    if gpus:
        sums[USE_COLUMN] = (sums[USE_COLUMN] or 0.0) / gpus
    return [None if one is None else round(one, 2) for one in sums]


def _gpu_memory_mib(held: Allocation, node: Node | None) -> int:
    """On each of its GPUs; with a whole one, all that it has."""
    sizes = {device.index: device for device in node.spec.devices} if node is not None else {}
    first = next((sizes[index] for index in held.devices if index in sizes), None)
    if first is None:
        return held.device_memory_mib
    return held.share_of(first) if held.shared else first.memory_mib


def _attempt_curve(
    task: int, attempt: Attempt, track: AttemptTrack, node: Node | None
) -> AttemptCurveView:
    held = attempt.allocation
    return AttemptCurveView(
        attempt.uid,
        task,
        attempt.number,
        held.node,
        held.cpu_milli / 1000,
        held.memory_mib,
        _gpu_memory_mib(held, node),
        list(held.devices),
        round(track.cpus, 3) if attempt.live and track.cpus is not None else None,
        track.memory_mib if attempt.live else None,
        [OnGpuView(gpu.index, gpu.memory_mib, gpu.use_percent) for gpu in track.gpus]
        if attempt.live
        else [],
        _moments(track.curve),
        *_columns(track.curve),
    )


def _moments(curve: Curve) -> list[Moment | None]:
    return [when(at_s) for at_s in curve.at]


def _columns(curve: Curve) -> list[list[float | None]]:
    points = [figures for _, figures in curve.points()]
    return [[figures[at] for figures in points] for at in range(len(curve.columns))]


ROUTES = [node_curves, job_curves]
