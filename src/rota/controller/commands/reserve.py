"""Reservations: taken only if what they promise exists and is not promised to somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, Rejected
from rota.core.words.units import format_when
from rota.scheduling.place.node_room import is_variant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.controller.commands import commands as cmd
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node
    from rota.core.facts.tenant import Reservation

#: Reservations that are over are listed this long.
KEPT_S = 7 * 86400
#: A device by its node and index.
Place = tuple[str, int]
#: A kind of device: by the numbers of the promises that it would suit.
Suits = tuple[int, ...]


def add(scribe: Scribe, command: cmd.AddReservation) -> Reservation:
    """Checked as a whole against everything that overlaps it."""
    cluster = scribe.cluster
    made: Reservation = msgspec.structs.replace(command.reservation, id=cluster.ids.next)
    refuse_clash(scribe, made)
    _forget_old(scribe)
    scribe.emit(ev.ReservationSet(reservation=made))
    return made


def refuse_clash(scribe: Scribe, made: Reservation) -> None:
    """Refuse what cannot be promised; what the same job had before is no hindrance."""
    cluster = scribe.cluster
    _refuse_times(made, scribe.now_s)
    _refuse_unknown(cluster, made)
    others = [
        other
        for other in cluster.reservations.values()
        if overlap(other, made) and not (made.job and other.job == made.job)
    ]
    _refuse_same(made, others)
    _refuse_too_many(cluster.nodes, made, others)


def _forget_old(scribe: Scribe) -> None:
    """What is long over need not be carried along; the log keeps it."""
    old_s = scribe.now_s - KEPT_S
    for known in [r for r in scribe.cluster.reservations.values() if r.end_s < old_s]:
        scribe.emit(ev.ReservationRemoved(reservation=known.id))


def overlap(one: Reservation, other: Reservation) -> bool:
    """Whether there is a moment that both cover. One may begin when the other ends."""
    return one.start_s < other.end_s and other.start_s < one.end_s


def _refuse_times(made: Reservation, now_s: float) -> None:
    if made.end_s <= made.start_s:
        raise Rejected.bad("duration_s", made.end_s - made.start_s, "more than 0")
    if made.end_s <= now_s:
        when = format_when(made.start_s)
        raise Rejected.because("start_at", when, f"{when}: it would be over already")


def _refuse_unknown(cluster: Cluster, made: Reservation) -> None:
    """Nodes and devices must exist."""
    for field, names in (("nodes", made.nodes), ("node", (made.node,) if made.node else ())):
        for name in names:
            if name not in cluster.nodes:
                known = ", ".join(sorted(cluster.nodes)) or "none"
                raise Rejected.unknown(field, name, "node", f"known nodes: {known}")
    if made.devices:
        have = [device.index for device in cluster.nodes[made.node].spec.devices]
        for index in made.devices:
            if index not in have:
                listed = ", ".join(map(str, have)) or "none"
                why = f"node {made.node} has no GPU {index}; it has {listed}"
                raise Rejected.because("devices", index, why)


def _refuse_same(made: Reservation, others: Sequence[Reservation]) -> None:
    """A node or a device by its index is promised once."""
    for other in others:
        nodes = sorted(set(_whole(made)) & set(_whole(other)))
        if nodes:
            raise _taken(made, other, f"node {nodes[0]}")
        inside = next((n for n in _whole(other) if n == made.node), "")
        inside = inside or next((n for n in _whole(made) if n == other.node), "")
        if inside:
            raise _taken(made, other, f"node {inside}")
        same = sorted(set(made.devices) & set(other.devices)) if made.node == other.node else []
        if same:
            raise _taken(made, other, f"GPU {same[0]} of node {made.node}")
        for held in other.room:
            gpus = set(held.devices) & set(made.devices) if held.node == made.node else set()
            if gpus or held.node in _whole(made):
                raise _taken(made, other, f"room on node {held.node}")


def _taken(made: Reservation, other: Reservation, what: str) -> Conflict:
    span = f"{format_when(other.start_s)} to {format_when(other.end_s)}"
    return Conflict(
        f"{what} is promised to {holder(other)} from {span} (reservation {other.id})",
        field="nodes" if made.nodes else "devices",
        value=what,
        allowed=f"another time, or remove reservation {other.id} first",
    )


def holder(reservation: Reservation) -> str:
    """For whom it is, in words."""
    if reservation.job:
        return f"job {reservation.job}"
    if reservation.owner:
        return reservation.owner
    return f"project {reservation.project}" if reservation.project else "maintenance"


def _whole(reservation: Reservation) -> tuple[str, ...]:
    """The nodes that it takes as a whole."""
    return () if reservation.device_count else reservation.nodes


def _refuse_too_many(
    nodes: Mapping[str, Node], made: Reservation, others: Sequence[Reservation]
) -> None:
    """At no moment may more be promised than there is. Promises change only where one begins."""
    moments = {made.start_s} | {r.start_s for r in others if r.start_s > made.start_s}
    for moment_s in sorted(moments):
        held = [r for r in others if r.start_s <= moment_s < r.end_s]
        short = shortage(nodes, [*held, made])
        if short is not None:
            wanted = made.device_count or len(made.devices) or len(made.nodes)
            counted = [r for r in held if r.device_count]
            listed = ", ".join(f"{r.id} ({r.device_count} for {holder(r)})" for r in counted)
            why = f"reservations {listed} hold then" if counted else "not more exist"
            raise Conflict(
                f"gpus: {wanted} cannot be promised at {format_when(moment_s)}: {short} too few; "
                f"{why}",
                field="gpus",
                value=wanted,
                allowed="fewer GPUs or another time",
            )


def shortage(nodes: Mapping[str, Node], held: Sequence[Reservation]) -> int | None:
    """How many devices are missing if all of these hold at once; None when they can be given.

    Devices that are promised by name are taken first. The rest is a flow from kinds of devices
    to promises by count, in which a later promise may move an earlier one to another kind.
    """
    named: set[Place] = set()
    for reservation in held:
        named |= {(reservation.node, index) for index in reservation.devices}
        named |= {(held.node, index) for held in reservation.room for index in held.devices}
        named |= {
            (name, device.index)
            for name in _whole(reservation)
            for device in (nodes[name].spec.devices if name in nodes else ())
        }
    counted = [r for r in held if r.device_count]
    supply = _supply(nodes, named, counted)
    given: dict[tuple[int, Suits], int] = {}
    missing = 0
    for number, reservation in enumerate(counted):
        missing += reservation.device_count - _give(number, reservation.device_count, supply, given)
    return missing or None


def _supply(
    nodes: Mapping[str, Node], named: set[Place], counted: Sequence[Reservation]
) -> dict[Suits, int]:
    """How many devices are left, by which of the promises they suit."""
    supply: dict[Suits, int] = {}
    for node in nodes.values():
        for device in node.spec.devices:
            if (node.name, device.index) in named or device.parent >= 0:
                continue
            suits = tuple(
                number
                for number, reservation in enumerate(counted)
                if not (reservation.nodes and node.name not in reservation.nodes)
                and is_variant(device.model, reservation.device_type)
            )
            supply[suits] = supply.get(suits, 0) + 1
    return supply


def _give(
    number: int, wanted: int, supply: dict[Suits, int], given: dict[tuple[int, Suits], int]
) -> int:
    """Give a promise devices, if need be by moving earlier ones to others; how many it got."""
    got = 0
    while got < wanted and (way := _way(number, supply, given)) is not None:
        taken, moves = way
        amount = min([wanted - got, supply[taken], *(given[loser, kind] for loser, kind in moves)])
        supply[taken] -= amount
        last = taken
        for loser, kind in moves:
            given[loser, last] = given.get((loser, last), 0) + amount
            given[loser, kind] -= amount
            last = kind
        given[number, last] = given.get((number, last), 0) + amount
        got += amount
    return got


def _way(
    number: int, supply: Mapping[Suits, int], given: Mapping[tuple[int, Suits], int]
) -> tuple[Suits, list[tuple[int, Suits]]] | None:
    """Devices that are left, and who must change to what so that the promise can have some.

    The moves are in order: each one takes the kind of the step before and leaves its own.
    """
    #: Promise -> the promise that wants what it holds, and of which kind.
    before: dict[int, tuple[int, Suits] | None] = {number: None}
    waiting = [number]
    for promise in waiting:
        for kind, left in supply.items():
            if promise not in kind:
                continue
            if left > 0:
                moves = []
                step, loser = before[promise], promise
                while step is not None:
                    moves.append((loser, step[1]))
                    loser, step = step[0], before[step[0]]
                return kind, moves
            for other in kind:
                if other not in before and given.get((other, kind), 0) > 0:
                    before[other] = (promise, kind)
                    waiting.append(other)
    return None
