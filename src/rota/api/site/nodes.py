"""Routes about machines: nodes, their devices, and how these are connected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get, patch, post
from litestar.params import QueryParameter

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.mib import ShowsMib
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import DrainRequest, MarkRequest
from rota.api.bodies.submission import moment
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.site.node_keys import PendingView, pending_views
from rota.api.views.gpus import GpuView, gpu_views
from rota.api.views.paging import Listed, ListPart
from rota.api.views.pools import pool_words
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import DrainNode, MarkNode
from rota.core.facts.errors import Rejected, named
from rota.core.facts.states import NodeState
from rota.core.words.placing_text import format_taint, parse_taint

if TYPE_CHECKING:
    from rota.controller.chores.measures import Measures
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node
    from rota.core.facts.placing import Taint

_drain = Body(DrainRequest, optional=True)
_mark = Body(MarkRequest)


class AmountView(ShowsMib, msgspec.Struct):
    cpus: float
    memory_mb: int
    disk_mb: int
    gpus: int
    memory_mib: int = 0
    disk_mib: int = 0


class NodeView(msgspec.Struct):
    name: str
    state: NodeState
    drained: bool
    #: Being drained, its jobs go on elsewhere; and when all of them have left.
    migrates: bool
    deadline_at: Moment | None
    #: It is there until then; null: it stays.
    ends_at: Moment | None
    note: str
    total: AmountView
    free: AmountView
    used: AmountView
    devices: list[GpuView]
    jobs: list[int]
    labels: dict[str, str]
    #: Marks that keep jobs away unless they tolerate them; ``key=value`` or ``key=value:avoid``.
    taints: list[str]
    #: Of both, what an operator added to what the agent says.
    marked_labels: dict[str, str]
    marked_taints: list[str]
    address: str
    system: str
    seen_at: Moment | None
    #: Its agent is not root and starts the jobs of this user only; empty: of everybody.
    user: str = ""
    #: The node's own key, since when it has it, and the token that it joined with; empty: it is
    #: on the controller's machine.
    key: str = ""
    key_at: Moment | None = None
    joined_with: str = ""
    #: The engine that it belongs to; empty: it has an agent.
    engine: str = ""
    #: Of a pool: how many machines it stands for, and the jobs that wait inside the engine.
    machines: int | None = None
    waiting_inside: list[int] = []


class NodesView(Listed):
    items: list[NodeView]
    pending: list[PendingView] = msgspec.field(default_factory=list)


class GpusView(Listed):
    items: list[GpuView]


class DomainView(msgspec.Struct):
    """A NUMA domain: its CPUs and the devices near them."""

    numa: int
    cpus: list[int]
    devices: list[int]


class NodeTopologyView(msgspec.Struct):
    node: str
    domains: list[DomainView]
    devices: list[GpuView]


class TopologyView(Listed):
    nodes: list[NodeTopologyView]


def node_view(cluster: Cluster, node: Node, measures: Measures | None = None) -> NodeView:
    """A node as the API shows it: what it has, what of it is free."""
    spec, room = node.spec, node.headroom()
    key = cluster.accounts.key_of(node.name)
    devices = gpu_views(cluster, node, measures)
    shut = set(node.shut)
    free_gpus = sum(not device.jobs and device.uuid not in shut for device in devices)
    return NodeView(
        name=node.name,
        state=node.state,
        drained=node.drained,
        migrates=node.migrates,
        deadline_at=when(node.deadline_s),
        ends_at=when(node.spec.ends_s),
        note="; ".join(filter(None, (node.note, *node.spec.remarks, pool_words(node)))),
        total=AmountView(spec.cpu_milli / 1000, spec.memory_mib, spec.disk_mib, len(devices)),
        free=AmountView(room.cpu_milli / 1000, room.memory_mib, room.disk_mib, free_gpus),
        used=AmountView(
            (spec.cpu_milli - room.cpu_milli) / 1000,
            spec.memory_mib - room.memory_mib,
            spec.disk_mib - room.disk_mib,
            sum(bool(device.jobs) for device in devices),
        ),
        devices=devices,
        jobs=sorted({cluster.live.where[uid][0] for uid in node.live}),
        labels=node.all_labels,
        taints=[format_taint(taint) for taint in node.all_taints],
        marked_labels=node.labels,
        marked_taints=[format_taint(taint) for taint in node.taints],
        address=spec.address,
        system=spec.system,
        seen_at=when(node.seen_s),
        user=spec.user,
        key=key.id if key else "",
        key_at=when(key.created_s) if key else None,
        joined_with=key.joined if key else "",
        engine=spec.engine,
        machines=spec.largest.count if spec.pool and spec.largest is not None else None,
        waiting_inside=sorted({cluster.live.where[uid][0] for uid in node.inside}),
    )


@get("/nodes", summary="Every node", opt={"right": "read"})
async def list_nodes(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> NodesView:
    """What each one has, what jobs hold of it, and whether it takes work."""
    context = context_of(request)
    cluster, measures = context.host.cluster, context.measures
    page, after = ListPart(limit, cursor).of(sorted(cluster.nodes), str)
    return NodesView(
        [node_view(cluster, cluster.nodes[name], measures) for name in page],
        pending_views(cluster),
        cursor=after,
    )


@get("/nodes/{name:str}", summary="One node", opt={"right": "read", "errors": (404,)})
async def show_node(request: Asking, name: params.NamePath) -> NodeView:
    """By its name."""
    context = context_of(request)
    cluster = context.host.cluster
    return node_view(cluster, named(cluster.nodes, "node", name), context.measures)


@patch(
    "/nodes/{name:str}",
    summary="Label or taint a node, or choose its devices",
    opt={"right": "operate", "body": MarkRequest, "errors": (404, 409, 429, 503)},
)
async def mark_node(request: Asking, name: params.NamePath) -> NodeView:
    """On top of what its agent says; kept until it is taken away."""
    asked: MarkRequest = await body_of(request, _mark)
    checks.labels({key: value or "" for key, value in asked.labels.items()})
    host = context_of(request).host
    command = MarkNode(
        actor=actor_of(request),
        node=name,
        labels=asked.labels,
        taints=tuple(_taint(text) for text in asked.taints),
        untaint=tuple(asked.untaint),
        devices=_devices(asked.devices),
        ignore=tuple(asked.ignore),
        unignore=tuple(asked.unignore),
    )
    await host.ask(command)
    return node_view(host.cluster, named(host.cluster.nodes, "node", name))


def _devices(asked: list[int] | str | None) -> tuple[int, ...] | None:
    """Empty for all of them; a list without any is a slip, not a wish."""
    if asked == []:
        raise Rejected.bad("devices", [], "name at least one, or say all; drain the node for none")
    if isinstance(asked, str):
        return ()
    return None if asked is None else tuple(asked)


def _taint(text: str) -> Taint:
    try:
        return parse_taint(text)
    except ValueError as error:
        raise Rejected(f"taints: {error}", field="taints", value=text) from None


async def _turn(request: Asking, name: str, drained: bool) -> NodeView:
    asked: DrainRequest = await body_of(request, _drain)
    context = context_of(request)
    host = context.host
    command = DrainNode(
        actor=actor_of(request),
        node=name,
        drained=drained,
        note=asked.note,
        migrate=asked.migrate and drained,
        deadline_s=moment("deadline_at", asked.deadline_at, context.desk) if drained else 0.0,
    )
    await host.ask(command)
    return node_view(host.cluster, named(host.cluster.nodes, "node", name))


@post(
    "/nodes/{name:str}/drain",
    summary="Start nothing new on a node",
    opt={"right": "operate", "body": DrainRequest, "errors": (404,), "verb": True},
    status_code=200,
)
async def drain(request: Asking, name: params.NamePath) -> NodeView:
    """What runs there finishes; with `migrate` it goes on elsewhere once its work is saved."""
    return await _turn(request, name, True)


@post(
    "/nodes/{name:str}/resume",
    summary="Put a node back into service",
    opt={"right": "operate", "body": DrainRequest, "errors": (404,), "verb": True},
    status_code=200,
)
async def resume(request: Asking, name: params.NamePath) -> NodeView:
    """The opposite of drain."""
    return await _turn(request, name, False)


@get("/gpus", summary="Every GPU and who uses it", opt={"right": "read"})
async def gpus(
    request: Asking,
    available: Annotated[
        bool | None, QueryParameter(description="Only those that are free (or not)")
    ] = None,
    kind: Annotated[str, QueryParameter(name="type", description="Only this model")] = "",
    node: Annotated[str, QueryParameter(description="Only on this node")] = "",
    limit: Annotated[int, QueryParameter(description="Items per page", ge=1, le=10_000)] = 1000,
    cursor: params.Cursor = "",
    idle: Annotated[
        bool | None,
        QueryParameter(description="Only those idle in a job for gpus.idle_after (or not)"),
    ] = None,
) -> GpusView:
    """Jobs that hold it, processes outside Rota that use it, and what was measured."""
    context = context_of(request)
    cluster, measures = context.host.cluster, context.measures
    found = [
        view
        for name in sorted(cluster.nodes)
        if node in ("", name)
        for view in gpu_views(cluster, cluster.nodes[name], measures)
        if available in (None, view.available)
        and kind.lower() in ("", view.model.lower())
        and idle in (None, measures.is_idle(cluster.nodes[name], view.index))
    ]
    found.sort(key=_place)
    page, after = ListPart(limit, cursor).of(found, _place)
    return GpusView(page, cursor=after)


def _place(view: GpuView) -> tuple[str, int]:
    return (view.node, view.index)


@get("/topology", summary="NUMA domains and links between devices", opt={"right": "read"})
async def topology(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> TopologyView:
    """Per node: which CPUs and devices are near each other."""
    cluster = context_of(request).host.cluster
    page, after = ListPart(limit, cursor).of(sorted(cluster.nodes), str)
    return TopologyView(
        [
            NodeTopologyView(
                node=name,
                domains=[
                    DomainView(
                        numa=number,
                        cpus=list(cpus),
                        devices=[
                            d.index for d in cluster.nodes[name].spec.devices if d.numa == number
                        ],
                    )
                    for number, cpus in enumerate(cluster.nodes[name].spec.numa_cpus)
                ],
                devices=gpu_views(cluster, cluster.nodes[name]),
            )
            for name in page
        ],
        cursor=after,
    )


ROUTES = [list_nodes, show_node, mark_node, drain, resume, gpus, topology]
