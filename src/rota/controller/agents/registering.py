"""A hello becomes a node on record, and a lease counts once its agent has confirmed it.

The lease of a node is the longest that its keeper may hold. A welcome with a shorter one may be
lost on its way: then the keeper still holds the one of the session before. So while work of an
earlier session lives there the longer one stays on record until the first beat of the new session,
which only an agent sends that has heard the welcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.changes import events as ev
from rota.core.facts.states import NodeState

if TYPE_CHECKING:
    from rota.controller.agents.sessions import Session
    from rota.controller.tick.scribe import Scribe
    from rota.core.facts.node import Node, NodeSpec
    from rota.rpc.messages import Hello


def register(scribe: Scribe, hello: Hello, lease_s: float) -> None:
    """Put on record what a hello says, if any of it is new."""
    node = scribe.cluster.nodes.get(hello.node.name)
    registered = ev.NodeRegistered(
        spec=hello.node,
        incarnation=hello.incarnation,
        boot_id=hello.boot_id,
        lease_s=lease_s if node is None else _held_s(node, hello, lease_s),
        home=hello.home,
    )
    if node is None or not _is_known(node, registered):
        scribe.emit(registered)


def confirm_lease(scribe: Scribe, session: Session) -> None:
    """An agent beats: it has heard its welcome, and its keeper holds the lease that this named."""
    node = scribe.cluster.nodes.get(session.node)
    if node is None or node.lease_s == session.lease_s:
        return
    scribe.emit(
        ev.NodeRegistered(
            spec=node.spec,
            incarnation=node.incarnation,
            boot_id=node.boot_id,
            lease_s=session.lease_s,
            home=node.home,
        )
    )


def resize(scribe: Scribe, session: Session, spec: NodeSpec) -> None:
    """An agent says something new of its node. What it is was settled by its hello."""
    node = scribe.cluster.nodes.get(session.node)
    if node is None or node.marked(spec) == node.spec:
        return
    if (spec.name, spec.user, spec.engine) != (node.name, node.spec.user, node.spec.engine):
        return
    scribe.emit(
        ev.NodeRegistered(
            spec=spec,
            incarnation=node.incarnation,
            boot_id=node.boot_id,
            lease_s=node.lease_s,
            home=node.home,
        )
    )


def _held_s(node: Node, hello: Hello, lease_s: float) -> float:
    """The longest lease that the keeper there may hold; 0 is the longest of all: it never ends."""
    if node.boot_id != hello.boot_id or not node.live or node.lost:
        return lease_s
    return max(node.lease_s, lease_s) if node.lease_s and lease_s else 0.0


def _is_known(node: Node, registered: ev.NodeRegistered) -> bool:
    """Whether a hello says nothing new: the same agent on the same machine, and it is up."""
    if node.state is not NodeState.UP:
        return False
    seen = (node.spec, node.incarnation, node.boot_id, node.lease_s, node.home)
    spec = node.marked(registered.spec)
    told = (registered.incarnation, registered.boot_id, registered.lease_s, registered.home)
    return seen == (spec, *told)
