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


NO_NEWS = Changes({}, [], [], False)


class LogReading:
    """A place in each log of a Cluster. Reading changes nothing there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: Of the nodes, the lanes and the counters, and the version of the rules.
        self._read = (-1, -1, -1, -1)
        #: What no log tells: what the last pass decided itself, and attempts that stay longer.
        self._noted: dict[str, Uids] = {}

    def note(self, node: str, uid: str) -> None:
        """The next news are to name an attempt on a node."""
        uids = self._noted.setdefault(node, {})
        if uids is not None:
            uids[uid] = None

    def unread(self) -> set[str]:
        """The nodes that changed since the last call of ``news``."""
        touched = self._cluster.agenda.touched.since(self._read[0])
        return {*self._cluster.nodes} if touched is None else {name for name, _ in touched}

    def news(self) -> Changes:
        """Everything since the last call."""
        lanes, agenda, before = self._cluster.lanes, self._cluster.agenda, self._read
        ends = (agenda.touched.end, lanes.changed.end, lanes.given_back.end, agenda.rules_version)
        if ends == before and not self._noted:
            return NO_NEWS
        touched = agenda.touched.since(before[0]) if ends[0] != before[0] else []
        arrived = lanes.changed.since(before[1]) if ends[1] != before[1] else []
        given_back = lanes.given_back.since(before[2]) if ends[2] != before[2] else []
        missed = touched is None or arrived is None or given_back is None
        nodes, self._noted, self._read = self._noted, {}, ends
        if touched is None:
            nodes = dict.fromkeys((*self._cluster.nodes, *nodes))
        for name, uid in touched or ():
            if not uid:
                nodes[name] = None
            elif (uids := nodes.setdefault(name, {})) is not None:
                uids[uid] = None
        return Changes(nodes, arrived or [], given_back or [], missed or ends[3] != before[3])
