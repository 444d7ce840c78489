"""Virtual data centres: pools of clusters with a strategy, quotas and caps of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from litestar import delete, get, patch, post, put

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.requests import Body
from rota.api.bodies.vdc_requests import MemberRequest, VdcPatch, VdcRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.site.accounts import HeldView, held_view
from rota.api.site.quotas import LimitsView, changed_limits, limits_view
from rota.api.views.paging import Listed, ListPart
from rota.controller.commands.commands import RemoveVdc, SetVdc
from rota.core.facts.errors import Conflict, NotFound, Rejected
from rota.core.facts.site.clusters import Choice, Member, Vdc
from rota.core.facts.tenant import UNLIMITED
from rota.core.words.policy_text import nearest
from rota.scheduling.answers.cluster_health import cluster_states

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Limits


class NamedVdc(VdcRequest):
    """A new virtual data centre."""

    name: str = ""


_new, _whole, _patch = Body(NamedVdc), Body(VdcRequest), Body(VdcPatch)


#: As a cluster's own; ``unknown``: it has no node on record.
MemberState = Literal["up", "waiting", "away", "closed", "unknown"]


class MemberView(msgspec.Struct):
    """A cluster of it, and whether it takes work: `up`, `waiting`, `away`, `closed`, `unknown`."""

    name: str
    priority: int
    weight: float
    state: MemberState


class VdcView(msgspec.Struct):
    """``limits`` as written; ``offered`` as they bind, times ``overcommit``; ``used`` of them."""

    name: str
    strategy: Choice
    clusters: list[MemberView]
    preferred: list[str]
    labels: dict[str, str]
    limits: LimitsView
    overcommit: float
    offered: LimitsView
    max_per_user: int
    used: HeldView


class VdcsView(Listed):
    items: list[VdcView]


def _view(cluster: Cluster, vdc: Vdc) -> VdcView:
    states: dict[str, MemberState] = {
        state.name: state.health.value for state in cluster_states(cluster)
    }
    counter = ("vdc", vdc.name)
    jobs = len(cluster.census.active_in.get(counter, ()))
    return VdcView(
        name=vdc.name,
        strategy=vdc.strategy,
        clusters=[
            MemberView(m.name, m.priority, m.weight, states.get(m.name, "unknown"))
            for m in vdc.clusters
        ],
        preferred=list(vdc.preferred),
        labels=dict(vdc.labels),
        limits=limits_view(vdc.limits),
        overcommit=vdc.overcommit,
        offered=limits_view(vdc.offered),
        max_per_user=vdc.max_per_user,
        used=held_view(cluster.accounts.holdings.get(counter), jobs),
    )


def _named(request: Asking, name: str) -> Vdc:
    policy = context_of(request).host.cluster.policy
    vdc = policy.vdc(name)
    if vdc is None:
        known = [other.name for other in policy.vdcs]
        hint = nearest(name, known) if known else "there is none yet"
        raise NotFound(f"there is no vdc {name}; {hint}", field="vdc", value=name)
    return vdc


def _members(asked: list[MemberRequest]) -> tuple[Member, ...]:
    members = {checks.word("clusters", one.name): one for one in asked}
    if len(members) < len(asked):
        raise Rejected.because("clusters", asked[-1].name, "name each cluster once")
    return tuple(Member(one.name, one.priority, one.weight) for one in members.values())


def _limits(now: Limits, asked: VdcRequest | VdcPatch) -> Limits:
    made = changed_limits(now, asked.limits) if asked.limits is not None else now
    for field in ("queued", "device_hours", "cost"):
        if getattr(made, field) is not None:
            why = f"{field}: a vdc limits jobs, cpus, memory_mb and gpus; quotas limit the rest"
            raise Rejected.because("limits", field, why)
    return made


def _changes(now: Limits, asked: VdcRequest | VdcPatch) -> dict[str, Any]:
    changes: dict[str, Any] = {"limits": _limits(now, asked)}
    if asked.clusters is not None:
        changes["clusters"] = _members(asked.clusters)
    if asked.preferred is not None:
        changes["preferred"] = tuple(dict.fromkeys(asked.preferred))
    if asked.labels is not None:
        changes["labels"] = tuple(sorted(asked.labels.items()))
    for field in ("strategy", "overcommit", "max_per_user"):
        if (value := getattr(asked, field)) is not None:
            changes[field] = value
    return changes


async def _set(request: Asking, vdc: Vdc) -> VdcView:
    host = context_of(request).host
    await host.ask(SetVdc(actor=actor_of(request), vdc=vdc))
    return _view(host.cluster, vdc)


@get("/vdcs", summary="Every virtual data centre", opt={"right": "read"})
async def list_vdcs(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> VdcsView:
    """A job names one with `vdc`, and runs on its clusters, within its limits."""
    cluster = context_of(request).host.cluster
    page, after = ListPart(limit, cursor).of(cluster.policy.vdcs, lambda vdc: vdc.name)
    return VdcsView([_view(cluster, vdc) for vdc in page], cursor=after)


@get("/vdcs/{name:str}", summary="One virtual data centre", opt={"right": "read", "errors": (404,)})
async def show_vdc(request: Asking, name: params.NamePath) -> VdcView:
    """Its clusters with their states, and what its jobs hold."""
    return _view(context_of(request).host.cluster, _named(request, name))


@post(
    "/vdcs",
    summary="Make a virtual data centre",
    opt={"right": "operate", "body": NamedVdc, "creates": "name", "errors": (409, 429, 503)},
)
async def make_vdc(request: Asking) -> VdcView:
    """Refused where there is one of that name."""
    asked: NamedVdc = await body_of(request, _new)
    name = checks.word("name", asked.name)
    if not name:
        raise Rejected.bad("name", "", "a name is missing")
    context = context_of(request)
    async with context.turns.of("vdc", name):
        if context.host.cluster.policy.vdc(name) is not None:
            raise Conflict(f"there is a vdc {name} already", field="name", value=name)
        return await _set(request, Vdc(name=name, **_changes(UNLIMITED, asked)))


@put(
    "/vdcs/{name:str}",
    summary="Make or replace a virtual data centre",
    opt={"right": "operate", "body": VdcRequest, "errors": (429, 503)},
)
async def set_vdc(request: Asking, name: params.NamePath) -> VdcView:
    """As it shall be, with the default for every field that is left out."""
    asked: VdcRequest = await body_of(request, _whole)
    return await _set(request, Vdc(name=checks.word("name", name), **_changes(UNLIMITED, asked)))


@patch(
    "/vdcs/{name:str}",
    summary="Change a virtual data centre",
    opt={"right": "operate", "body": VdcPatch, "errors": (404, 429, 503)},
)
async def change_vdc(request: Asking, name: params.NamePath) -> VdcView:
    """Absent fields stay as they are; waiting jobs obey at once, running ones go on."""
    asked: VdcPatch = await body_of(request, _patch)
    now = _named(request, name)
    return await _set(request, msgspec.structs.replace(now, **_changes(now.limits, asked)))


@delete(
    "/vdcs/{name:str}",
    summary="Remove a virtual data centre",
    opt={"right": "operate", "errors": (404, 409)},
)
async def remove_vdc(request: Asking, name: params.NamePath) -> None:
    """Refused while it has jobs."""
    await context_of(request).host.ask(RemoveVdc(actor=actor_of(request), vdc=name))


ROUTES = [list_vdcs, show_vdc, make_vdc, set_vdc, change_vdc, remove_vdc]
