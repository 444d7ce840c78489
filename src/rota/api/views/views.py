"""Jobs as the API shows them: every field of the contract, in its order, times in UTC."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import UNSET, UnsetType

from rota.api.auth import may_look_into
from rota.api.bodies.health_requests import HealthRequest, health_request
from rota.api.bodies.mib import ShowsMib
from rota.api.bodies.placing import PlacementView, placement_view
from rota.api.bodies.request_fields import JobType
from rota.api.bodies.roles import shown_devices
from rota.api.views.attempt_views import (
    AllocationView,
    AttemptView,
    allocation_view,
    attempt_views,
    cause_text,
)
from rota.api.views.checkpoint_views import RecordView, record_view
from rota.api.views.times import Moment, when
from rota.controller.launches.launch import fill_in, output_path
from rota.core.facts.job import RestartPolicy, ServiceClass
from rota.core.facts.notices import format_target
from rota.core.facts.parents import DependencyKind
from rota.core.facts.phases import JobPhase, phase_of
from rota.core.facts.policy import PreemptMode
from rota.core.facts.states import Cause, JobState

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job, JobSpec, Outcome
    from rota.core.facts.resources import Request
    from rota.core.facts.tenant import Actor

#: The text of a set of indices is cut here; a set this ragged is of no use to a reader anyway.
INDICES_TEXT_MAX = 200


class ResourcesView(ShowsMib, msgspec.Struct, frozen=True):
    """What each task asks for."""

    cpus: float
    memory_mb: int
    gpus: int | float
    gpu_type: str
    gpu_memory_mb: int
    shared: bool
    disk_mb: int
    device: str
    gpu_indices: tuple[int, ...] = ()
    memory_mib: int = 0
    gpu_memory_mib: int = 0
    disk_mib: int = 0


class RoleView(msgspec.Struct, frozen=True):
    """One kind of member."""

    name: str
    count: int
    min_count: int
    resources: ResourcesView


class DependencyView(msgspec.Struct, omit_defaults=True):
    kind: DependencyKind
    job: int
    element: bool
    data: str = ""


class JobView(msgspec.Struct, kw_only=True):
    """A job; of other people's jobs a user sees no command, folder, labels, paths or values."""

    id: int
    #: How people name it: 12, or 15_3 for an element of an array.
    ref: str = ""
    uid: str
    name: str
    user: str
    project: str
    queue: str
    state: JobState
    reason: str
    priority: int
    resources: ResourcesView
    tasks: int
    min_tasks: int
    #: Where there are several; `resources` and `min_tasks` are then those of the first.
    roles: list[RoleView] = []
    submitted_at: Moment | None
    eligible_at: Moment | None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: str | None = None
    cause_code: Cause | None = None
    nodes: list[str] = []
    allocations: list[AllocationView] = []
    attempts: list[AttemptView] = []
    array_id: int | None = None
    array_index: int | None = None
    depends_on: list[DependencyView] = []
    time_limit_s: int
    grace_s: int
    scheduling_timeout_s: int
    dependency_timeout_s: int
    begin_at: Moment | None = None
    group: str
    retries: int
    restart: RestartPolicy
    held: bool
    #: What it does, in finer words than its state: `provisioning`, `checkpointing`, `migrating`...
    phase: JobPhase = JobPhase.PENDING
    #: Since when its processes are stopped where they are; null: they are not.
    suspended_at: Moment | None = None
    preemptible: bool
    preempt_mode: PreemptMode | None = None
    preempt_retries: int = 100
    health: HealthRequest | None = None
    preemptions: int = 0
    checkpoint_signal: str
    save_signal: str = ""
    save_every_s: int = 0
    warn_signal: str = ""
    warn_s: int = 0
    #: When it was last asked to save its work and go on.
    save_asked_at: Moment | None = None
    checkpoint_at: Moment | None = None
    checkpoints: list[RecordView] = []
    restart_cost_s: int
    qos: ServiceClass
    type: JobType
    deadline_at: Moment | None = None
    #: When its deadline passed and it was not done.
    deadline_missed_at: Moment | None = None
    #: What became of the promise of its deadline: `open`, `kept`, `broken`; empty: it has none.
    promise: str = ""
    estimate_s: int
    #: What it is expected to take, and a bound that holds for nine of ten; 0: not predicted.
    predicted_s: int = 0
    predicted_most_s: int = 0
    placement: PlacementView | None = None
    command: list[str] | None = None
    script: bool = False
    workdir: str | None = None
    output: str | None = None
    error: str | None = None
    labels: dict[str, str] | None = None
    notify: list[str] = []
    pty: bool = False
    bundle: str | None = None
    image: str | None = None
    licenses: list[str] = []
    ports: list[str] = []
    parameters: dict[str, str] | None = None
    #: Of an array: how many elements there are, and in which states.
    count: int | UnsetType = UNSET
    states: dict[str, int] | UnsetType = UNSET
    #: Of the part of an array that is shown as one: its indices, as in ``3-99%4``.
    array_waiting: str | UnsetType = UNSET
    array_indices: str | UnsetType = UNSET


