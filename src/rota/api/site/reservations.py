"""Routes about reservations: who may use which GPUs or nodes from when to when."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from litestar import delete, get, post
from litestar.params import PathParameter

from rota.api import params
from rota.api.bodies import checks
from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import ReservationRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.lookup import find
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import AddReservation, RemoveReservation, ReserveForJob
from rota.core.facts.errors import NotFound, Rejected
from rota.core.facts.tenant import Reservation
from rota.moments import parse_moment, zone_named

if TYPE_CHECKING:
    from datetime import tzinfo

    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.tenant import Actor

_body = Body(ReservationRequest)
IdPath = Annotated[int, PathParameter(description="Its id", ge=0, lt=2**53)]
#: Longer ones are typing errors.
LONGEST_S = 366 * 86400


ReservationKind = Literal["gpus", "devices", "nodes", "promise"]
ReservationState = Literal["planned", "active", "over"]


class ReservationView(msgspec.Struct):
    """``kind`` is ``gpus`` (by count), ``devices`` (by index), ``nodes`` (whole) or ``promise``:
    the room of a job whose deadline was promised."""

    id: int
    kind: ReservationKind
    owner: str
    project: str
    maintenance: bool
    state: ReservationState
    start_at: Moment | None
    end_at: Moment | None
    node: str
    devices: list[int]
    nodes: list[str]
    gpus: int
    gpu_type: str
    zone: str
    note: str
    #: The job that the devices are kept for; null: none.
    job_id: int | None = None


class JobReservationView(msgspec.Struct):
    """What is kept for a job: the uuids of GPUs, and a reservation for each of their nodes."""

    job_id: int
    gpu_ids: list[str]
    items: list[ReservationView]


class ReservationsView(Listed):
    items: list[ReservationView]


def reservation_view(reservation: Reservation, now_s: float) -> ReservationView:
    kind: ReservationKind = "devices" if reservation.devices else "nodes"
    kind = "promise" if reservation.room else kind
    state: ReservationState = "planned" if now_s < reservation.start_s else "active"
    return ReservationView(
        id=reservation.id,
        kind="gpus" if reservation.device_count else kind,
        owner=reservation.owner,
        project=reservation.project,
        maintenance=not (reservation.owner or reservation.project or reservation.job),
        state=state if now_s < reservation.end_s else "over",
        start_at=when(reservation.start_s),
        end_at=when(reservation.end_s),
        node=reservation.node,
        devices=list(reservation.devices),
        nodes=[*(reservation.nodes or dict.fromkeys(held.node for held in reservation.room))],
        gpus=reservation.device_count or len(reservation.devices),
        gpu_type=reservation.device_type,
        zone=reservation.zone,
        note=reservation.note,
        job_id=reservation.job or None,
    )


def reservation_of(asked: ReservationRequest, now_s: float) -> Reservation:
    """Checked for form; whether it can be promised is the controller's to say."""
    _check_kind(asked)
    _check_holder(asked)
    zone = _zone(asked.zone)
    start_s = _moment("start_at", asked.start_at, now_s, zone) or now_s
    end_s = _moment("end_at", asked.end_at, start_s, zone)
    if bool(asked.duration_s) == bool(end_s):
        raise Rejected.because("duration_s", asked.duration_s, "give either duration_s or end_at")
    end_s = end_s or start_s + asked.duration_s
    if end_s - start_s > LONGEST_S:
        raise Rejected.bad("duration_s", end_s - start_s, f"at most {LONGEST_S} (a year)")
    return Reservation(
        id=0,
        owner=checks.word("user", asked.user),
        start_s=start_s,
        end_s=end_s,
        node=checks.word("node", asked.node),
        devices=tuple(dict.fromkeys(asked.devices)),
        project=checks.word("project", asked.project),
        nodes=tuple(dict.fromkeys(checks.word("nodes", name) for name in asked.nodes)),
        device_count=asked.gpus,
        device_type=checks.word("gpu_type", asked.gpu_type),
        note=asked.note,
        zone=asked.zone,
    )


def _check_kind(asked: ReservationRequest) -> None:
    if asked.gpus and asked.devices:
        raise Rejected.because("devices", asked.devices, "give either gpus or devices")
    if asked.devices and asked.nodes:
        raise Rejected.because("nodes", asked.nodes, "devices are on one node: give node")
    if asked.devices and not asked.node:
        raise Rejected("node: is required with devices", field="node", allowed="a node's name")
    if asked.node and not asked.devices:
        raise Rejected.because("node", asked.node, "it needs devices; for a whole node give nodes")
    if asked.gpu_type and not asked.gpus:
        raise Rejected.because("gpu_type", asked.gpu_type, "it needs gpus")
    if not (asked.gpus or asked.devices or asked.nodes):
        raise Rejected("gpus: give gpus, devices or nodes", field="gpus", allowed="one of them")
    if asked.maintenance and asked.gpus:
        raise Rejected.because("maintenance", True, "it needs nodes or devices, not a count")


