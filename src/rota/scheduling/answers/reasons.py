"""Why a job waits, as data: a closed list of reasons, and the tree that they form for one job.

Every reason is a struct with a code (its tag) and exact numbers. Words are made of them elsewhere
(``prose.py``), and only for an answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import msgspec

from rota.core.facts.parents import DependencyKind
from rota.core.facts.states import JobState
from rota.scheduling.answers.cluster_health import ClusterHealth

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.node import Allocation
    from rota.scheduling.answers.whatif import ComingTakeover
    from rota.scheduling.api import Promise
    from rota.scheduling.limits.quota import Short


class Decision(StrEnum):
    """What was decided about a job when it was last looked at."""

    SCHEDULED = "scheduled"  # it has its room
    QUEUED = "queued"  # it waits for room, or for its turn
    DEFERRED = "deferred"  # something other than room must happen first
    PREEMPTED = "preempted"  # it gave way and waits for room again
    REJECTED = "rejected"  # as things are it can never start


class _Reason(msgspec.Struct, frozen=True, tag_field="code", kw_only=True):
    """Base of all reasons; the tag is the code."""


class Held(_Reason, frozen=True, kw_only=True, tag="held"):
    """A user or an operator holds it back; with a note it was Rota, which says why."""

    note: str = ""


class NotBefore(_Reason, frozen=True, kw_only=True, tag="begin"):
    """Its begin time, or the pause before its next try, has not passed."""

    at_s: float
    retry: bool = False


#: A job's; ``unknown``: nothing is known of it any more.
ParentState = Literal[
    "held", "queued", "scheduled", "running", "preempted", "completed", "failed", "cancelled",
    "timeout", "node_failed", "unschedulable", "unknown",
]  # fmt: skip


class Parent(_Reason, frozen=True, kw_only=True, tag="dependency"):
    """Another job must do something first; ``never``: it did not, and will not."""

    job: int
    kind: DependencyKind
    state: ParentState
    never: bool = False


class QueueShut(_Reason, frozen=True, kw_only=True, tag="queue"):
    """Its queue starts nothing."""

    queue: str
    state: str


class OverShare(_Reason, frozen=True, kw_only=True, tag="share"):
    """Its account is beyond the hard limit on shares while other accounts wait."""

    user: str
    project: str
    #: Use over target now, and the most that is allowed.
    ratio: float
    limit: float


class OverQuota(_Reason, frozen=True, kw_only=True, tag="quota"):
    """A cap or quota: whose, on what, and by how much it is too small."""

    scope: str
    dimension: str
    used: float
    wanted: float
    limit: float
    hard: bool = True
    #: When time alone may help; 0: it does not.
    again_s: float = 0.0
    text: str = ""
    #: Who has set it, where that is not Rota; and why nothing may start at all.
    provider: str = ""
    note: str = ""


def over_quota(short: Short, node: str = "") -> OverQuota:
    """``node``: the job would have this one to itself."""
    return OverQuota(
        scope=short.scope,
        dimension=short.dimension.name.lower(),
        used=short.used,
        wanted=short.wanted,
        limit=short.limit,
        hard=short.hard,
        again_s=short.again_s,
        text=f"{short} for the whole of node {node}" if node else str(short),
        provider=short.provider,
        note=short.note,
    )


class NoNode(_Reason, frozen=True, kw_only=True, tag="no_node"):
    """No node has registered."""


AwayState = Literal["up", "down", "drained", "away"]


class Away(_Reason, frozen=True, kw_only=True, tag="node_away"):
    """Nodes that could take it do not take work; the first of them is named."""

    nodes: int
    node: str
    state: AwayState
    note: str = ""


class ClusterAway(_Reason, frozen=True, kw_only=True, tag="cluster"):
    """All clusters that it is bound to take no work: the first of them, and where it might go."""

    cluster: str
    state: ClusterHealth
    since_s: float
    #: Jobs that are there and held.
    running: int
    elsewhere: tuple[str, ...] = ()
    note: str = ""


class Unfit(_Reason, frozen=True, kw_only=True, tag="filter"):
    """A filter keeps it off nodes for good: which, how many, and in what words of the first."""

    filter: str
    nodes: int
    node: str
    problem: str


class Scarce(_Reason, frozen=True, kw_only=True, tag="room"):
    """Nodes lack a resource now; the numbers are of the node that lacks least."""

    resource: str
    nodes: int
    node: str
    needed: float
    free: float
    total: float
    #: What is counted: ``CPUs``, ``MiB``, ``x A100 gpu``; empty for a whole node.
    unit: str = ""
    #: Devices that processes outside Rota use.
    foreign: int = 0


class Metered(_Reason, frozen=True, kw_only=True, tag="engine"):
    """Pools of engines that get no such task for now, with room or without."""

    nodes: int
    node: str
    problem: str


class BadCompany(_Reason, frozen=True, kw_only=True, tag="neighbours"):
    """Nodes with room that its wishes about neighbours, or a plug-in, rule out now."""

    nodes: int
    node: str
    problem: str


class Claimed(_Reason, frozen=True, kw_only=True, tag="reserved"):
    """A reservation or a maintenance window (without an owner) is in the way."""

    reservation: int
    owner: str
    start_s: float
    end_s: float
    nodes: int
    node: str
    #: How long the job may be there at most; 0: it has no limit.
    stays_s: float
    note: str = ""


class WouldDelay(_Reason, frozen=True, kw_only=True, tag="backfill"):
    """There is room, but not for as long as it stays: another job is promised it."""

    job: int
    start_s: float
    nodes: int
    node: str
    stays_s: float


class Parts(_Reason, frozen=True, kw_only=True, tag="tasks"):
    """There is room for some of its tasks only; ``fit`` is -1 where they were not counted."""

    tasks: int
    fit: int = -1
    nodes: int = 0


class Turn(_Reason, frozen=True, kw_only=True, tag="order"):
    """The rules let nothing pass the job that waits first, be there room or not.

    With a ``band``: no job of that band.
    """

    behind: int = 0
    room: bool = True
    band: str = ""


class Soon(_Reason, frozen=True, kw_only=True, tag="next_pass"):
    """Nothing is in its way any more."""

    node: str


class Leaving(_Reason, frozen=True, kw_only=True, tag="leaving"):
    """It has its room and starts when these jobs have left it."""

    jobs: tuple[int, ...]
    nodes: tuple[str, ...]


class Active(_Reason, frozen=True, kw_only=True, tag="active"):
    """It has its room: it starts, runs, or (with a cause) stops."""

    verb: str
    nodes: tuple[str, ...]
    cause: str = ""
    grace_s: int = 0


class Ended(_Reason, frozen=True, kw_only=True, tag="ended"):
    """It is over; without a state nothing more is known of it."""

    state: JobState | None


Reason = (
    Held
    | NotBefore
    | Parent
    | QueueShut
    | OverShare
    | OverQuota
    | NoNode
    | Away
    | ClusterAway
    | Unfit
    | Scarce
    | Metered
    | BadCompany
    | Claimed
    | WouldDelay
    | Parts
    | Turn
    | Soon
    | Leaving
    | Active
    | Ended
)

#: Codes in the order in which they are asked; all before the first that fails are satisfied.
CONDITIONS = ("held", "begin", "dependency", "queue", "share", "quota")
#: Reasons that have nothing to do with room.
DEFERRING = (Held, NotBefore, Parent, QueueShut, OverShare, OverQuota)


def _nodes_of(allocations: Iterable[Allocation]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(held.node for held in allocations))


class Expected(msgspec.Struct, frozen=True):
    """When and where it starts if everything goes to plan."""

    start_s: float
    nodes: tuple[str, ...]
    #: The pass keeps this room for it; otherwise it is only what follows from what is known.
    promised: bool = True
    #: Jobs that give way to it then.
    victims: tuple[int, ...] = ()
    #: The job ahead to which they give way, and behind which it starts; 0: to itself.
    heir: int = 0

    @classmethod
    def by(cls, promise: Promise, *, promised: bool = True) -> Expected:
        return cls(promise.start_s, _nodes_of(promise.allocations), promised)

    @classmethod
    def by_takeover(cls, found: ComingTakeover) -> Expected:
        return cls(found.start_s, _nodes_of(found.allocations), False, found.victims, found.heir)


class Ahead(msgspec.Struct, frozen=True):
    """How many waiting jobs come first by the policy's order, and the first of them."""

    jobs: int
    first: tuple[int, ...] = ()


WaitKind = Literal["room", "claim", "neighbours", "turn", "limit", "share"]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What the last pass filed the job's lane under: it is looked at when that moves."""

    kind: WaitKind
    #: Of a limit: the counters under which a place must come free.
    counters: tuple[str, ...] = ()
    #: Of room and of a claim: how many nodes may help, and the first of them.
    nodes: int = 0
    node: str = ""
    #: When time alone makes it worth a look; 0: it does not.
    again_s: float = 0.0


class Tree(msgspec.Struct, kw_only=True):
    """All that is to be said about one job."""

    decision: Decision
    #: The decisive one; also the first of ``unsatisfied``.
    reason: Reason
    unsatisfied: tuple[Reason, ...] = ()
    #: Codes and filters that are no obstacle.
    satisfied: tuple[str, ...] = ()
    #: None: its lane is to be looked at, or it stands in none.
    waits: Waiting | None = None
    ahead: Ahead | None = None
    #: The effective priority as a sum of named terms.
    priority: dict[str, float] = {}
    expected: Expected | None = None
