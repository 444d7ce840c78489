"""``scontrol update`` of a job: words that name a QOS, a reservation, nodes or a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.hostlist import expand
from rota.slurm.orders import readers
from rota.slurm.records.node_records import reservation_name
from rota.slurm.words import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.facts.job import JobSpec
    from rota.slurm.call.command import Call


class UpdateRefused(Exception):
    """In Slurm's words."""


def quality(call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    """What ``sbatch --qos`` would make of it."""
    if text in call.context.host.cluster.queues:
        return {}
    try:
        found = readers.quality(text)
    except ValueError:
        raise UpdateRefused("Invalid qos specification") from None
    return {"service" if key == "qos" else key: value for key, value in found.items()}


def reservation(call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    """One that exists; who may use it is decided by its owner."""
    known = set(map(reservation_name, call.context.host.cluster.reservations.values()))
    if text and not set(text.split(",")) & known:
        raise UpdateRefused("Requested reservation is invalid")
    return {}


def requeue(_call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
    if text not in ("0", "1"):
        raise UpdateRefused("Requested operation is invalid")
    return {"retries": 0 if text == "0" else max(spec.retries, 1)}


def hosts(field: str) -> Callable[[Call, JobSpec, str], dict[str, Any]]:
    """Nodes that a job must have, or must not; none: any."""

    def read(call: Call, spec: JobSpec, text: str) -> dict[str, Any]:
        try:
            names = expand(text) if text else ()
        except ValueError:
            names = ("",)
        if any(name not in call.context.host.cluster.nodes for name in names):
            raise UpdateRefused("Invalid node name specified")
        return {"placement": msgspec.structs.replace(spec.placement, **{field: tuple(names)})}

    return read


def deadline(call: Call, _spec: JobSpec, text: str) -> dict[str, Any]:
    try:
        return {"deadline_s": values.moment(text, call.context.host.clock.now_s())}
    except (ValueError, OverflowError):
        raise UpdateRefused("Invalid time specification") from None
