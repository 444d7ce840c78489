"""What of an event leaves Rota: an allow list per kind, in types of the API's own.

A field that is not listed stays here, so that nothing new is told before somebody decided so. Names
of fields are the clients' to rely on, whatever the core calls them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from rota.api.views.times import Moment, when
from rota.core.changes import events as ev
from rota.core.facts.states import Blame, Cause, JobState, QueueState
from rota.core.words.placing_text import format_taint
from rota.core.words.presets import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.changes.events import Recorded


class _Part(msgspec.Struct, omit_defaults=True):
    """Part of an event; what has its usual value is left out."""


class EventOutcome(_Part):
    """How a job ended."""

    state: JobState
    cause: Cause
    detail: str = ""
    exit_code: int | None = None
    signal: int = 0


class EventAllocation(_Part):
    """What a try was given."""

    node: str
    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    cpus: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    device_memory_mib: int = 0
    shared: bool = False
    device_milli: int = 0
    exclusive: bool = False


class EventLoan(_Part):
    """CPUs of a try that was stopped for this one."""

    lender: str
    cpu_milli: int
    cpus: tuple[int, ...] = ()


class EventCheckpoint(_Part):
    """What a job said of work that it saved."""

    attempt: int = 0
    step: int | None = None
    note: str = ""
    size_bytes: int = 0
    path: str = ""


class EventForeign(_Part):
    """A process outside Rota on a device."""

    device: int
    pid: int
    user: str
    memory_mib: int
    ignored: bool = False


class EventClosure(_Part):
    """A pool is closed to some tasks until then."""

    until_s: float
    note: str = ""


class EventQueue(_Part):
    """A queue as it is from here on."""

    name: str
    priority: int = 50
    max_running: int = 0
    state: QueueState = QueueState.ACTIVE
    project: str = ""
    max_per_user: int = 0
    max_per_project: int = 0
    preempts: bool = True
    preemptible: bool = True
    hours: str = ""
    zone: str = ""
    outside: bool = False


class EventGroup(_Part):
    """A group as it is from here on."""

    name: str
    owner: str
    max_concurrent: int = 0


class EventProject(_Part):
    """A project as it is from here on; its quota is read at `/projects/{name}`."""

    name: str
    parent: str = ""
    shares: int = 1


class EventUser(_Part):
    """A user as it is from here on; the quota is read at `/users/{name}`."""

    name: str
    shares: int = 1


class EventReservation(_Part):
    """A reservation as it is from here on; the rest is read at `/reservations/{id}`."""

    id: int
    owner: str
    start_s: float
    end_s: float
    project: str = ""
    node: str = ""
    devices: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


class EventPilot(_Part):
    """A pilot as it is from here on."""

    name: str
    kind: str


class EventPolicy(_Part):
    """The rules that hold from here on, by the name of their preset or ``custom``."""

    name: str


class EventDetail(_Part):
    """Whatever else an event says; each kind has its own few of these."""

    after: tuple[str, ...] | UnsetType = UNSET
    allocation: EventAllocation | UnsetType = UNSET
    array: int | UnsetType = UNSET
    borrows: tuple[EventLoan, ...] | UnsetType = UNSET
    by: str | UnsetType = UNSET
    cap: int | UnsetType = UNSET
    cause: Cause | UnsetType = UNSET
    closed: tuple[str, ...] | UnsetType = UNSET
    closures: tuple[EventClosure, ...] | UnsetType = UNSET
    cools_at: Moment | UnsetType = UNSET
    cools_s: float | UnsetType = UNSET
    count: int | UnsetType = UNSET
    cpu_s: float | UnsetType = UNSET
    cpus: int | UnsetType = UNSET
    data: tuple[str, ...] | UnsetType = UNSET
    deadline_at: Moment | UnsetType = UNSET
    deadline_s: float | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    devices: tuple[str, ...] | UnsetType = UNSET
    drained: bool | UnsetType = UNSET
    eligible: bool | UnsetType = UNSET
    ended_at: Moment | UnsetType = UNSET
    ended_s: float | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET
    external: str | UnsetType = UNSET
    fault: Blame | UnsetType = UNSET
    foreign: tuple[EventForeign, ...] | UnsetType = UNSET
    gone: tuple[str, ...] | UnsetType = UNSET
    group: EventGroup | UnsetType = UNSET
    held: bool | UnsetType = UNSET
    ignored_pids: tuple[int, ...] | UnsetType = UNSET
    keep: int | UnsetType = UNSET
    kept: bool | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    lease_s: float | UnsetType = UNSET
    memory_mib: int | UnsetType = UNSET
    migrate: bool | UnsetType = UNSET
    name: str | UnsetType = UNSET
    node: str | UnsetType = UNSET
    nodes: tuple[str, ...] | UnsetType = UNSET
    not_before_at: Moment | UnsetType = UNSET
    not_before_s: float | UnsetType = UNSET
    note: str | UnsetType = UNSET
    outcome: EventOutcome | UnsetType = UNSET
    peak_memory_mib: int | UnsetType = UNSET
    pid: int | UnsetType = UNSET
    pilot: EventPilot | str | UnsetType = UNSET
    point: str | UnsetType = UNSET
    policy: EventPolicy | UnsetType = UNSET
    port: int | UnsetType = UNSET
    position: int | UnsetType = UNSET
    problem: str | UnsetType = UNSET
    project: EventProject | str | UnsetType = UNSET
    projects: tuple[str, ...] | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    queue: EventQueue | str | UnsetType = UNSET
    record: EventCheckpoint | UnsetType = UNSET
    reservation: EventReservation | int | UnsetType = UNSET
    saved_at: Moment | UnsetType = UNSET
    saved_s: float | UnsetType = UNSET
    shift_s: float | UnsetType = UNSET
    signal: int | UnsetType = UNSET
    spent: str | UnsetType = UNSET
    started_at: Moment | UnsetType = UNSET
    started_s: float | UnsetType = UNSET
    state: str | UnsetType = UNSET
    step: int | UnsetType = UNSET
    taints: tuple[str, ...] | UnsetType = UNSET
    task: int | UnsetType = UNSET
    tasks: int | UnsetType = UNSET
    then: str | UnsetType = UNSET
    trial: bool | UnsetType = UNSET
    uid: str | UnsetType = UNSET
    user: EventUser | str | UnsetType = UNSET
    way: str | UnsetType = UNSET
    where: str | UnsetType = UNSET
    window_s: float | UnsetType = UNSET
    yields_to: int | UnsetType = UNSET


class EventView(msgspec.Struct):
    """A fact: when, on whose behalf, which kind, about which job, and what else it says."""

    seq: int
    at: Moment | None
    actor: str
    kind: str
    job: int | None
    detail: EventDetail


_ENGINE = "external where"
#: Kind of event -> which of its fields are told.
SHOWN: dict[type, tuple[str, ...]] = {
    kind: tuple(names.split())
    for kind, names in {
        ev.JobSubmitted: "uid held eligible not_before_s",
        ev.ArraySubmitted: "array uid count cap held eligible not_before_s",
        ev.ElementExpanded: "array position",
        ev.ArrayCancelled: "array outcome",
        ev.ArrayChanged: "array held eligible cap note",
        ev.JobEligible: "",
        ev.JobHeld: "note",
        ev.JobReleased: "",
        ev.JobSuspended: "by yields_to",
        ev.JobResumed: "",
        ev.JobUpdated: "",
        ev.AttemptPlaced: "task uid allocation after window_s borrows port",
        ev.AttemptWaits: f"task uid detail {_ENGINE}",
        ev.AttemptStarted: f"task uid pid started_s {_ENGINE}",
        ev.AttemptStopAsked: "task uid cause detail",
        ev.AttemptEnded: "task uid ended_s cause started_s exit_code signal detail fault "
        f"peak_memory_mib cpu_s {_ENGINE}",
        ev.StopPlanned: "then",
        ev.JobRetried: "not_before_s cause detail",
        ev.JobRequeued: "held kept not_before_s",
        ev.JobPreempted: "",
        ev.SaveAsked: "",
        ev.CheckpointReported: "saved_s data record keep",
        ev.EndpointSet: "",
        ev.JobEntered: "task way",
        ev.StepStarted: "step name nodes tasks cpus",
        ev.StepEnded: "step state exit_code signal cpu_s memory_mib",
        ev.JobSettled: "outcome",
        ev.NodeRegistered: "lease_s",
        ev.NodeSilent: "node note",
        ev.NodeLost: "node note",
        ev.NodesVanished: "nodes note",
        ev.NodeDrained: "node drained note migrate deadline_s cools_s trial",
        ev.NodeQuarantined: "node note devices",
        ev.PoolClosed: "node closures",
        ev.DevicesSeen: "node foreign",
        ev.DevicesElsewhere: "node devices",
        ev.NodeMarked: "node labels taints closed ignored_pids",
        ev.NodeKeySet: "spent",
        ev.NodeCutOff: "node note",
        ev.NodeRemoved: "node",
        ev.QueueSet: "queue",
        ev.QueueRemoved: "queue",
        ev.GroupSet: "group",
        ev.ProjectSet: "project",
        ev.ProjectRemoved: "project",
        ev.UserSet: "user",
        ev.UserRemoved: "user",
        ev.UsageForgotten: "user project",
        ev.QuotaProviderSet: "provider",
        ev.QuotasSeen: "gone",
        ev.ClockMoved: "shift_s",
        ev.PolicySet: "policy",
        ev.RuleDropped: "point name problem",
        ev.PilotSet: "pilot",
        ev.PilotRemoved: "pilot",
        ev.ReservationSet: "reservation",
        ev.ReservationRemoved: "reservation",
        ev.TokenMade: "",
        ev.TokenRevoked: "",
    }.items()
}
#: Told to nobody.
NEVER = (ev.BlobStored, ev.PassesMade)
#: Why it ended may name its folder or command; what it said of its saved work.
_OWN_WORDS = frozenset({"detail", "record", "data"})
#: Moments that are told in seconds, too, as they were at first.
_MOMENTS = ("started_s", "ended_s", "saved_s", "not_before_s", "deadline_s", "cools_s")


def _picked(view: type[_Part]) -> Callable[[Any], _Part]:
    """The view of a record: its fields have the same names there."""
    names = view.__struct_fields__
    return lambda record: view(*(getattr(record, name) for name in names))


def _each(made: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda records: tuple(made(record) for record in records)


#: Fields that are records of the core -> how they are told; a name or a number is told as it is.
_RECORDS: dict[str, Callable[[Any], Any]] = {
    "outcome": _picked(EventOutcome),
    "allocation": _picked(EventAllocation),
    "borrows": _each(_picked(EventLoan)),
    "record": _picked(EventCheckpoint),
    "foreign": _each(_picked(EventForeign)),
    "closures": _each(_picked(EventClosure)),
    "taints": _each(format_taint),
    "queue": _picked(EventQueue),
    "group": _picked(EventGroup),
    "project": _picked(EventProject),
    "user": _picked(EventUser),
    "reservation": _picked(EventReservation),
    "pilot": _picked(EventPilot),
    "policy": lambda policy: EventPolicy(name_of(policy)),
}


def view_of_event(record: Recorded, job: int | None, *, open_: bool) -> EventView:
    """``open_``: the job may be looked into. Words of its user's own are for those only."""
    event = record.event
    kind = type(event)
    usual = _USUAL[kind]
    told: dict[str, Any] = {}
    for name in SHOWN[kind]:
        value = getattr(event, name)
        if (name in usual and value == usual[name]) or (not open_ and name in _OWN_WORDS):
            continue
        made = _RECORDS.get(name)
        told[name] = value if made is None or isinstance(value, str | int) else made(value)
    for name in _MOMENTS:
        if moment := when(told.get(name, 0.0)):
            told[f"{name.removesuffix('_s')}_at"] = moment
    if not open_ and "outcome" in told:
        told["outcome"].detail = ""
    if isinstance(event, ev.NodeRegistered):
        told["node"] = event.spec.name
    elif isinstance(event, ev.QuotasSeen):
        told["projects"] = tuple(outer.project for outer in event.outers)
    tag = str(kind.__struct_config__.tag)
    return EventView(record.seq, when(record.at_s), record.actor, tag, job, EventDetail(**told))


#: Kind of event -> what its fields mostly are; that is not told.
_USUAL: dict[type, dict[str, object]] = {
    kind: {
        field.name: field.default
        for field in msgspec.structs.fields(kind)
        if field.default is not msgspec.NODEFAULT
    }
    for kind in SHOWN
}