class Page(msgspec.Struct):
    """A page of a list; ``cursor`` gives the next one and is null on the last."""

    items: list[JobView]
    cursor: str | None


@lru_cache(4096)
def resources_view(request: Request) -> ResourcesView:
    return ResourcesView(
        cpus=request.cpu_milli / 1000,
        memory_mb=request.memory_mib,
        gpus=shown_devices(request),
        gpu_type=request.device_type,
        gpu_memory_mb=request.device_memory_mib,
        shared=request.shared,
        disk_mb=request.disk_mib,
        device=request.device,
        gpu_indices=request.device_indices,
    )


def ref_of(job: Job) -> str:
    """``12``, or ``15_3`` for an element of an array."""
    return f"{job.array_id}_{job.array_index}" if job.array_id else str(job.id)


def job_view(job: Job, actor: Actor, reason: str = "") -> JobView:
    """A job as the actor may see it. ``reason`` says why it waits."""
    view = _shared_view(job, actor)
    spec = job.spec
    open_ = may_look_into(actor, spec.user)
    view.uid = job.uid
    view.ref = ref_of(job)
    view.name = fill_in(spec.name, job)
    view.state = job.state
    view.reason = reason or job.pause
    view.phase = phase_of(job)
    view.suspended_at = when(job.suspended_s)
    view.array_id = job.array_id or None
    view.array_index = job.array_index if job.array_id else None
    view.started_at = when(job.started_s)
    view.ended_at = when(job.ended_s)
    view.preemptions = job.preemptions
    view.checkpoint_at = when(job.checkpoint_s)
    view.save_asked_at = when(job.save_asked_s)
    view.deadline_missed_at = when(job.missed_s) if job.is_late else None
    view.promise = job.promise
    if job.outcome is not None:
        _add_outcome(view, job.outcome, open_=open_)
    if job.tasks:
        _add_tasks(view, job, open_=open_)
    if open_:
        view.command = [fill_in(word, job) for word in spec.command] if spec.command else None
        view.output = output_path(spec.output, job, 0) or None
        view.error = output_path(spec.error, job, 0) or None
        view.parameters = job.parameters
        view.checkpoints = [record_view(record) for record in job.checkpoints]
    return view


def _shared_view(item: Job | Array, actor: Actor) -> JobView:
    """What follows from the spec, for a job and for an array alike."""
    spec = item.spec
    view = JobView(
        id=item.id,
        ref=str(item.id),
        uid=item.uid,
        name=spec.name,
        user=spec.user,
        project=spec.project,
        queue=spec.queue,
        state=JobState.QUEUED,
        reason="",
        priority=spec.priority,
        resources=resources_view(spec.request),
        tasks=spec.task_count,
        min_tasks=spec.roles[0].min_count,
        submitted_at=when(item.submitted_s),
        eligible_at=when(item.eligible_s),
        time_limit_s=spec.time_limit_s,
        grace_s=spec.grace_s,
        scheduling_timeout_s=spec.scheduling_timeout_s,
        dependency_timeout_s=spec.dependency_timeout_s,
        begin_at=when(spec.begin_s),
        group=spec.group,
        retries=spec.retries,
        restart=spec.restart,
        held=item.held,
        preemptible=spec.preemptible,
        preempt_mode=spec.preempt_mode,
        preempt_retries=spec.preempt_retries,
        health=health_request(spec.health),
        checkpoint_signal=spec.checkpoint_signal,
        save_signal=spec.save_signal,
        warn_signal=spec.warn_signal,
        warn_s=spec.warn_s,
        save_every_s=spec.save_every_s,
        restart_cost_s=spec.restart_cost_s,
        qos=spec.service,
        type=cast("JobType", spec.type),
        deadline_at=when(spec.deadline_s),
        estimate_s=spec.estimate_s,
        predicted_s=spec.predicted_s,
        predicted_most_s=spec.predicted_most_s,
        depends_on=[DependencyView(d.kind, d.parent, d.element, d.data) for d in spec.dependencies],
    )
    if len(spec.roles) > 1:
        view.roles = [
            RoleView(role.name, role.count, role.min_count, resources_view(role.request))
            for role in spec.roles
        ]
    if may_look_into(actor, spec.user):
        _add_private(view, spec)
    return view


