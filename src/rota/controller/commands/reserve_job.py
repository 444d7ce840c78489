"""Devices that are kept for one job: it runs on these and on no others, and nobody else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.controller.commands import reserve
from rota.controller.commands.change import own_job
from rota.controller.tick.lifecycle import let_go
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, NotFound, Rejected
from rota.core.facts.tenant import Reservation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.controller.commands import commands as cmd
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job

#: It stands until the job has ended or somebody removes it; this is but a bound.
LONGEST_S = 366 * 86400.0


def add(scribe: Scribe, command: cmd.ReserveForJob) -> tuple[Reservation, ...]:
    """One reservation per node, all or none; those that the job had before are replaced."""
    job = own_job(scribe, command.actor, command.job)
    places = _places(scribe.cluster, command.devices)
    _refuse_useless(job, {node: len(found) for node, found in places.items()})
    asked = [
        Reservation(
            id=0,
            owner="",
            start_s=scribe.now_s,
            end_s=scribe.now_s + LONGEST_S,
            node=node,
            devices=indices,
            job=job.id,
        )
        for node, indices in places.items()
    ]
    for one in asked:
        reserve.refuse_clash(scribe, one)
    let_go(scribe, job.id)
    made = []
    for one in asked:
        numbered = msgspec.structs.replace(one, id=scribe.cluster.ids.next)
        scribe.emit(ev.ReservationSet(reservation=numbered))
        made.append(numbered)
    _mark(scribe, job, made[0].id)
    return tuple(made)


def remove(scribe: Scribe, command: cmd.RemoveReservation) -> None:
    """By its id, or by the job that it is for: numbers of jobs and reservations never meet."""
    number = command.reservation
    known = scribe.cluster.reservations.get(number)
    if known is not None and not known.job:
        scribe.emit(ev.ReservationRemoved(reservation=number))
        return
    job_id = number if known is None else known.job
    if not let_go(scribe, job_id):
        raise NotFound(f"there is no reservation {number}", field="id", value=number)
    job = scribe.cluster.jobs.get(job_id)
    if job is not None and job.promise == "open":
        note = f"{command.actor.user} removed what was kept for it"
        scribe.emit(ev.PromiseBroken(job=job.id, note=note))
    if job is not None:
        _mark(scribe, job, 0)


def _mark(scribe: Scribe, job: Job, number: int) -> None:
    """Nobody else gets the same answer as a job with devices of its own."""
    spec = msgspec.structs.replace(job.spec, reservation=number)
    scribe.emit(ev.JobUpdated(job=job.id, spec=spec))


def _places(cluster: Cluster, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The devices behind names, node by node: a uuid, or ``NODE:INDEX``."""
    known: dict[str, tuple[str, int]] = {}
    for node in cluster.nodes.values():
        for device in node.spec.devices:
            place = (node.name, device.index)
            known[f"{node.name}:{device.index}"] = place
            # Made-up devices of two nodes may have the same: then only the place tells.
            known[device.uuid] = place if device.uuid not in known else ("", -1)
    places: dict[str, list[int]] = {}
    for name in dict.fromkeys(names):
        node_name, index = known.get(name, ("", -1))
        if not node_name:
            why = "a GPU of several nodes" if name in known else "no GPU of this site"
            told = f"{name} is {why}; expected a uuid or NODE:INDEX"
            raise Rejected.because("gpu_ids", name, told)
        places.setdefault(node_name, []).append(index)
    return {name: tuple(dict.fromkeys(indices)) for name, indices in places.items()}


def _refuse_useless(job: Job, offered: dict[str, int]) -> None:
    """The job is kept from all other devices, so these must be enough for it."""
    tasks = sum(role.count for role in job.spec.roles)
    each = max(role.request.device_count for role in job.spec.roles)
    if not each:
        raise Conflict(f"job {job.id} asks for no GPUs, so none can be kept for it", field="job_id")
    if sum(count // each for count in offered.values()) < tasks:
        needs = f"{tasks} x {each} GPUs, those of a task on one node"
        raise Rejected.because(
            "gpu_ids",
            sum(offered.values()),
            f"{sum(offered.values())} GPUs are not enough: job {job.id} needs {needs}",
        )
