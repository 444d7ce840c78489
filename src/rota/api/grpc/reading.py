"""What arrives over gRPC, as the words and numbers that the rest of the API understands.

A message of proto3 keeps numbers of an enum and fields that it does not know. REST refuses what
it does not know, so these are refused here: nothing that a caller asked for is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from rota.api.errors import Malformed
from rota.api.jobs.log_reader import LogWish
from rota.api.jobs.log_search import CONTEXT_MAX, HITS_MAX, LogSearch
from rota.api.params import IDS_MAX, parse_cursor
from rota.api.views.listing import Query
from rota.api.views.lookup import ID_MAX
from rota.core.facts.errors import Rejected
from rota.core.facts.states import JobState
from rota.rpc import cluster_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

M = TypeVar("M", bound=Message)

PAGE, PAGE_MAX = 100, 1000

#: The states of the wire are fewer than ours: how each of ours is told.
WIRE_STATES: dict[JobState, pb.JobState] = {
    JobState.HELD: pb.JOB_STATE_PENDING,
    JobState.QUEUED: pb.JOB_STATE_PENDING,
    JobState.PREEMPTED: pb.JOB_STATE_PENDING,
    JobState.SCHEDULED: pb.JOB_STATE_BUILDING,
    JobState.RUNNING: pb.JOB_STATE_RUNNING,
    JobState.COMPLETED: pb.JOB_STATE_SUCCEEDED,
    JobState.FAILED: pb.JOB_STATE_FAILED,
    JobState.TIMEOUT: pb.JOB_STATE_FAILED,
    JobState.CANCELLED: pb.JOB_STATE_KILLED,
    JobState.NODE_FAILED: pb.JOB_STATE_WORKER_FAILED,
    JobState.UNSCHEDULABLE: pb.JOB_STATE_UNSCHEDULABLE,
}


def read(kind: type[M], body: bytes) -> M:
    """A message of a kind, or one line that says what is wrong with it."""
    message = kind()
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise Malformed(f"the request is not a {kind.DESCRIPTOR.full_name}") from None
    _check(message, "")
    return message


def _check(message: Message, path: str) -> None:
    """Refuse fields and words that this side does not know, here and below."""
    unknown = UnknownFieldSet(message)
    if len(unknown):
        number = unknown[0].field_number
        raise Rejected(
            f"{path or 'request'}: there is no field number {number} in "
            f"{message.DESCRIPTOR.full_name}; is the caller newer than the controller?",
            field=path or "request",
            value=number,
        )
    for field, value in message.ListFields():
        name = f"{path}.{field.name}" if path else field.name
        if field.message_type is None:
            _check_words(field, value, name)
        elif not field.message_type.GetOptions().map_entry:
            for at, part in _parts(field, value, name):
                _check(part, at)


def _check_words(field: FieldDescriptor, value: Any, name: str) -> None:  # noqa: ANN401
    if field.enum_type is None:
        return
    for at, number in _parts(field, value, name):
        if number not in field.enum_type.values_by_number:
            raise Rejected.bad(at, number, _known(field.enum_type))


def _parts(field: FieldDescriptor, value: Any, name: str) -> list[tuple[str, Any]]:  # noqa: ANN401
    """The value, or every value of a list, with the words that name it."""
    if not field.is_repeated:
        return [(name, value)]
    return [(f"{name}[{number}]", part) for number, part in enumerate(value)]


def _known(kind: EnumDescriptor) -> str:
    return "known: " + ", ".join(f"{word.name} ({word.number})" for word in kind.values)


def job_body(request: pb.LaunchJobRequest) -> bytes:
    """The same request as the body of ``POST /jobs``, where it is checked like any other."""
    asked = _plain(request)
    asked.pop("idempotency_key", None)
    if line := asked.pop("line", ""):
        if request.command:
            raise Rejected.because("line", line, "give either command or line, not both")
        asked["command"] = line
    if resources := asked.get("resources"):
        _set_device(resources)
    for entry, dependency in zip(asked.get("depends_on", ()), request.depends_on, strict=False):
        entry["kind"] = _word(pb.DependencyKind.Name(dependency.kind), "DEPENDENCY_KIND_")
    return msgspec.json.encode(asked)


def _set_device(resources: dict[str, Any]) -> None:
    device = resources.pop("device", pb.DEVICE_TYPE_UNSPECIFIED)
    named = [name for name in ("gpus", "gpu_type", "gpu_memory_mb", "shared") if name in resources]
    if device == pb.DEVICE_TYPE_CPU and named:
        word = pb.DeviceType.Name(device)
        raise Rejected.because("resources.device", word, f"{word} has no {named[0]}")
    if device in (pb.DEVICE_TYPE_GPU, pb.DEVICE_TYPE_TPU):
        resources["device"] = _word(pb.DeviceType.Name(device), "DEVICE_TYPE_")


def _word(name: str, prefix: str) -> str:
    """``DEPENDENCY_KIND_AFTER_OK`` as REST writes it: ``after-ok``."""
    return name.removeprefix(prefix).lower().replace("_", "-")


def _plain(message: Message) -> dict[str, Any]:
    """What was set of a message, by its names."""
    plain: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.message_type is None:
            plain[field.name] = list(value) if field.is_repeated else value
        elif field.message_type.GetOptions().map_entry:
            plain[field.name] = dict(value)
        elif field.is_repeated:
            plain[field.name] = [_plain(part) for part in value]
        else:
            plain[field.name] = _plain(value)
    return plain


def job_ref(text: str, field: str = "job_id") -> str:
    """What names a job; it cannot be left out."""
    if not text:
        raise Rejected(f"{field}: is required", field=field, allowed="a job's id")
    return text


def within(field: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise Rejected.bad(field, value, f"{least} to {most}")
    return value


def query_of(request: pb.ListJobsRequest, ids: Sequence[int]) -> Query:
    """What a listing wants; ``ids`` are the jobs that it names."""
    wanted = set(request.states)
    if pb.JOB_STATE_UNSPECIFIED in wanted:
        raise Rejected.bad("states", "JOB_STATE_UNSPECIFIED", "name a state, or leave them out")
    return Query(
        states=frozenset(ours for ours, wire in WIRE_STATES.items() if wire in wanted),
        user=request.user,
        project=request.project,
        queue=request.queue,
        name=request.name,
        labels=(request.label,) if request.label else (),
        ids=tuple(dict.fromkeys(ids)),
        limit=within("limit", request.limit or PAGE, 1, PAGE_MAX),
        after=parse_cursor(request.cursor),
        newest_first=request.newest_first,
    )


def listed_refs(request: pb.ListJobsRequest) -> list[str]:
    """The jobs that a listing names."""
    within("job_ids", len(request.job_ids), 0, IDS_MAX)
    return [job_ref(text, f"job_ids[{number}]") for number, text in enumerate(request.job_ids)]


def log_wish(request: pb.FetchLogsRequest) -> LogWish:
    most = ID_MAX - 1
    stderr = request.stream == pb.LOG_STREAM_STDERR
    return LogWish(
        stream="stderr" if stderr else "stdout",
        tail=within("tail", request.tail, 0, most) if request.HasField("tail") else None,
        follow=request.follow,
        offset=within("offset", request.offset, -most, most),
        task=within("task", request.task, 0, most),
        attempt=within("attempt", request.attempt, 1, most)
        if request.HasField("attempt")
        else None,
        search=_search(request) if request.search else None,
    )


def _search(request: pb.FetchLogsRequest) -> LogSearch:
    return LogSearch(
        pattern=request.search,
        regex=request.regex,
        ignore_case=request.ignore_case,
        context=within("context_lines", request.context_lines, 0, CONTEXT_MAX),
        hits=within("limit", request.limit, 1, HITS_MAX) if request.HasField("limit") else 1000,
    )
