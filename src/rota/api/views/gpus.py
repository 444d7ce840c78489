"""Devices as the API shows them: in which state each is, and who uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from rota.api.bodies.mib import ShowsMib
from rota.api.views.times import Moment, when

if TYPE_CHECKING:
    from rota.controller.chores.measures import Measures
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Device, Node


class ForeignView(ShowsMib, msgspec.Struct):
    """A process outside Rota on a device."""

    pid: int
    user: str
    memory_mb: int
    #: It does not count: by the agent's settings, or because an operator said so.
    ignored: bool = False
    memory_mib: int = 0


DeviceKind = Literal["gpu", "tpu"]
GpuState = Literal["free", "used", "shared", "reserved", "foreign", "closed", "broken", "elsewhere"]


class OveruseView(msgspec.Struct):
    """A job that holds more memory of a GPU than it asked for; 0: it was not given this one."""

    job: int
    task: int
    memory_used_mib: int
    declared_mib: int


class DeviceFailureView(msgspec.Struct):
    """A failure that a GPU reported of itself."""

    at: Moment | None
    what: str


class GpuView(ShowsMib, msgspec.Struct):
    """A device: ``available`` when an exclusive job could have it now."""

    node: str
    index: int
    uuid: str
    kind: DeviceKind
    type: str
    model: str
    memory_mb: int
    memory_free_mb: int
    numa: int | None
    links: list[int]
    state: GpuState
    available: bool
    jobs: list[int]
    foreign: list[ForeignView]
    fake: bool
    #: An operator keeps it from jobs; what runs on it goes on.
    closed: bool = False
    #: Errors in its memory that could not be corrected, since its driver was loaded.
    ecc_errors: int = 0
    healthy: bool = True
    #: The job that it is kept for; null: none.
    reserved_for: int | None = None
    memory_mib: int = 0
    memory_free_mib: int = 0
    #: As its node measured it last; null: it was not, or not lately.
    use_percent: float | None = None
    memory_used_mib: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    measured_at: Moment | None = None
    #: Since when it does nothing although a job has it to itself; null: it is not so.
    idle_since: Moment | None = None
    #: Jobs that hold more of its memory than they asked for.
    overuse: list[OveruseView] = []
    #: Failures that it reported within a day.
    failures: list[DeviceFailureView] = []


def gpu_views(cluster: Cluster, node: Node, measures: Measures | None = None) -> list[GpuView]:
    """The devices of a node, who holds them, who else uses them, and what was measured."""
    holders: dict[int, list[int]] = {}
    held_mib: dict[int, int] = {}
    shared: set[int] = set()
    sizes = {device.index: device for device in node.spec.devices}
    for uid, allocation in node.live.items():
        for index in allocation.devices:
            holders.setdefault(index, []).append(cluster.live.where[uid][0])
            taken_mib = allocation.share_of(sizes[index]) if index in sizes else 0
            held_mib[index] = held_mib.get(index, 0) + taken_mib
            if allocation.shared:
                shared.add(index)
    views = [
        _gpu_view(node, device, sorted(set(holders.get(device.index, ()))), held_mib, shared)
        for device in node.spec.devices
    ]
    _note_kept(cluster, node, views)
    _note_overuse(cluster, node, views)
    if measures is not None:
        for view in views:
            _note_measured(node, view, measures)
    return views


def _note_overuse(cluster: Cluster, node: Node, views: list[GpuView]) -> None:
    """What is held beyond a share is not free either."""
    by_index = {view.index: view for view in views}
    for use in node.overuse:
        view, held = by_index.get(use.device), node.live.get(use.uid)
        if view is None or held is None:
            continue
        device = next(one for one in node.spec.devices if one.index == use.device)
        declared_mib = held.share_of(device) if use.device in held.devices else 0
        view.overuse.append(OveruseView(*cluster.live.where[use.uid], use.memory_mib, declared_mib))
        view.memory_free_mb = max(0, view.memory_free_mb - node.excess_mib(use))


def _note_measured(node: Node, view: GpuView, measures: Measures) -> None:
    track = measures.device(node.name, view.index)
    if track is None or track.reading is None:
        return
    view.use_percent = track.reading.use_percent
    view.memory_used_mib = track.reading.memory_used_mib
    view.power_w = track.reading.power_w
    view.temperature_c = track.reading.temperature_c
    view.ecc_errors = max(view.ecc_errors, track.reading.ecc_errors)
    view.measured_at = when(track.at_s)
    view.idle_since = when(measures.idle_s(node, view.index) or 0.0)


def _note_kept(cluster: Cluster, node: Node, views: list[GpuView]) -> None:
    """One that is kept for a job is nobody else's to have."""
    kept = {
        index: made.job
        for made in cluster.reservations.values()
        if made.job and made.node == node.name
        for index in made.devices
    }
    for view in views:
        view.reserved_for = kept.get(view.index)
        if view.reserved_for is not None and view.state == "free":
            view.state, view.available = "reserved", False


def _gpu_view(
    node: Node, device: Device, jobs: list[int], held_mib: dict[int, int], shared: set[int]
) -> GpuView:
    foreign = [
        ForeignView(use.pid, use.user, use.memory_mib, node.minds_not(use))
        for use in node.foreign
        if use.device == device.index
    ]
    counted = [use for use in foreign if not use.ignored]
    state: GpuState = "foreign" if counted else "free"
    if device.closed or not device.healthy:
        state = "closed" if device.closed else "broken"
        state = "elsewhere" if device.uuid in node.elsewhere else state
    if jobs:
        state = "shared" if device.index in shared else "used"
    taken_mib = sum(use.memory_mb for use in counted)
    if jobs:
        whole = device.index not in shared
        taken_mib += device.memory_mib if whole else held_mib.get(device.index, 0)
    return GpuView(
        node=node.name,
        index=device.index,
        uuid=device.uuid,
        kind="tpu" if device.kind == "tpu" else "gpu",
        type=device.model,
        model=device.model,
        memory_mb=device.memory_mib,
        memory_free_mb=max(0, device.memory_mib - taken_mib),
        numa=device.numa if device.numa >= 0 else None,
        links=list(device.links),
        state=state,
        available=state == "free" and node.takes_work,
        jobs=jobs,
        foreign=foreign,
        fake=device.fake,
        closed=device.uuid in node.closed,
        ecc_errors=device.ecc_errors,
        healthy=device.healthy,
        failures=[
            DeviceFailureView(when(fault.at_s), fault.what)
            for fault in node.faults
            if fault.uuid == device.uuid
        ],
    )
