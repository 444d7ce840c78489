"""What was measured in the last half hour: of the GPUs of a node, and of the tries of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from litestar import get

from rota.api import params
from rota.api.context import Asking, context_of
from rota.api.views.lookup import find
from rota.api.views.times import Moment, when
from rota.core.facts.array import Array
from rota.core.facts.errors import Rejected, named

if TYPE_CHECKING:
    from rota.controller.chores.measures import AttemptTrack, Curve
    from rota.core.facts.job import Attempt
    from rota.core.facts.node import Node


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


class JobCurvesView(msgspec.Struct):
    id: int
    #: Seconds between two looks of an agent; 0: nothing is measured.
    every_s: float
    attempts: list[AttemptCurveView]


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
async def job_curves(request: Asking, job_id: params.JobPath) -> JobCurvesView:
    """Kept in memory, for a while also of tries that have ended; of an array, name an element."""
    context = context_of(request)
    job = await find(context.host, job_id)
    if isinstance(job, Array):
        raise Rejected.because(
            "id", job.id, f"{job.id} is an array, which has no curves; name an element: {job.id}_3"
        )
    nodes = context.host.cluster.nodes
    found = [
        _attempt_curve(task.index, attempt, track, nodes.get(attempt.allocation.node))
        for task in job.tasks
        for attempt in task.attempts
        if (track := context.measures.attempt(attempt.uid)) is not None
    ]
    return JobCurvesView(job.id, context.measures.settings.measure_s, found)


def _attempt_curve(
    task: int, attempt: Attempt, track: AttemptTrack, node: Node | None
) -> AttemptCurveView:
    held = attempt.allocation
    sizes = {device.index: device for device in node.spec.devices} if node is not None else {}
    first = next((sizes[index] for index in held.devices if index in sizes), None)
    given_mib = held.device_memory_mib
    if first is not None:
        given_mib = held.share_of(first) if held.shared else first.memory_mib
    return AttemptCurveView(
        attempt.uid,
        task,
        attempt.number,
        held.node,
        held.cpu_milli / 1000,
        held.memory_mib,
        given_mib,
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
