"""The bodies that callers send. Types and ranges are checked while they are decoded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.api.errors import Malformed, from_decoding
from rota.core.job import DependencyKind, RestartPolicy
from rota.core.states import QueueState
from rota.core.tenant import Access

#: Numbers that fit everywhere: JSON, both databases, every kernel interface.
BIG = 2**53 - 1

Whole = Annotated[int, Meta(ge=0, le=BIG)]
Seconds = Annotated[float, Meta(ge=0, le=3_200_000_000)]
Short = Annotated[str, Meta(max_length=200)]
Line = Annotated[str, Meta(max_length=4096)]
JobRef = int | str


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of all bodies: a field that does not exist is refused, never ignored."""


class Resources(Strict, frozen=True):
    """What one task asks for."""

    cpus: Annotated[float, Meta(ge=0.001, le=1_000_000)] = 1
    memory_mb: Whole = 0
    gpus: Annotated[int, Meta(ge=0, le=100_000)] = 0
    gpu_type: Short = ""
    gpu_memory_mb: Whole = 0
    shared: bool = False
    disk_mb: Whole = 0
    device: Literal["", "gpu", "tpu"] = ""


class DependencyRequest(Strict):
    """One parent: a job or array id, or ``5_3``. ``element`` ties equal indices of two arrays."""

    kind: DependencyKind
    job: JobRef
    element: bool = False


class Parameters(Strict):
    """A sweep: one job per row, ``{name}`` in the command stands for the row's value."""

    names: Annotated[list[Short], Meta(min_length=1, max_length=100)]
    rows: Annotated[list[list[str | int | float]], Meta(min_length=1, max_length=1_000_000)]


class JobRequest(Strict):
    """What a caller may ask for. Exactly one of ``command`` and ``script``."""

    name: str = ""
    #: A list is run as it is, text is a line for ``/bin/sh``.
    command: list[str] | str = ""
    script: str = ""
    script_args: list[str] = []
    stdin: str = ""
    project: Short = ""
    queue: Short = "default"
    priority: Annotated[int, Meta(ge=0, le=100)] | str = 50
    resources: Resources = Resources()
    tasks: Annotated[int, Meta(ge=1, le=100_000)] = 1
    min_tasks: Annotated[int, Meta(ge=0, le=100_000)] = 0
    nodes: Annotated[int, Meta(ge=0, le=100_000)] = 0
    workdir: Line = "/"
    env: dict[str, str] = {}
    variables: dict[str, str] = {}
    output: Line = ""
    error: Line = ""
    umask: Annotated[int, Meta(ge=0, le=0o777)] = 0o022
    ulimits: dict[str, Annotated[int, Meta(ge=-1, le=2**63 - 1)]] = {}
    time_limit_s: Seconds = 0
    grace_s: Seconds = 30
    scheduling_timeout_s: Seconds = 0
    scheduling_timeout_seconds: Seconds = 0
    begin_at: Seconds | str = 0
    depends_on: Annotated[list[DependencyRequest], Meta(max_length=10_000)] = []
    depends_any: bool = False
    keep_waiting: bool = False
    group: Short = ""
    max_concurrent: Whole | None = None
    array: Annotated[str, Meta(max_length=65_536)] = ""
    parameters: Parameters | None = None
    retries: Annotated[int, Meta(ge=0, le=1000)] = 0
    restart: RestartPolicy = RestartPolicy.ON_FAILURE
    retry_on: Annotated[list[int | str], Meta(max_length=300)] = []
    backoff_s: Seconds = 1
    labels: dict[str, str] = {}
    hold: bool = False
    preemptible: bool = False


class BatchRequest(Strict):
    """Several jobs: all of them are taken, or none."""

    jobs: Annotated[list[JobRequest], Meta(min_length=1, max_length=10_000)]


class JobPatch(Strict):
    """What may be changed of a job that exists. Absent fields stay as they are."""

    name: str | None = None
    priority: Annotated[int, Meta(ge=0, le=100)] | str | None = None
    time_limit_s: Seconds | None = None
    grace_s: Seconds | None = None
    scheduling_timeout_s: Seconds | None = None
    command: list[str] | str | None = None
    workdir: Line | None = None
    output: Line | None = None
    error: Line | None = None
    variables: dict[str, str] | None = None
    resources: dict[str, Any] | None = None
    queue: Short | None = None
    project: Short | None = None
    begin_at: Seconds | str | None = None
    depends_on: Annotated[list[DependencyRequest], Meta(max_length=10_000)] | None = None
    depends_any: bool | None = None
    keep_waiting: bool | None = None
    retries: Annotated[int, Meta(ge=0, le=1000)] | None = None
    labels: dict[str, str] | None = None
    preemptible: bool | None = None
    #: The cap of an array, or of the group that the job belongs to; 0 lifts it.
    max_concurrent: Whole | None = None
    hold: bool | None = None
    action: Literal["cancel", "hold", "release", "requeue"] | None = None


class SelectRequest(Strict):
    """Which jobs: by id, all that the caller may change, or those of one user."""

    ids: Annotated[list[JobRef], Meta(max_length=10_000)] = []
    all: bool = False
    user: Short = ""
    #: For ``:requeue``: hold them in the queue.
    hold: bool = False


class QueueRequest(Strict):
    """A queue as it shall be."""

    priority: Annotated[int, Meta(ge=0, le=100)] = 50
    max_running: Whole = 0
    state: QueueState = QueueState.ACTIVE
    project: Short = ""


class GroupRequest(Strict):
    """How many jobs of a group may run at once; 0 lifts the cap."""

    max_concurrent: Whole


class ProjectRequest(Strict):
    """A project as it shall be."""

    parent: Short = ""
    shares: Annotated[int, Meta(ge=0, le=1_000_000)] = 1


class DrainRequest(Strict):
    """Why a node takes no new work."""

    note: Annotated[str, Meta(max_length=500)] = ""


class TokenRequest(Strict):
    """A network credential for somebody; by default for the caller, with the role ``user``."""

    user: Short = ""
    access: Access = Access.USER
    note: Annotated[str, Meta(max_length=200)] = ""
    #: How long it is valid, in seconds; 0: for ever.
    expires_s: Seconds = 0


class TriggerRequest(Strict):
    """Asks for a scheduling pass now."""

    project_id: str | int | None = None


class Body:
    """Decodes one kind of body; what is wrong with it is said in our words."""

    def __init__(self, kind: Any, *, optional: bool = False) -> None:  # noqa: ANN401 - a type
        self.kind = kind
        self._optional = optional
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)

    def __call__(self, body: bytes) -> Any:  # noqa: ANN401 - of ``kind``
        if self._optional and not body:
            return self.kind()
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            raise from_decoding(error, body, self.kind) from None
        except UnicodeDecodeError:
            raise Malformed("the body is not JSON: it is not valid UTF-8") from None


decode_job = Body(JobRequest)
decode_batch = Body(BatchRequest)
decode_patch = Body(JobPatch)
decode_select = Body(SelectRequest)
