"""Routes about pilots: how allocations of engines are asked for, and how those fare."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import delete, get, patch, post, put

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.mib import ShowsMib
from rota.api.bodies.pilot_requests import (
    DemandRequest,
    PilotAllocationPhase,
    PilotKind,
    PilotPatch,
    PilotRequest,
    PilotStateRequest,
)
from rota.api.bodies.requests import Body
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.paging import Listed, ListPart
from rota.controller.commands.commands import RemovePilot, SetPilot
from rota.core.facts.errors import named
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.site.pilot import Pilot, check
from rota.scheduling.answers.demand import needs

if TYPE_CHECKING:
    from rota.api.bodies.pilot_requests import OfferRequest
    from rota.api.context import Context

_set, _patch = Body(PilotRequest), Body(PilotPatch)
_state, _demand = Body(PilotStateRequest), Body(DemandRequest)
#: Changes that come together are told together.
TOGETHER_S = 0.2


class PilotAllocationView(msgspec.Struct):
    """One allocation: ``id`` and ``reason`` in the words of its engine."""

    node: str
    id: str
    state: PilotAllocationPhase
    reason: str
    since_s: float


class PilotView(ShowsMib, msgspec.Struct):
    name: str
    kind: PilotKind
    most: int
    time_s: int
    idle_s: int
    #: 0: whole nodes of the engine.
    cpus: float
    memory_mb: int
    gpus: int
    gpu_type: str
    price_per_hour: float
    spend_per_hour: float
    unlimited: bool
    labels: dict[str, str]
    url: str
    program: str
    engine: dict[str, Any]
    #: As its keeper has told it last; none when it has not.
    allocations: list[PilotAllocationView]
    problem: str
    memory_mib: int = 0


class PilotsView(Listed):
    items: list[PilotView]


class NeedView(msgspec.Struct):
    cpu_milli: int
    memory_mib: int
    gpus: int
    tasks: int
    jobs: int
    fits: tuple[int, ...]


class DemandView(msgspec.Struct):
    """``version`` changes with the rest: what waits, and the nodes with an end, and the pilots."""

    cluster: str
    version: str
    waiting: list[NeedView]
    nodes: list[str]


def _view(context: Context, pilot: Pilot) -> PilotView:
    told = context.pilots.get(pilot.name)
    made = {name: getattr(pilot, name) for name in msgspec.structs.asdict(pilot)}
    made["cpus"], made["memory_mb"] = made.pop("cpu_milli") / 1000, made.pop("memory_mib")
    allocations = told.allocations if told is not None else []
    return PilotView(
        **made,
        allocations=[PilotAllocationView(**msgspec.structs.asdict(one)) for one in allocations],
        problem=told.problem if told is not None else "",
    )


@get("/pilots", summary="Every pilot and its allocations", opt={"right": "read"})
async def list_pilots(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> PilotsView:
    """What is asked of engines when jobs wait, and what came of it."""
    context = context_of(request)
    pilots = context.host.cluster.pilots
    page, after = ListPart(limit, cursor).of(sorted(pilots), str)
    return PilotsView([_view(context, pilots[name]) for name in page], cursor=after)


@get("/pilots/{name:str}", summary="One pilot", opt={"right": "read", "errors": (404,)})
async def show_pilot(request: Asking, name: params.NamePath) -> PilotView:
    """How it asks an engine for machines, and what came of it."""
    context = context_of(request)
    return _view(context, named(context.host.cluster.pilots, "pilot", name))


def _checked(name: str, fields: dict[str, Any]) -> Pilot:
    """What its engine's driver does not know is refused now, not when jobs wait."""
    from rota.backends.pilot_tables import check_table

    if "cpus" in fields:
        fields["cpu_milli"] = round(1000 * fields.pop("cpus"))
    if "memory_mb" in fields:
        fields["memory_mib"] = fields.pop("memory_mb")
    checks.labels(fields.get("labels", {}))
    pilot = Pilot(name=name, **fields)
    check(pilot)
    check_table(pilot)
    return pilot


def _fields_of(asked: PilotRequest | PilotPatch) -> dict[str, Any]:
    """By the names of a pilot's own; the newer name of an amount is empty by now."""
    fields = msgspec.structs.asdict(asked)
    del fields["memory_mib"]
    return fields


async def _put(request: Asking, pilot: Pilot) -> PilotView:
    context = context_of(request)
    await context.host.ask(SetPilot(actor=actor_of(request), pilot=pilot))
    return _view(context, pilot)


