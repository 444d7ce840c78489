"""Nodes in pools: what a site has of each kind, how much of it is free; and cordoning a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get, post
from msgspec import Meta

from rota.api import params
from rota.api.bodies.requests import Body, Strict
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.site.nodes import AmountView, NodeView, node_view
from rota.api.views.paging import Listed, ListPart
from rota.controller.commands.commands import DrainNode
from rota.core.facts.errors import NotFound, named

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node

#: An operator puts a node into a pool with this label.
LABEL = "pool"
WITHOUT_DEVICES = "cpu"


class CordonRequest(Strict):
    """Why a node takes no new work."""

    note: Annotated[str, Meta(max_length=500)] = ""


_cordon = Body(CordonRequest, optional=True)


class PoolView(msgspec.Struct):
    """``ready`` of the nodes take work; ``free`` counts on those alone."""

    name: str
    nodes: list[str]
    ready: int
    total: AmountView
    used: AmountView
    free: AmountView
    jobs: list[int]


class PoolsView(Listed):
    items: list[PoolView]


def pool_of(node: Node) -> str:
    """By its label; else by the model of its devices, and ``cpu`` where it has none."""
    named = node.all_labels.get(LABEL)
    if named:
        return named
    models = sorted({device.model or device.kind for device in node.spec.devices})
    return "+".join(models) or WITHOUT_DEVICES


def sum_of(amounts: list[AmountView]) -> AmountView:
    """All of them together."""
    return AmountView(
        round(sum(one.cpus for one in amounts), 3),
        sum(one.memory_mb for one in amounts),
        sum(one.disk_mb for one in amounts),
        sum(one.gpus for one in amounts),
    )


def pool_views(cluster: Cluster) -> list[PoolView]:
    """Every pool, by name."""
    members: dict[str, list[Node]] = {}
    for name in sorted(cluster.nodes):
        node = cluster.nodes[name]
        members.setdefault(pool_of(node), []).append(node)
    return [_pool_view(cluster, name, members[name]) for name in sorted(members)]


def _pool_view(cluster: Cluster, name: str, nodes: list[Node]) -> PoolView:
    views = [node_view(cluster, node) for node in nodes]
    ready = [view for node, view in zip(nodes, views, strict=True) if node.takes_work]
    return PoolView(
        name=name,
        nodes=[node.name for node in nodes],
        ready=len(ready),
        total=sum_of([view.total for view in views]),
        used=sum_of([view.used for view in views]),
        free=sum_of([view.free for view in ready]),
        jobs=sorted({job for view in views for job in view.jobs}),
    )


@get("/pools", summary="What there is of each kind of node", opt={"right": "read"})
async def list_pools(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> PoolsView:
    """Nodes with one `pool` label, or with the same devices, are a pool."""
    found = pool_views(context_of(request).host.cluster)
    page, after = ListPart(limit, cursor).of(found, lambda view: view.name)
    return PoolsView(page, cursor=after)


@get("/pools/{name:str}", summary="One pool", opt={"right": "read", "errors": (404,)})
async def show_pool(request: Asking, name: params.NamePath) -> PoolView:
    """By its name."""
    for view in pool_views(context_of(request).host.cluster):
        if view.name == name:
            return view
    raise NotFound(f"there is no pool {name}", field="pool", value=name)


@post(
    "/nodes/{name:str}/cordon",
    summary="Start nothing new on a node, and leave what it has alone",
    opt={"right": "operate", "body": CordonRequest, "errors": (404,), "verb": True},
    status_code=200,
)
async def cordon(request: Asking, name: params.NamePath) -> NodeView:
    """A drain that moves nothing; `:resume` is the opposite."""
    asked: CordonRequest = await body_of(request, _cordon)
    host = context_of(request).host
    await host.ask(DrainNode(actor=actor_of(request), node=name, drained=True, note=asked.note))
    return node_view(host.cluster, named(host.cluster.nodes, "node", name))


ROUTES = [list_pools, show_pool, cordon]
