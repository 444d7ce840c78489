"""What happened to a Cluster since a Scheduler last looked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Counter

#: The attempts on a node that changed; None: anything there may have.
Uids = dict[str, None] | None


class Changes(NamedTuple):
    """What is new, by kind."""

    nodes: dict[str, Uids]
    lanes: list[int]
    counters: list[Counter]
    #: Some of it was missed, or the rules are others: everything is worth a look.
    everything: bool


class Reading:
    """A place in each log of a Cluster. Reading changes nothing there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes = self._lanes = self._counters = -1
        self._rules_version = -1
        #: What no log tells: what the last pass decided itself, and attempts that stay longer.
        self._noted: dict[str, Uids] = {}

    def note(self, node: str, uid: str) -> None:
        """The next news are to name an attempt on a node."""
        uids = self._noted.setdefault(node, {})
        if uids is not None:
            uids[uid] = None

    def unread(self) -> set[str]:
        """The nodes that changed since the last call of ``news``."""
        touched = self._cluster.agenda.touched.since(self._nodes)
        return {*self._cluster.nodes} if touched is None else {name for name, _ in touched}

    def news(self) -> Changes:
        """Everything since the last call."""
        cluster = self._cluster
        lanes = cluster.lanes
        touched = cluster.agenda.touched.since(self._nodes)
        arrived = lanes.changed.since(self._lanes)
        given_back = lanes.given_back.since(self._counters)
        missed = touched is None or arrived is None or given_back is None
        everything = missed or cluster.agenda.rules_version != self._rules_version
        nodes, self._noted = self._noted, {}
        if touched is None:
            nodes = dict.fromkeys((*cluster.nodes, *nodes))
        for name, uid in touched or ():
            if not uid:
                nodes[name] = None
            elif (uids := nodes.setdefault(name, {})) is not None:
                uids[uid] = None
        self._nodes, self._lanes = cluster.agenda.touched.end, lanes.changed.end
        self._counters, self._rules_version = lanes.given_back.end, cluster.agenda.rules_version
        return Changes(nodes, arrived or [], given_back or [], everything)
