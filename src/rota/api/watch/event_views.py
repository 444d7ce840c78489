"""What of an event leaves Rota: an allow list per kind, in types of the API's own.

A field that is not listed stays here, so that nothing new is told before somebody decided so. Names
of fields are the clients' to rely on, whatever the core calls them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from rota.api.views.times import Moment, when
from rota.api.watch.event_types import (
    EventAllocation,
    EventCheckpoint,
    EventClosure,
    EventDetail,
    EventForeign,
    EventGroup,
    EventLoan,
    EventOutcome,
    EventOveruse,
    EventPart,
    EventPilot,
    EventPolicy,
    EventProject,
    EventQueue,
    EventReservation,
    EventUser,
)
from rota.core.changes import events as ev
from rota.core.changes import gpu_events
from rota.core.words.placing_text import format_taint
from rota.core.words.presets import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.changes.events import Recorded


#: Told to nobody.
NEVER = (ev.BlobStored, ev.PassesMade)

if TYPE_CHECKING:
    EventKind = str
else:
    #: The kinds that are told, for the document.
    EventKind = StrEnum(
        "EventKind",
        {
            tag: tag
            for kind in get_args(ev.AnyEvent)
            if kind not in NEVER and (tag := str(kind.__struct_config__.tag))
        },
    )


class EventView(msgspec.Struct):
    """A fact: when, on whose behalf, which kind, about which job, and what else it says."""

    seq: int
    at: Moment | None
    actor: str
    kind: EventKind
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
        ev.DeadlineMissed: "",
        ev.PromiseBroken: "note",
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
        gpu_events.OveruseSeen: "node overuse",
        gpu_events.GpuOverused: "task uid device memory_mib declared_mib",
        gpu_events.GpuIdle: "task uid devices since_s",
        gpu_events.DeviceFailed: "node device what",
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
        ev.QuotaReached: "user project note",
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
#: Why it ended may name its folder or command; what it said of its saved work.
_OWN_WORDS = frozenset({"detail", "record", "data"})
#: Moments that are told in seconds, too, as they were at first.
_MOMENTS = ("started_s", "ended_s", "saved_s", "not_before_s", "deadline_s", "cools_s", "since_s")


def _picked(view: type[EventPart]) -> Callable[[Any], EventPart]:
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
    "overuse": _each(_picked(EventOveruse)),
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
    usual = _USUAL.get(kind, {})
    told: dict[str, Any] = {}
    for name in SHOWN.get(kind, ()):
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
