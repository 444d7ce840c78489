"""What a job says about where it may run: labels, taints, neighbours, named nodes, topology."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


#: The label of nodes that names their cluster; as a topology: all nodes of a job are in one.
CLUSTER = "cluster"
#: The cluster of nodes that say nothing.
LOCAL = "local"


def cluster_of(labels: Mapping[str, str]) -> str:
    """The cluster that a node with these labels is in."""
    return labels.get(CLUSTER) or LOCAL


def ground_of(labels: Mapping[str, str], topology: str) -> str | None:
    """Where a node stands for jobs whose nodes must have a label in common; None: nowhere.

    Racks of two clusters that have the same name are two racks.
    """
    if topology == CLUSTER:
        return cluster_of(labels)
    value = labels.get(topology)
    return None if value is None else f"{cluster_of(labels)}/{value}"


class Operator(StrEnum):
    """How a label is compared."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "not-in"
    EXISTS = "exists"
    MISSING = "missing"
    GT = "gt"
    LT = "lt"


class Selector(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wish about a node's labels. Without ``weight`` it must hold; with one it is preferred."""

    key: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()
    weight: int = 0

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels fulfil it. A label that is absent equals nothing."""
        have = labels.get(self.key)
        match self.operator:
            case Operator.EXISTS:
                return have is not None
            case Operator.MISSING:
                return have is None
            case Operator.NE | Operator.NOT_IN:
                return have not in self.values
            case Operator.EQ | Operator.IN:
                return have in self.values
            case Operator.GT | Operator.LT:
                return _compares(have, self.operator, self.values)

    def __str__(self) -> str:
        listed = ",".join(self.values)
        sign = {Operator.EQ: "=", Operator.NE: "!=", Operator.GT: ">", Operator.LT: "<"}
        if self.operator in sign:
            return f"{self.key}{sign[self.operator]}{listed}"
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.MISSING:
            return f"!{self.key}"
        return f"{self.key} {self.operator} ({listed})"


def _compares(have: str | None, operator: Operator, values: tuple[str, ...]) -> bool:
    """Numbers only: a label that is none is neither greater nor less."""
    try:
        number, bound = float(have or "x"), float(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator is Operator.GT else number < bound


class TaintEffect(StrEnum):
    """What a taint does to jobs that do not tolerate it."""

    NO_START = "no-start"
    AVOID = "avoid"


class Taint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mark on a node that keeps jobs away unless they say that they bear it."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_START

    def __str__(self) -> str:
        return f"{self.key}={self.value}" if self.value else self.key


class Toleration(msgspec.Struct, frozen=True, omit_defaults=True):
    """A taint that a job bears; without a value any value of the key, ``*`` every taint."""

    key: str
    value: str = ""

    def bears(self, taint: Taint) -> bool:
        return self.key == "*" or (
            self.key == taint.key and (not self.value or self.value == taint.value)
        )


class Affinity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Near to (or, ``apart``, away from) the jobs that carry a label.

    ``topology`` is the label of nodes that says what near means (``rack``); empty: the same node.
    """

    key: str
    value: str = ""
    apart: bool = False
    topology: str = ""
    weight: int = 0

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Whether a job with these labels is meant."""
        have = labels.get(self.key)
        return have is not None and (not self.value or have == self.value)


class Placement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a job says about where it runs, beyond amounts."""

    selectors: tuple[Selector, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinities: tuple[Affinity, ...] = ()
    #: Only these nodes; empty: any.
    nodes: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    #: Exactly this many nodes, with the tasks spread evenly; 0: as few as possible.
    node_count: int = 0
    #: A label (``rack``, ``switch``) of which all its nodes must have the same value.
    topology: str = ""
    #: Nothing else on its nodes.
    exclusive: bool = False
    #: Names of data sets; nodes that list one in their label ``data`` are preferred.
    data: tuple[str, ...] = ()
    #: Only this cluster, this engine, the clusters of this virtual data centre; empty: any.
    cluster: str = ""
    engine: str = ""
    vdc: str = ""

    def admits(self, node: str) -> bool:
        """Whether the nodes that it names, to take or to avoid, leave it this one."""
        return node not in self.exclude and (not self.nodes or node in self.nodes)

    @property
    def needs_neighbours(self) -> bool:
        """Whether it runs only where some other job does."""
        return any(not affinity.apart and not affinity.weight for affinity in self.affinities)

    @property
    def asks_nodes(self) -> bool:
        """Whether nodes that are alike may still differ for this job."""
        return bool(
            self.nodes
            or self.exclude
            or self.affinities
            or self.exclusive
            or self.node_count
            or self.topology
        )


ANYWHERE = Placement()
