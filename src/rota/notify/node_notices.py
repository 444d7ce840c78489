"""What the site is told of its nodes: one that fell silent, was given up, quarantined, drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.core.changes import events as ev
from rota.notify.notice import Notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.changes.events import Recorded

#: The event of the log -> what it is called, the node, and why.
_TOLD: dict[type, Callable[[Any], tuple[str, str, str]]] = {
    ev.NodeRegistered: lambda event: ("node_up", event.spec.name, ""),
    ev.NodeSilent: lambda event: ("node_silent", event.node, event.note),
    ev.NodeLost: lambda event: ("node_lost", event.node, event.note),
    ev.NodeQuarantined: lambda event: ("node_quarantined", event.node, event.note),
    ev.NodeDrained: lambda event: (
        "node_drained" if event.drained else "node_resumed",
        event.node,
        event.note,
    ),
    ev.NodeRemoved: lambda event: ("node_removed", event.node, ""),
}
_WORDS = {
    "node_up": "is up",
    "node_silent": "fell silent; what runs there goes on",
    "node_lost": "was given up",
    "node_quarantined": "gets no more jobs until an operator resumes it",
    "node_drained": "takes no new jobs",
    "node_resumed": "takes jobs again",
    "node_removed": "was removed",
}


def is_of_node(event: ev.AnyEvent) -> bool:
    return type(event) in _TOLD


def node_notice(record: Recorded, cluster_id: str) -> Notice | None:
    """What to send about a node; None: the event is about something else."""
    rule = _TOLD.get(type(record.event))
    if rule is None:
        return None
    event, node, note = rule(record.event)
    return Notice.of(
        record,
        cluster_id,
        event,
        job={},
        detail={"detail": note} if note else {},
        text=f"node {node} {_WORDS[event]}" + (f": {note}" if note else ""),
        node=node,
    )
