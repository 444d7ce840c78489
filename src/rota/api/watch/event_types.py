"""Events in types of the API's own: each kind has its few of the fields of ``EventDetail``."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from rota.api.bodies.pilot_requests import PilotKind
from rota.api.views.times import Moment
from rota.core.facts.states import Blame, Cause, JobState, QueueState


class EventPart(msgspec.Struct, omit_defaults=True):
    """Part of an event; what has its usual value is left out."""


class EventOutcome(EventPart):
    """How a job ended."""

    state: JobState
    cause: Cause
    detail: str = ""
    exit_code: int | None = None
    signal: int = 0


class EventAllocation(EventPart):
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


class EventLoan(EventPart):
    """CPUs of a try that was stopped for this one."""

    lender: str
    cpu_milli: int
    cpus: tuple[int, ...] = ()


class EventCheckpoint(EventPart):
    """What a job said of work that it saved."""

    attempt: int = 0
    step: int | None = None
    note: str = ""
    size_bytes: int = 0
    path: str = ""


class EventForeign(EventPart):
    """A process outside Rota on a device."""

    device: int
    pid: int
    user: str
    memory_mib: int
    ignored: bool = False


class EventOveruse(EventPart):
    """A try that holds more GPU memory than it asked for."""

    uid: str
    device: int
    memory_mib: int


class EventClosure(EventPart):
    """A pool is closed to some tasks until then."""

    until_s: float
    note: str = ""


class EventQueue(EventPart):
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


class EventGroup(EventPart):
    """A group as it is from here on."""

    name: str
    owner: str
    max_concurrent: int = 0


class EventProject(EventPart):
    """A project as it is from here on; its quota is read at `/projects/{name}`."""

    name: str
    parent: str = ""
    shares: int = 1


class EventUser(EventPart):
    """A user as it is from here on; the quota is read at `/users/{name}`."""

    name: str
    shares: int = 1


class EventReservation(EventPart):
    """A reservation as it is from here on; the rest is read at `/reservations/{id}`."""

    id: int
    owner: str
    start_s: float
    end_s: float
    project: str = ""
    node: str = ""
    devices: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


class EventPilot(EventPart):
    """A pilot as it is from here on."""

    name: str
    kind: PilotKind


class EventPolicy(EventPart):
    """The rules that hold from here on, by the name of their preset or ``custom``."""

    name: str


class EventDetail(EventPart):
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
    declared_mib: int | UnsetType = UNSET
    device: int | str | UnsetType = UNSET
    devices: tuple[int | str, ...] | UnsetType = UNSET
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
    overuse: tuple[EventOveruse, ...] | UnsetType = UNSET
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
    since_at: Moment | UnsetType = UNSET
    since_s: float | UnsetType = UNSET
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
    what: str | UnsetType = UNSET
    where: str | UnsetType = UNSET
    window_s: float | UnsetType = UNSET
    yields_to: int | UnsetType = UNSET