def _add_private(view: JobView, spec: JobSpec) -> None:
    view.command = list(spec.command) or None
    view.script = bool(spec.script)
    view.workdir = spec.workdir
    view.output = spec.output or None
    view.error = spec.error or None
    view.labels = spec.labels
    view.pty = spec.pty
    view.bundle, view.image = spec.bundle or None, spec.image or None
    view.licenses = [f"{name}:{count}" for name, count in spec.licenses]
    view.ports = list(spec.ports)
    view.notify = [format_target(target) for target in spec.notify]
    view.placement = placement_view(spec.placement)


def _add_outcome(view: JobView, outcome: Outcome, *, open_: bool) -> None:
    view.exit_code = outcome.exit_code
    view.signal = outcome.signal or None
    view.cause = cause_text(outcome, open_=open_)
    view.cause_code = outcome.cause


def _add_tasks(view: JobView, job: Job, *, open_: bool) -> None:
    view.attempts = attempt_views(job, open_=open_)
    view.nodes = list(
        dict.fromkeys(t.attempts[-1].allocation.node for t in job.tasks if t.attempts)
    )
    view.allocations = [
        allocation_view(task.index, task.attempts[-1].allocation)
        for task in job.tasks
        if task.attempts and task.attempts[-1].live
    ]


def array_view(array: Array, actor: Actor, state: JobState, reason: str = "") -> JobView:
    """A whole array as one item."""
    view = _shared_view(array, actor)
    view.state = state
    view.reason = reason
    view.array_id = array.id
    view.count = array.count
    return view


def collapsed_view(array: Array, actor: Actor, state: JobState, reason: str = "") -> JobView:
    """The elements of an array that nothing has touched, as one item."""
    view = array_view(array, actor, state, reason)
    spans = array.waiting or array.cut
    view.count = sum(last - first + 1 for first, last in spans)
    text = indices_text(array, spans)
    view.array_waiting = view.array_indices = text
    if not array.waiting and array.cut_outcome is not None:
        _add_outcome(view, array.cut_outcome, open_=may_look_into(actor, array.spec.user))
        view.ended_at = when(array.cut_s)
    return view


def indices_text(array: Array, spans: list[list[int]], text_max: int = INDICES_TEXT_MAX) -> str:
    """The indices at positions, as in ``3-99%4`` or ``1,5-20:5``; a ragged set is cut short."""
    parts: list[str] = []
    length = before = at = 0
    for run in array.runs:
        size = len(run)
        while at < len(spans) and spans[at][0] < before + size:
            first = max(spans[at][0], before) - before
            last = min(spans[at][1], before + size - 1) - before
            parts.append(_range_text(run.first + first * run.step, last - first, run.step))
            length += len(parts[-1]) + 1
            if length > text_max:
                return ",".join([*parts[:-1], "..."]) + _cap_text(array)
            if spans[at][1] >= before + size:
                break
            at += 1
        before += size
    return ",".join(parts) + _cap_text(array)


def _range_text(first: int, further: int, step: int) -> str:
    if not further:
        return str(first)
    return f"{first}-{first + further * step}" + (f":{step}" if step > 1 else "")


def _cap_text(array: Array) -> str:
    return f"%{array.cap}" if array.cap else ""


def worst(counts: dict[JobState, int]) -> JobState:
    """An array that ended before the controller's last start."""
    present = {state for state, count in counts.items() if count}
    for state in (JobState.COMPLETED, JobState.CANCELLED):
        if present == {state}:
            return state
    return JobState.FAILED
