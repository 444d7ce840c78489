"""New keys for nodes: when an operator asks for one, and when one has become old."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.controller.commands.commands import RenewNodeKey
from rota.core.facts.errors import Conflict, RotaError, Unavailable, named
from rota.core.facts.tenant import Access, Actor
from rota.rpc.messages import RenewKey

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.core.facts.tenant import Token
    from rota.rpc.messages import NewKey

log = logging.getLogger("rota.controller")

DAY_S = 86_400.0


async def renew_key(host: Host, actor: Actor, node: str) -> Token:
    """The node makes a key and keeps it; once its digest is on record the one before ends."""
    key = host.cluster.accounts.key_of(node)
    if key is None:
        named(host.cluster.nodes, "node", node)
        raise Conflict(f"node {node} has no key: it did not join with a token", field="name")
    session = host.sessions.by_node.get(node)
    if session is None:
        raise Unavailable(f"node {node} is not connected; it can have a new key when it is")
    made: NewKey = await host.links.ask(session.link, RenewKey)
    command = RenewNodeKey(actor=actor, node=node, before=key.id, digest=made.digest)
    renewed: Token = await host.ask(command)
    return renewed


async def renew_old_keys(host: Host, days: int) -> None:
    """Nodes that are connected get a new key when theirs is ``days`` days old."""
    actor = Actor("rota", Access.ADMIN, "settings")
    before_s = host.clock.now_s() - days * DAY_S
    keys = [host.cluster.accounts.key_of(node) for node in [*host.sessions.by_node]]
    for key in keys:
        if key is not None and key.created_s < before_s:
            try:
                await renew_key(host, actor, key.node)
            except RotaError as error:
                log.warning("the key of node %s was not renewed: %s", key.node, error)