def _check_holder(asked: ReservationRequest) -> None:
    named = [name for name in ("user", "project", "maintenance") if getattr(asked, name)]
    if len(named) != 1:
        detail = "give exactly one of user, project and maintenance"
        raise Rejected(f"user: {detail}", field="user", value=named, allowed=detail)


def _zone(name: str) -> tzinfo:
    try:
        return zone_named(name) or UTC
    except ValueError as error:
        raise Rejected(f"zone: {error}", field="zone", value=name) from None


def _moment(field: str, asked: float | str, now_s: float, zone: tzinfo) -> float:
    if not isinstance(asked, str):
        return float(asked)
    if not asked:
        return 0.0
    try:
        return parse_moment(asked, now_s, zone)
    except ValueError as error:
        raise Rejected(f"{field}: {error}", field=field, value=asked) from None


@get("/reservations", summary="Every reservation", opt={"right": "read"})
async def list_reservations(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> ReservationsView:
    """Who may use which devices or nodes from when to when; in order of their beginning."""
    host = context_of(request).host
    found = sorted(host.cluster.reservations.values(), key=lambda r: (r.start_s, r.id))
    page, after = ListPart(limit, cursor).of(found, lambda r: (r.start_s, r.id))
    now_s = host.clock.now_s()
    return ReservationsView([reservation_view(one, now_s) for one in page], cursor=after)


@get(
    "/reservations/{reservation_id:int}",
    summary="One reservation",
    opt={"right": "read", "errors": (404,)},
)
async def show_reservation(request: Asking, reservation_id: IdPath) -> ReservationView:
    """By its id."""
    host = context_of(request).host
    found = host.cluster.reservations.get(reservation_id)
    if found is None:
        raise NotFound(
            f"there is no reservation {reservation_id}", field="id", value=reservation_id
        )
    return reservation_view(found, host.clock.now_s())


@post(
    "/reservations",
    summary="Reserve GPUs or nodes, or plan maintenance",
    opt={
        "right": "operate",
        "body": ReservationRequest,
        "creates": "id",
        "errors": (409, 429, 503),
    },
)
async def add_reservation(request: Asking) -> ReservationView | JobReservationView:
    """Refused (409) when what it promises is promised to somebody else, or does not exist.

    With `job_id` and `gpu_ids` the GPUs are kept for one job, which then runs on these and on no
    others.
    """
    asked: ReservationRequest = await body_of(request, _body)
    host = context_of(request).host
    if asked.job_id or asked.gpu_ids:
        return await _keep_for_job(host, actor_of(request), asked)
    command = AddReservation(
        actor=actor_of(request), reservation=reservation_of(asked, host.clock.now_s())
    )
    made: Reservation = await host.ask(command)
    return reservation_view(made, host.clock.now_s())


async def _keep_for_job(host: Host, actor: Actor, asked: ReservationRequest) -> JobReservationView:
    given = set(msgspec.to_builtins(asked)) - {"job_id", "gpu_ids"}
    if given:
        field = min(given)
        raise Rejected(f"{field}: not together with job_id", field=field, allowed="one of them")
    for name in ("job_id", "gpu_ids"):
        if not getattr(asked, name):
            raise Rejected(f"{name}: is required with the other one", field=name)
    job = await find(host, asked.job_id)
    command = ReserveForJob(actor=actor, job=job.id, devices=tuple(asked.gpu_ids))
    made: tuple[Reservation, ...] = await host.ask(command)
    return JobReservationView(
        job_id=job.id,
        gpu_ids=[uuid for one in made for uuid in _uuids(host.cluster, one)],
        items=[reservation_view(one, host.clock.now_s()) for one in made],
    )


def _uuids(cluster: Cluster, reservation: Reservation) -> list[str]:
    devices = cluster.nodes[reservation.node].spec.devices
    return [device.uuid for device in devices if device.index in reservation.devices]


@delete(
    "/reservations/{reservation_id:int}",
    summary="Remove a reservation, or all that is kept for a job",
    opt={"right": "operate", "errors": (404, 429, 503)},
)
async def remove_reservation(request: Asking, reservation_id: IdPath) -> None:
    """Planned, active or over; jobs that use it go on. A job's id means what is kept for it."""
    command = RemoveReservation(actor=actor_of(request), reservation=reservation_id)
    await context_of(request).host.ask(command)


ROUTES = [list_reservations, show_reservation, add_reservation, remove_reservation]
