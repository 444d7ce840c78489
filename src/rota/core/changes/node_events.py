"""What happened to nodes, in the past tense."""

from __future__ import annotations

from rota.core.facts.event import Event
from rota.core.facts.node import Closure, ForeignUse, NodeSpec
from rota.core.facts.placing import Taint
from rota.core.facts.tenant import Token


class NodeRegistered(Event, frozen=True, tag="node-registered"):
    """An agent said hello. Another incarnation or boot means that older attempts are gone."""

    spec: NodeSpec
    incarnation: str
    boot_id: str
    #: The lease that its agent was told, in seconds; 0: none.
    lease_s: float = 0.0
    home: str = ""


class NodeSilent(Event, frozen=True, tag="node-silent"):
    """The agent's connection ended; what runs there goes on."""

    node: str
    note: str


class NodeLost(Event, frozen=True, tag="node-lost"):
    """Silent for so long that its lease has run out: nothing of ours lives there any more."""

    node: str
    note: str


class NodesVanished(Event, frozen=True, tag="nodes-vanished"):
    """More than half of the nodes fell silent together: they are given up one at a time.

    Without ``nodes`` it is over.
    """

    nodes: tuple[str, ...]
    note: str = ""


class NodeDrained(Event, frozen=True, tag="node-drained"):
    """It takes no new work, or takes it again.

    With ``migrate`` its jobs leave when they can without losing work; all have left at
    ``deadline_s`` (0: whenever they end). With ``cools_s`` starts failed there for its own sake: it
    is tried again then. On ``trial`` what is known against it stays until a start works. ``by`` is
    the user who asked for it, or ``rota``.
    """

    node: str
    drained: bool
    note: str = ""
    migrate: bool = False
    deadline_s: float = 0.0
    cools_s: float = 0.0
    trial: bool = False
    by: str = ""


class NodeQuarantined(Event, frozen=True, tag="node-quarantined"):
    """Jobs of several users kept dying there: it gets no more until an operator resumes it.

    Only these ``devices``, if any are named, by their uuids.
    """

    node: str
    note: str
    devices: tuple[str, ...] = ()


class PoolClosed(Event, frozen=True, tag="pool-closed"):
    """The engine of a pool let tasks wait for too long: it gets no such ones for a while.

    ``closures`` are all that hold from now on; none: it is open to everything.
    """

    node: str
    closures: tuple[Closure, ...] = ()


class DevicesSeen(Event, frozen=True, tag="devices-seen"):
    """Which processes outside Rota use the node's devices."""

    node: str
    foreign: tuple[ForeignUse, ...]


class DevicesElsewhere(Event, frozen=True, tag="devices-elsewhere"):
    """An inventory outside of Rota says that others have these devices, or that they are gone."""

    node: str
    devices: tuple[str, ...] = ()


class NodeMarked(Event, frozen=True, tag="node-marked"):
    """What an operator says about a node, replacing what was said before.

    Labels, taints, the uuids of devices that are kept from jobs, and the pids of processes
    outside Rota that do not count.
    """

    node: str
    labels: dict[str, str] = {}  # noqa: RUF012 - structs copy it
    taints: tuple[Taint, ...] = ()
    closed: tuple[str, ...] = ()
    ignored_pids: tuple[int, ...] = ()


class NodeKeySet(Event, frozen=True, tag="node-key-set"):
    """A node joined, was approved or has a new key: from here on this is its only one.

    ``spent`` names the join token of which this took one use; empty: of none.
    """

    token: Token
    spent: str = ""


class NodeCutOff(Event, frozen=True, tag="node-cut-off"):
    """An operator removed a node that may still run jobs: it is refused, and goes after them."""

    node: str
    note: str


class NodeRemoved(Event, frozen=True, tag="node-removed"):
    node: str
