"""Jobs, machines and events as messages of ``cluster.proto``, made from the views of REST.

So nobody sees over gRPC what they may not see over REST. Times are milliseconds since 1970.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from rota.api.grpc.reading import WIRE_STATES
from rota.core.facts.states import JobState, NodeState
from rota.rpc import cluster_pb2 as pb

if TYPE_CHECKING:
    from rota.api.site.nodes import AmountView, NodeView
    from rota.api.views.attempt_views import AttemptView
    from rota.api.views.gpus import GpuView
    from rota.api.views.views import JobView, ResourcesView
    from rota.api.watch.event_views import EventView

_DEVICES = {"gpu": pb.DEVICE_TYPE_GPU, "tpu": pb.DEVICE_TYPE_TPU, "": pb.DEVICE_TYPE_CPU}


def to_ms(moment_s: float) -> int:
    return round(moment_s * 1000)


def ms_of(moment: str | None) -> int:
    """A time as REST writes it; 0 for none."""
    return to_ms(datetime.fromisoformat(moment).timestamp()) if moment else 0


def job_status(view: JobView) -> pb.JobStatus:
    state = JobState(view.state)
    message = pb.JobStatus(
        job_id=str(view.id),
        state=WIRE_STATES[state],
        error=_error(view.cause, state),
        started_at_ms=ms_of(view.started_at),
        finished_at_ms=ms_of(view.ended_at),
        submitted_at_ms=ms_of(view.submitted_at),
        worker_ids=view.nodes,
        uid=view.uid,
        name=view.name,
        user=view.user,
        project=view.project,
        queue=view.queue,
        priority=view.priority,
        reason=view.reason,
        detailed_state=view.state,
        cause_code=view.cause_code or "",
        signal=view.signal or 0,
        resources=_resources(view.resources),
        tasks=view.tasks,
        time_limit_s=view.time_limit_s,
        scheduling_timeout_seconds=view.scheduling_timeout_s,
        command=view.command or (),
        labels=view.labels or {},
        attempts=[_attempt(attempt) for attempt in view.attempts],
        array_id=str(view.array_id) if view.array_id else "",
        array_index=view.array_index or 0,
        element_states={} if view.states is UNSET else view.states,
    )
    if view.exit_code is not None:
        message.exit_code = view.exit_code
    return message


def _error(cause: str | None, state: JobState) -> str:
    """An end that nobody regrets has a cause, too, and is no error."""
    return "" if state is JobState.COMPLETED else cause or ""


def _resources(view: ResourcesView) -> pb.Resources:
    return pb.Resources(
        cpus=view.cpus,
        memory_mb=view.memory_mb,
        disk_mb=view.disk_mb,
        device=_DEVICES[view.device],
        gpu_type=view.gpu_type,
        gpus=view.gpus,
        gpu_memory_mb=view.gpu_memory_mb,
        shared=view.shared,
    )


def _attempt(view: AttemptView) -> pb.Attempt:
    message = pb.Attempt(
        number=view.number,
        task=view.task,
        worker_id=view.node,
        started_at_ms=ms_of(view.started_at),
        finished_at_ms=ms_of(view.ended_at),
        error=view.cause if view.cause and view.exit_code != 0 else "",
    )
    if view.exit_code is not None:
        message.exit_code = view.exit_code
    return message


def worker(view: NodeView) -> pb.Worker:
    return pb.Worker(
        worker_id=view.name,
        healthy=view.state == NodeState.UP,
        state=view.state,
        note=view.note,
        address=view.address,
        total=_amount(view.total),
        free=_amount(view.free),
        devices=[_device(device) for device in view.devices],
        running_job_ids=[str(job) for job in view.jobs],
        labels=view.labels,
        last_seen_ms=ms_of(view.seen_at),
    )


def _amount(view: AmountView) -> pb.Amount:
    return pb.Amount(cpus=view.cpus, memory_mb=view.memory_mb, disk_mb=view.disk_mb, gpus=view.gpus)


def _device(view: GpuView) -> pb.Device:
    return pb.Device(
        index=view.index,
        type=_DEVICES.get(view.kind, pb.DEVICE_TYPE_UNSPECIFIED),
        model=view.model,
        memory_mb=view.memory_mb,
        memory_free_mb=view.memory_free_mb,
        available=view.available,
    )


def event(view: EventView) -> pb.Event:
    return pb.Event(
        seq=view.seq,
        at_ms=ms_of(view.at),
        actor=view.actor,
        kind=view.kind,
        job_id=str(view.job) if view.job else "",
        detail_json=msgspec.json.encode(view.detail).decode(),
    )
