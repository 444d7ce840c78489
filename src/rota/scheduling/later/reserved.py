"""Reservations as claims on nodes: whole nodes, devices by index or by number, or the very
room that a job was promised at its submit.

The end of a node is one, too: from then on all of it is claimed for ever.

A reservation by count holds against the sum of all other jobs. Which devices it means is
worked out anew in each pass: devices that its owner uses already, then idle ones, then devices that
are free soonest, so it never asks for more than was reserved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.node import Allocation
from rota.core.facts.tenant import Reservation
from rota.scheduling.later.occupancy import INFINITE
from rota.scheduling.later.timeline import Claim
from rota.scheduling.place.node_room import is_variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node, NodeSpec
    from rota.scheduling.later.timeline import Timeline


def claims_of(cluster: Cluster, now_s: float, timeline: Timeline) -> Iterator[tuple[str, Claim]]:
    """Every claim that reservations have from now on, by node."""
    for reservation in sorted(cluster.reservations.values(), key=lambda r: (r.start_s, r.id)):
        if reservation.end_s > now_s:
            start_s, end_s = _span(cluster, reservation, now_s)
            for allocation in _held(cluster, reservation, now_s, timeline):
                claim = Claim(start_s, end_s, allocation, 0, reservation)
                yield allocation.node, claim
    yield from _confined(cluster, now_s)
    for name in sorted(cluster.live.ending):
        spec = cluster.nodes[name].spec
        at_s, held = spec.ends_s, whole(spec)
        ends = Reservation(0, "", at_s, INFINITE, name)
        yield name, Claim(at_s, INFINITE, held, 0, ends, ends=True, unlimited=spec.unlimited)


def _span(cluster: Cluster, reservation: Reservation, now_s: float) -> tuple[float, float]:
    """From when to when it claims: a promise that is due moves on until its job has started."""
    job = cluster.jobs.get(reservation.job) if reservation.room else None
    if job is None:
        return reservation.start_s, reservation.end_s
    start_s = max(reservation.start_s, now_s)
    return start_s, min(start_s + job.spec.time_limit_s, reservation.end_s)


def _confined(cluster: Cluster, now_s: float) -> Iterator[tuple[str, Claim]]:
    """A job that devices are kept for runs on these and on no others, on whatever node."""
    by_job: dict[int, list[Reservation]] = {}
    for made in cluster.reservations.values():
        if made.job and not made.room and made.end_s > now_s:
            by_job.setdefault(made.job, []).append(made)
    for job, kept in sorted(by_job.items()):
        first = min(kept, key=lambda one: one.id)
        for name in sorted(cluster.nodes):
            own = {index for one in kept if one.node == name for index in one.devices}
            devices = cluster.nodes[name].spec.devices
            others = tuple(device.index for device in devices if device.index not in own)
            if others:
                held = Allocation(name, 0, 0, devices=others)
                yield name, Claim(first.start_s, first.end_s, held, 0, first, job)


def _held(
    cluster: Cluster, reservation: Reservation, now_s: float, timeline: Timeline
) -> list[Allocation]:
    nodes = cluster.nodes
    if reservation.room:
        return [held for held in reservation.room if held.node in nodes]
    if reservation.device_count:
        return _counted(cluster, reservation, now_s, timeline)
    if reservation.devices:
        known = reservation.node in nodes
        return [Allocation(reservation.node, 0, 0, devices=reservation.devices)] if known else []
    names = reservation.nodes or ((reservation.node,) if reservation.node else ())
    return [whole(nodes[name].spec) for name in names if name in nodes]


def whole(spec: NodeSpec) -> Allocation:
    return Allocation(
        spec.name,
        spec.cpu_milli,
        spec.memory_mib,
        spec.disk_mib,
        spec.cpus,
        tuple(device.index for device in spec.devices),
        exclusive=True,
    )


def _counted(
    cluster: Cluster, reservation: Reservation, now_s: float, timeline: Timeline
) -> list[Allocation]:
    names = reservation.nodes or tuple(cluster.nodes)
    ranked = [
        (*rank, name, index)
        for name in sorted(names)
        if (node := cluster.nodes.get(name)) is not None
        for index, rank in _ranks(cluster, node, reservation, now_s, timeline).items()
    ]
    chosen: dict[str, list[int]] = {}
    for _, _, name, index in sorted(ranked)[: reservation.device_count]:
        chosen.setdefault(name, []).append(index)
    return [Allocation(name, 0, 0, devices=tuple(ids)) for name, ids in chosen.items()]


def _ranks(
    cluster: Cluster, node: Node, reservation: Reservation, now_s: float, timeline: Timeline
) -> dict[int, tuple[int, float]]:
    """Devices of the wanted type: used by the owner (0), idle (1), or free at some time (2)."""
    ranks = {
        device.index: (1, now_s)
        for device in node.spec.devices
        if device.usable and is_variant(device.model, reservation.device_type)
    }
    for uid, held in node.live.items():
        job = cluster.jobs[cluster.live.where[uid][0]]
        own = reservation.admits(job.spec.user, job.spec.project, job.id)
        rank = (0, now_s) if own else (2, timeline.end_s(node.name, uid))
        for index in held.devices:
            if index in ranks:
                ranks[index] = max(ranks[index], rank) if not own else rank
    return ranks
