"""Routes about who is a node: let it in, renew its key, cut it off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from litestar import delete, post

from rota.api import params
from rota.api.context import Asking, actor_of, context_of
from rota.api.views.times import Moment, when
from rota.controller.chores.node_keys import renew_key
from rota.controller.commands.commands import ApproveNode, RemoveNode

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Token


class NodeKeyView(msgspec.Struct):
    """The key of a node; its secret is on the node alone."""

    name: str
    key: str
    key_at: Moment | None
    joined_with: str


class PendingView(msgspec.Struct):
    """A node that joined with a token which asks for an operator's approval."""

    name: str
    #: The machine and folder that it says it runs in.
    home: str
    key: str
    joined_with: str
    asked_at: Moment | None


def _view(key: Token) -> NodeKeyView:
    return NodeKeyView(key.node, key.id, when(key.created_s), key.joined)


def pending_views(cluster: Cluster) -> list[PendingView]:
    """In order of their names."""
    accounts = cluster.accounts
    keys = [accounts.tokens[name] for _, name in sorted(accounts.keys.items())]
    return [
        PendingView(key.node, key.note, key.id, key.joined, when(key.created_s))
        for key in keys
        if key.approve
    ]


@post(
    "/nodes/{name:str}/approve",
    summary="Let a node in that waits for it",
    opt={"right": "operate", "errors": (404, 409), "verb": True},
    status_code=200,
)
async def approve_node(request: Asking, name: params.NamePath) -> NodeKeyView:
    """It joined with a token that asks for an operator's approval; it dials within seconds."""
    host = context_of(request).host
    return _view(await host.ask(ApproveNode(actor=actor_of(request), node=name)))


@post(
    "/nodes/{name:str}/rotate",
    summary="Give a node a new key",
    opt={"right": "operate", "errors": (404, 409, 503), "verb": True},
    status_code=200,
)
async def rotate_key(request: Asking, name: params.NamePath) -> NodeKeyView:
    """The node makes it; the one before is refused from then on. Its jobs notice nothing."""
    return _view(await renew_key(context_of(request).host, actor_of(request), name))


@delete(
    "/nodes/{name:str}",
    summary="Cut a node off and forget it",
    opt={"right": "operate", "errors": (404, 409)},
)
async def remove_node(request: Asking, name: params.NamePath) -> None:
    """Its connection ends and its key is refused, at once and for good.

    While its jobs may be alive it stays on record, and goes when its lease is over. Also for a
    node that waits for approval. The controller's own node must be stopped first.
    """
    await context_of(request).host.ask(RemoveNode(actor=actor_of(request), node=name))


ROUTES = [approve_node, rotate_key, remove_node]
