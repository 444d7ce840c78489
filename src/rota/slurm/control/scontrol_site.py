"""``scontrol`` on nodes, partitions and reservations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.controller.commands.commands import (
    AddReservation,
    DrainNode,
    RemoveQueue,
    RemoveReservation,
    SetQueue,
)
from rota.core.facts.errors import Rejected
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Access, Queue, Reservation
from rota.hostlist import expand
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.words import values

if TYPE_CHECKING:
    from rota.slurm.call.command import Call

_OPERATORS = (Access.ADMIN, Access.OPERATOR)
#: How long a reservation lasts that names no end: a year.
YEAR_S = 365 * 86400.0


async def update_node(call: Call, pairs: dict[str, str]) -> Answer:
    state = pairs.get("state", "").lower()
    if state in ("drain", "down", "fail", "drained") and not pairs.get("reason"):
        raise CommandFailed(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied\n", 1
        )
    if call.actor.access not in _OPERATORS:
        raise CommandFailed("slurm_update error: Access/permission denied\n", 1)
    drains = state in ("drain", "down", "fail", "drained")
    if state and not drains and state not in ("resume", "undrain", "idle"):
        text = f"Invalid input: state={pairs['state']}\nRequest aborted\n"
        raise CommandFailed(f"{text}Valid states are: DRAIN DOWN FAIL RESUME UNDRAIN IDLE\n", 1)
    for node in _hosts(call, pairs["nodename"]):
        if state:
            note = pairs.get("reason", "").strip("\"'")
            # What runs on a node that is down goes back into the queue, now.
            soon_s = call.context.host.clock.now_s() + 1 if state in ("down", "fail") else 0.0
            command = DrainNode(
                actor=call.actor, node=node, drained=drains, note=note, deadline_s=soon_s
            )
            async with call.context.turns.of("node", node):
                await call.context.host.ask(command)
    return Answer()


def _hosts(call: Call, text: str) -> tuple[str, ...]:
    known = call.context.host.cluster.nodes
    try:
        names = tuple(known) if text.upper() == "ALL" else expand(text)
    except ValueError:
        names = ("",)
    if not names or any(name not in known for name in names):
        raise CommandFailed("slurm_update error: Invalid node name specified\n", 1)
    return names


async def update_partition(call: Call, pairs: dict[str, str]) -> Answer:
    name = pairs.get("partitionname") or pairs.get("partition", "")
    async with call.context.turns.of("queue", name):
        return await _update_partition(call, pairs, name)


async def _update_partition(call: Call, pairs: dict[str, str], name: str) -> Answer:
    queue = call.context.host.cluster.queues.get(name)
    if queue is None:
        raise CommandFailed("slurm_update error: Invalid partition name specified\n", 1)
    if call.actor.access not in _OPERATORS:
        raise CommandFailed("slurm_update error: Access/permission denied\n", 1)
    changed = msgspec.structs.replace(queue, state=_state(pairs))
    await call.context.host.ask(SetQueue(actor=call.actor, queue=changed))
    return Answer()


def _state(pairs: dict[str, str]) -> QueueState:
    states = {
        "up": QueueState.ACTIVE,
        "down": QueueState.PAUSED,
        "drain": QueueState.DRAINING,
        "inactive": QueueState.CLOSED,
    }
    asked = pairs.get("state", "up").lower()
    if asked not in states:
        raise CommandFailed(
            f"scontrol: error: Invalid input: state={pairs['state']}\n"
            "scontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE\n"
            "slurm_update error: No error\n",
            1,
        )
    return states[asked]


async def create_partition(call: Call, pairs: dict[str, str]) -> Answer:
    """A queue of that name. All queues share the nodes; what else is said of it is refused."""
    name = pairs.get("partitionname") or pairs.get("partition", "")
    if more := sorted(pairs.keys() - {"partitionname", "partition", "state", "nodes"}):
        raise CommandFailed(f"Invalid input: {more[0]}={pairs[more[0]]}\nRequest aborted\n", 1)
    if pairs.get("nodes", "ALL").upper() != "ALL":
        raise _no_partition("queues share all nodes here")
    if call.actor.access not in _OPERATORS:
        raise _no_partition("Access/permission denied")
    async with call.context.turns.of("queue", name):
        if name in call.context.host.cluster.queues:
            raise _no_partition("Invalid partition name specified")
        try:
            made = SetQueue(actor=call.actor, queue=Queue(name=name, state=_state(pairs)))
            await call.context.host.ask(made)
        except Rejected:
            raise _no_partition("Invalid partition name specified") from None
    return Answer()


def _no_partition(reason: str) -> CommandFailed:
    return CommandFailed(f"Error creating the partition: {reason}\n", 1)


async def delete_partition(call: Call, name: str, key: str = "partitionname") -> Answer:
    """A queue in which no job is left."""
    said = f"delete_partition {key}={name}: "
    if call.actor.access not in _OPERATORS:
        raise CommandFailed(f"{said}Access/permission denied\n", 1)
    async with call.context.turns.of("queue", name):
        if name not in call.context.host.cluster.queues:
            raise CommandFailed(f"{said}Invalid partition name specified\n", 1)
        try:
            await call.context.host.ask(RemoveQueue(actor=call.actor, queue=name))
        except Rejected as error:
            raise CommandFailed(f"{said}{error.detail}\n", 1) from None
    return Answer()


async def create_reservation(call: Call, pairs: dict[str, str]) -> Answer:
    """Whole nodes for somebody, or for nobody: maintenance."""
    if call.actor.access not in _OPERATORS:
        raise _no_reservation("Access/permission denied")
    if not pairs.get("starttime"):
        text = "scontrol: error: A start time must be given.  No reservation created.\n"
        raise CommandFailed(text, 1)
    now_s = call.context.host.clock.now_s()
    try:
        start_s = values.moment(pairs["starttime"], now_s)
        end_s = start_s + _duration_s(pairs, start_s, now_s)
    except (ValueError, OverflowError):
        raise _no_reservation("Invalid time specification") from None
    known = call.context.host.cluster.nodes
    text = pairs.get("nodes", "")
    try:
        nodes = tuple(known) if text.upper() == "ALL" else expand(text)
    except ValueError:
        nodes = ()
    if not nodes or any(name not in known for name in nodes):
        raise _no_reservation("Invalid node name specified")
    users, accounts = pairs.get("users", ""), pairs.get("accounts", "")
    name = pairs.get("reservationname") or pairs.get("reservation", "")
    made = Reservation(
        id=0,
        owner=users.split(",")[0],
        start_s=start_s,
        end_s=end_s,
        nodes=nodes,
        project=accounts.split(",")[0],
        note=name or f"{(users or accounts or 'maint').split(',')[0]}_{int(start_s)}",
    )
    try:
        await call.context.host.ask(AddReservation(actor=call.actor, reservation=made))
    except Rejected:
        raise _no_reservation("Requested nodes are busy") from None
    return Answer(f"Reservation created: {made.note}\n")


def _duration_s(pairs: dict[str, str], start_s: float, now_s: float) -> float:
    if pairs.get("endtime"):
        return values.moment(pairs["endtime"], now_s) - start_s
    return 60.0 * values.minutes(pairs["duration"]) if pairs.get("duration") else YEAR_S


def _no_reservation(reason: str) -> CommandFailed:
    return CommandFailed(f"Error creating the reservation: {reason}\n", 1)


async def delete_reservation(call: Call, name: str, key: str = "reservationname") -> Answer:
    """By the name that it was made with, or by the number behind ``r``."""
    if call.actor.access not in _OPERATORS:
        raise CommandFailed("slurm_delete_reservation error: Access/permission denied\n", 1)
    for item in call.context.host.cluster.reservations.values():
        if name in (item.note, f"r{item.id}"):
            async with call.context.turns.of("reservation", item.id):
                command = RemoveReservation(actor=call.actor, reservation=item.id)
                await call.context.host.ask(command)
            return Answer()
    text = f"delete_reservation {key}={name}: Requested reservation is invalid\n"
    raise CommandFailed(text, 1)
