"""The scribe of one tick: applies each event at once and keeps it for the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes.apply import apply
from rota.core.changes.events import Recorded

if TYPE_CHECKING:
    from rota.core.changes import events as ev
    from rota.core.cluster import Cluster


class Scribe:
    """Collects the events of a tick. Later steps of the tick see the effect of earlier ones."""

    def __init__(self, cluster: Cluster, now_s: float, next_seq: int) -> None:
        self.cluster = cluster
        self.now_s = now_s
        self.next_seq = next_seq
        self.actor = "rota"
        self.recorded: list[Recorded] = []
        #: Attempts that were asked to stop in this tick: no agent has heard of it yet.
        self.stops: set[str] = set()
        #: Somebody asked that everything be looked at again.
        self.reopened = False

    def emit(self, event: ev.AnyEvent) -> None:
        apply(self.cluster, event, self.now_s)
        self.recorded.append(Recorded(self.next_seq, self.now_s, self.actor, event))
        self.next_seq += 1
