"""Structs to rows and back. The body of a row is the struct itself; the columns serve queries."""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.changes import events as core_events
from rota.core.changes import gpu_events
from rota.core.changes.events import AnyEvent, BlobStored, ElementExpanded, Recorded
from rota.core.derived.usage import Usage
from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.node import Node
from rota.core.facts.policy import Policy
from rota.core.facts.site.outer import Outer
from rota.core.facts.site.pilot import Pilot
from rota.core.facts.states import FINAL, JobState
from rota.core.facts.tenant import Group, Project, Queue, Reservation, Secret, Token, User
from rota.core.words.units import device_variant, gpu_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.core.facts.site.audit import Audited

Row = tuple[Any, ...]
Sweep = tuple[tuple[str, ...], ...]

#: The number of what rows can say. It is raised whenever a struct that is kept gains, loses or
#: changes a field (a test holds it against the structs): an older Rota would read the row, drop
#: what it does not know, and write it back. So it refuses a database with a higher number.
FORMAT = 1

#: How long a repeated submit finds the first one, counted back from the newest event.
KEY_WINDOW_S = 24 * 3600.0
#: Longer commands are cut in the column for people; the body keeps them in full.
COMMAND_MAX = 4096

FINAL_STATES: tuple[str, ...] = tuple(state.value for state in JobState if state in FINAL)
OPEN_STATES: tuple[str, ...] = tuple(state.value for state in JobState if state not in FINAL)

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
decode_job = msgspec.msgpack.Decoder(Job).decode
decode_event = msgspec.msgpack.Decoder(AnyEvent).decode
_decode_array = msgspec.msgpack.Decoder(Array).decode
_decode_sweep = msgspec.msgpack.Decoder(Sweep).decode

#: The tables that are loaded whole: name of the table (and of the field of ``Batch`` and
#: ``Snapshot``) to the decoder of its rows.
RECORDS: dict[str, Callable[[bytes], Any]] = {
    "nodes": msgspec.msgpack.Decoder(Node).decode,
    "queues": msgspec.msgpack.Decoder(Queue).decode,
    "groups": msgspec.msgpack.Decoder(Group).decode,
    "projects": msgspec.msgpack.Decoder(Project).decode,
    "reservations": msgspec.msgpack.Decoder(Reservation).decode,
    "pilots": msgspec.msgpack.Decoder(Pilot).decode,
    "users": msgspec.msgpack.Decoder(User).decode,
    "usage": msgspec.msgpack.Decoder(Usage).decode,
    "outers": msgspec.msgpack.Decoder(Outer).decode,
    "settings": msgspec.msgpack.Decoder(Policy).decode,
    "tokens": msgspec.msgpack.Decoder(Token).decode,
    "secrets": msgspec.msgpack.Decoder(Secret).decode,
}


def job_row(job: Job) -> Row:
    """In the order of ``statements.JOB_COLUMNS``."""
    spec = job.spec
    cpu_milli = memory_mib = gpus = 0
    for role in spec.roles:
        request, count = role.request, role.count
        cpu_milli += count * request.cpu_milli
        memory_mib += count * request.memory_mib
        gpus += count * gpu_count(request)
    return (
        job.id,
        job.uid,
        spec.user,
        _text(spec.name),
        spec.project or None,
        spec.queue,
        job.state.value,
        spec.priority,
        gpus,
        device_variant(spec.roles[0].request) or "",
        cpu_milli / 1000,
        memory_mib / 1024,
        _command(spec.command or (f"script:{spec.script}", *spec.script_args)),
        _text(spec.workdir),
        job.submitted_s,
        _placed_s(job) or None,
        job.started_s or None,
        job.ended_s or None,
        job.array_id or None,
        job.key or None,
        encode(job),
    )


def _placed_s(job: Job) -> float:
    """When the latest try of its first task was given room; 0 while none was."""
    current = job.tasks[0].current if job.tasks else None
    return current.placed_s if current is not None else 0.0


@lru_cache(1024)
def _command(words: tuple[str, ...]) -> str:
    """As a person would type it. A row is written several times, and many jobs are alike."""
    return _text(shlex.join(words)[:COMMAND_MAX])


def _text(value: str) -> str:
    """PostgreSQL keeps no NUL in text; the body keeps what was really asked for."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in value else value


def array_row(array: Array, *, with_sweep: bool) -> Row:
    """In the order of ``statements.ARRAY_COLUMNS``.

    The rows of a sweep are left out of the body: they may be megabytes and never change, and an
    array is written again with each element that starts.
    """
    return (
        array.id,
        array.uid,
        array.spec.user,
        array.id + array.count,
        1 if array.waiting else 0,
        array.cut_s if array.cut else None,
        array.submitted_s,
        array.key or None,
        encode_array(array),
        encode(array.rows) if with_sweep and array.rows else None,
    )


def audit_row(record: Audited) -> Row:
    """In the order of ``statements.AUDIT_COLUMNS``."""
    return (
        record.at_s,
        _text(record.user),
        _text(record.via),
        _text(record.address),
        record.action,
        _text(record.object),
        _text(record.refused),
    )


def encode_array(array: Array) -> bytes:
    return encode(msgspec.structs.replace(array, rows=()) if array.rows else array)


def decode_array(body: bytes, sweep: bytes | None) -> Array:
    array = _decode_array(body)
    if sweep is not None:
        array.rows = _decode_sweep(sweep)
    return array


def event_row(recorded: Recorded) -> tuple[int, float, str, str, int | None, bytes]:
    """In the order of ``statements.EVENT_COLUMNS``. A blob has a row of its own: see ``blobs``."""
    event = recorded.event
    if isinstance(event, BlobStored):
        event = BlobStored(event.digest)
    kind, subject = _SHAPES[type(event)]
    job_id: int | None = getattr(event, subject) if subject else None
    if isinstance(event, ElementExpanded):
        job_id = event.array + 1 + event.position
    return (recorded.seq, recorded.at_s, recorded.actor, kind, job_id, encode(event))


def recorded(row: Sequence[Any]) -> Recorded:
    """From ``seq, at_s, actor, body``."""
    return Recorded(row[0], row[1], row[2], decode_event(row[3]))


def _shapes() -> dict[type, tuple[str, str]]:
    """For each type of event its kind, and the field that names its job or array."""
    found: dict[type, tuple[str, str]] = {}
    for kind in core_events.Event.__subclasses__():
        fields = kind.__struct_fields__
        subject = next((name for name in ("job", "array") if name in fields), "")
        found[kind] = (str(kind.__struct_config__.tag), subject)
    return found


_SHAPES = _shapes()

#: What is told over and over: the only events without a job that prune drops.
CHATTER = tuple(
    _SHAPES[kind][0]
    for kind in (
        core_events.NodeRegistered,
        core_events.NodeSilent,
        core_events.DevicesSeen,
        gpu_events.OveruseSeen,
        core_events.PassesMade,
        core_events.BlobStored,
    )
)
#: The other events without a job: of accounts, queues, nodes and rules. They stay for ever.
LASTING = tuple(kind for kind, subject in _SHAPES.values() if not subject and kind not in CHATTER)
