"""What passes decide, and the four small protocols that rules and plug-ins fulfil.

A rule is pure: it sees values and answers with a value. It must not remember anything between
calls that changes its answers, and it must answer the same for the same arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import msgspec

from rota.core.facts.loans import Loan
from rota.core.facts.node import Allocation
from rota.core.facts.policy import PreemptMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.derived.lanes import LaneKey, Shape
    from rota.core.facts.node import NodeSpec
    from rota.core.facts.placing import Taint
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Amount

#: A term of a score at its best is worth this much per point of weight.
UNIT = 10_000


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision: these tasks of a job (or of an untouched element of an array) start now."""

    job: int
    allocations: tuple[Allocation, ...]
    #: The array that the element must be taken out of first; 0 for a job of its own.
    array: int = 0
    #: Which tasks the allocations are for; empty: task 0, 1, 2, ...
    tasks: tuple[int, ...] = ()
    #: Live attempts that leave the room for it; it is launched when they are gone.
    after: tuple[str, ...] = ()
    #: It was let past a waiting job and should be gone by then; 0: no window.
    window_s: float = 0.0
    #: For each allocation the CPUs that others lend to it; empty: none does.
    borrows: tuple[tuple[Loan, ...], ...] = ()
    #: It starts while another job waits with a promise of room.
    ahead: bool = False

    def loans_of(self, at: int) -> tuple[Loan, ...]:
        """What is lent to the allocation in this place."""
        return self.borrows[at] if self.borrows else ()


class Eviction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision: a running job gives way, whole or (an elastic one) with some of its tasks.

    In the mode ``suspend`` it stands still and lends its CPUs; in all others it leaves.
    """

    job: int
    mode: PreemptMode
    #: The job that it gives way to.
    by: int
    #: Only these tasks; empty: all of it.
    tasks: tuple[int, ...] = ()

    @property
    def lends(self) -> bool:
        """Whether it stays where it is."""
        return self.mode is PreemptMode.SUSPEND


class Return(NamedTuple):
    """A decision: a job that waits inside an engine before there is room comes back; why."""

    job: int
    detail: str


class Promise(NamedTuple):
    """A waiting job's place in the future: when and where it starts if everything goes to plan."""

    job: int
    start_s: float
    end_s: float
    allocations: tuple[Allocation, ...]


class DroppedPlugin(NamedTuple):
    """A plug-in that failed in this pass: the built-in rule decided in its place."""

    point: str
    name: str
    problem: str


class PassResult(msgspec.Struct):
    """The result of a pass."""

    starts: list[Start] = []
    evictions: list[Eviction] = []
    promises: list[Promise] = []
    dropped: list[DroppedPlugin] = []
    returns: list[Return] = []
    #: The limit on starts was reached: there is more to do right away.
    more: bool = False
    #: Time alone may change the answer: look again then; 0: no.
    wake_s: float = 0.0


class Entry(NamedTuple):
    """A waiting job as orderings see it."""

    job: int
    key: LaneKey
    shape: Shape
    submitted_s: float
    eligible_s: float
    #: How long it is taken to run: estimate, limit, or the policy's assumption.
    run_s: float


class Shares(Protocol):
    """Fair share during a pass: grows worse for an account as its jobs start."""

    def ratio(self, user: str, project: str) -> float:
        """Use over target; 0 for an account that uses nothing, 1 for exactly its share."""

    def version(self, user: str, project: str) -> int:
        """Changes whenever ``ratio`` may have; lets a pass keep keys that still hold."""

    def worst(self, user: str, project: str) -> float:
        """The largest use over target on the way from the account up to its topmost project."""


class View(NamedTuple):
    """The world as orderings see it."""

    now_s: float
    policy: Policy
    shares: Shares
    #: Everything that the nodes have.
    total: Amount


class Ordering(Protocol):
    """Who comes first: the lower the key, the earlier.

    Among jobs that are equal but for their age, the older one must not get the higher key:
    passes rely on it and ask for the first of each such lane only. While jobs start in a pass,
    keys may only grow.
    """

    @property
    def name(self) -> str: ...

    def key(self, entry: Entry, view: View) -> float: ...


class NodeView(NamedTuple):
    """A node as filters and scorers see it."""

    spec: NodeSpec
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    #: What is left on it.
    free: Amount


class Filter(Protocol):
    """Whether a shape may run on a node: an empty answer, or why not in a few words."""

    @property
    def name(self) -> str: ...

    def problem(self, shape: Shape, node: NodeView) -> str: ...


class Scorer(Protocol):
    """How good a node is for a shape, from 0 (bad) to 1 (good)."""

    @property
    def name(self) -> str: ...

    def score(self, shape: Shape, node: NodeView) -> float: ...


class Victim(NamedTuple):
    """A running job as victim rules see it."""

    job: int
    user: str
    priority: float
    #: Since its start, and since its work was last saved.
    ran_s: float
    unsaved_s: float
    held: Amount
    preemptions: int
    restart_cost_s: float


class VictimRule(Protocol):
    """What it costs to evict a job; the cheapest set that makes enough room is taken."""

    @property
    def name(self) -> str: ...

    def cost(self, victim: Victim) -> float: ...


@runtime_checkable
class NamesVictim(Protocol):
    """A victim rule that has the last word itself: one running job gives way, or none does."""

    def should_preempt(self, running: Sequence[Victim], job: Entry) -> int | None:
        """The id of the job that gives way for a waiting one; 0: any, None: it waits."""
