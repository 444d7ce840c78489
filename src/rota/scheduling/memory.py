"""What passes remember from one to the next, as one pass sees it. ``Scheduler`` keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.core.facts.resources import Amount
    from rota.scheduling.evict.prospects import Prospects
    from rota.scheduling.later.promises import Promises
    from rota.scheduling.later.timeline import Timeline
    from rota.scheduling.order.standing import Standing
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.waits import Waits


class Memory(Protocol):
    """All of it follows from the Cluster."""

    cluster: Cluster
    #: Free room by node, and who leaves when.
    space: Space
    timeline: Timeline
    promises: Promises
    #: Shapes that no eviction helps.
    prospects: Prospects
    #: What each blocked lane waits for, and in which order.
    waits: Waits
    standing: Standing
    #: Whether any account may hold more than its own.
    may_borrow: bool

    @property
    def total(self) -> Amount:
        """Everything that the nodes have."""

    @property
    def planned(self) -> Callable[[str, str], None]:
        """Tell that the pass gave room on a node to an attempt that does not exist yet."""

    def changed_nodes(self) -> set[str]:
        """The nodes that changed since the last pass."""

    def wake_s(self) -> float:
        """When time alone may change the answer; 0: never."""