@put(
    "/pilots/{name:str}",
    summary="Make or change a pilot",
    opt={"right": "administer", "body": PilotRequest, "errors": (429, 503)},
)
async def set_pilot(request: Asking, name: params.NamePath) -> PilotView:
    """The whole of it as it shall be. Allocations that are there stay until they end."""
    asked: PilotRequest = await body_of(request, _set)
    return await _put(request, _checked(name, _fields_of(asked)))


@patch(
    "/pilots/{name:str}",
    summary="Change a pilot",
    opt={"right": "administer", "body": PilotPatch, "errors": (404, 429, 503)},
)
async def change_pilot(request: Asking, name: params.NamePath) -> PilotView:
    """Absent fields stay as they are."""
    asked: PilotPatch = await body_of(request, _patch)
    now = named(context_of(request).host.cluster.pilots, "pilot", name)
    before = {key: getattr(now, key) for key in msgspec.structs.asdict(now) if key != "name"}
    fields = {k: v for k, v in _fields_of(asked).items() if v is not None}
    if "cpus" in fields:
        before.pop("cpu_milli")
    if "memory_mb" in fields:
        before.pop("memory_mib")
    return await _put(request, _checked(name, before | fields))


@delete(
    "/pilots/{name:str}",
    summary="Remove a pilot",
    opt={"right": "administer", "errors": (404,)},
)
async def remove_pilot(request: Asking, name: params.NamePath) -> None:
    """No more are asked for, and those that are there go."""
    await context_of(request).host.ask(RemovePilot(actor=actor_of(request), pilot=name))


@put(
    "/pilots/{name:str}/state",
    summary="Tell how the allocations of a pilot fare",
    opt={"right": "administer", "body": PilotStateRequest, "errors": (404,)},
)
async def tell_state(request: Asking, name: params.NamePath) -> None:
    """For the process that keeps them; shown by `GET /pilots` and where jobs wait for them."""
    context = context_of(request)
    named(context.host.cluster.pilots, "pilot", name)
    context.pilots[name] = await body_of(request, _state)


@post(
    "/pilots:demand",
    summary="What waits for room, and which nodes would take it",
    opt={"right": "administer", "body": DemandRequest},
    status_code=200,
)
async def demand(request: Asking) -> DemandView:
    """Answers when it is another than `version`, or when the time is up."""
    asked: DemandRequest = await body_of(request, _demand)
    context = context_of(request)
    offers = [_offer(offer) for offer in asked.offers]
    changed = asyncio.Event()
    listeners = context.host.watch.listeners

    def listen(_: object) -> None:
        changed.set()

    listeners.append(listen)
    try:
        async with asyncio.timeout(asked.timeout_s):
            while True:
                found = _found(context, offers, asked.jobs_max)
                if found.version != asked.version or context.closing.is_set():
                    return found
                await context.until_closing(changed.wait())  # type: ignore[arg-type]
                await asyncio.sleep(TOGETHER_S)
                changed.clear()
    except TimeoutError:
        return _found(context, offers, asked.jobs_max)
    finally:
        listeners.remove(listen)


def _offer(offer: OfferRequest) -> NodeSpec:
    """A node that does not exist; ``ends_s`` is how long it would be there."""
    return NodeSpec(
        name="",
        cpu_milli=offer.cpu_milli,
        memory_mib=offer.memory_mib,
        disk_mib=1 << 40,
        devices=tuple(Device(at, f"{at}", model=offer.gpu_type) for at in range(offer.gpus)),
        labels=offer.labels,
        user=offer.user,
        ends_s=float(offer.time_s),
        unlimited=offer.unlimited,
    )


def _found(context: Context, offers: list[NodeSpec], jobs_max: int) -> DemandView:
    waiting = [NeedView(*need) for need in needs(context.host.scheduler, offers, jobs_max)]
    cluster = context.host.cluster
    nodes = [name for name in sorted(cluster.live.ending) if not cluster.nodes[name].leaving]
    told = msgspec.json.encode((waiting, nodes, cluster.pilots))
    version = hashlib.sha256(told).hexdigest()[:16]
    return DemandView(cluster.ids.cluster_id, version, waiting, nodes)


ROUTES = [list_pilots, show_pilot, set_pilot, change_pilot, remove_pilot, tell_state, demand]
