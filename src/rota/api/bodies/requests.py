"""The bodies that callers send. Types and ranges are checked while they are decoded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.api.bodies.executor_requests import ExecutorWords
from rota.api.bodies.gang_requests import RoleRequest
from rota.api.bodies.health_requests import HealthRequest
from rota.api.bodies.request_fields import (
    JobRef,
    JobType,
    Line,
    Resources,
    ResourcesPatch,
    Seconds,
    Short,
    Whole,
    Words,
    says,
)
from rota.api.errors import Malformed, from_decoding
from rota.core.facts.job import RestartPolicy, ServiceClass
from rota.core.facts.parents import DependencyKind
from rota.core.facts.policy import PreemptMode
from rota.core.facts.tenant import Access


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of all bodies: a field that does not exist is refused, never ignored."""


class DependencyRequest(Strict):
    """One parent: a job or array id, or ``5_3``. ``element`` ties equal indices of two arrays."""

    kind: DependencyKind
    job: JobRef
    element: bool = False
    data: Annotated[Short, says("With `after-data`: which of the data that the parent makes")] = ""


class Parameters(Strict):
    """A sweep: one job per row, ``{name}`` in the command stands for the row's value."""

    names: Annotated[list[Short], Meta(min_length=1, max_length=100)]
    rows: Annotated[list[list[str | int | float]], Meta(min_length=1, max_length=1_000_000)]


class JobRequest(Strict):
    """What a caller may ask for. Exactly one of ``command`` and ``script``."""

    name: Annotated[str, says("What people call it; empty: the name of its program")] = ""
    command: Annotated[
        list[str] | str, says("A list is run as it is; text is a line for `/bin/sh`")
    ] = ""
    script: Annotated[str, says("The text of a script with its `#!` line, stored as submitted")] = (
        ""
    )
    script_args: Annotated[list[str], says("Arguments of the script")] = []
    stdin: Annotated[str, says("Standard input, as text")] = ""
    project: Annotated[Short, says("The project that it counts for")] = ""
    queue: Annotated[Short, says("The queue that it waits in")] = "default"
    priority: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | str,
        says(
            "0 to 100, or `scavenger` (0), `batch` (10), `low` (25), `normal` (50), `high` (75), "
            "`urgent` (80), `critical` (100); higher goes first. Above 75 is for operators"
        ),
    ] = 50
    resources: Annotated[Resources, says("What each task asks for")] = Resources()
    executor: Annotated[ExecutorWords | None, says("The same in words of Slurm or a pod")] = None
    tasks: Annotated[
        int,
        Meta(ge=1, le=100_000),
        says("Tasks that start together, each with these resources"),
    ] = 1
    min_tasks: Annotated[
        int,
        Meta(ge=0, le=100_000),
        says("Elastic: start with as few as this, grow up to `tasks`; 0: all of them"),
    ] = 0
    roles: Annotated[
        list[RoleRequest],
        Meta(max_length=16),
        says("Several kinds of members, instead of `resources`, `tasks` and `min_tasks`"),
    ] = []
    nodes: Annotated[
        int,
        Meta(ge=0, le=100_000),
        says("The number of nodes, the tasks spread over them; 0: as few as possible"),
    ] = 0
    constraints: Annotated[
        Words,
        says(
            "What labels its nodes must have: `rack=a`, `rack=a|b`, `rack!=a`, `gpu_mem>40`, "
            "`ssd`, `!ssd`; with `?` or `?5` (a weight) behind it only preferred"
        ),
    ] = []
    node_list: Annotated[Words, says("Only these nodes; empty: any")] = []
    exclude: Annotated[Words, says("Not these nodes")] = []
    tolerate: Annotated[
        Words, says("Taints that it bears: `key`, `key=value`, or `*` for all of them")
    ] = []
    near: Annotated[
        Words,
        says("With jobs that carry a label: `app=web`; `app=web@rack`: in one rack; `?`: better"),
    ] = []
    apart: Annotated[Words, says("Away from jobs that carry a label, likewise")] = []
    topology: Annotated[
        Short, says("A label such as `rack` of which all its nodes must have the same value")
    ] = ""
    exclusive: Annotated[bool, says("Nothing else on its nodes")] = False
    data: Annotated[
        Words, says("Data sets; nodes that list one in their label `data` are better")
    ] = []
    cluster: Annotated[Short, says("Only nodes of this cluster; empty: of any")] = ""
    engine: Annotated[Short, says("Only nodes of this engine; empty: of any, or of none")] = ""
    vdc: Annotated[
        Short, says("A virtual data centre: its clusters, its choice among them, its caps")
    ] = ""
    workdir: Annotated[Line, says("The folder that it runs in; an absolute path on the node")] = "/"
    env: Annotated[dict[str, str], says("The captured environment")] = {}
    variables: Annotated[dict[str, str], says("Single variables on top of `env`")] = {}
    secrets: Annotated[Words, says("Names of secrets of one's own, given to it as variables")] = []
    output: Annotated[
        Line,
        says(
            "File for standard output; `%j` job, `%A` array, `%a` index, `%x` name, `%u` user, "
            "`%t` task. Empty: kept by Rota"
        ),
    ] = ""
    error: Annotated[Line, says("File for standard error, likewise")] = ""
    umask: Annotated[int, Meta(ge=0, le=0o777), says("The file mode mask, as a number")] = 0o022
    ulimits: Annotated[
        dict[str, Annotated[int, Meta(ge=-1, le=2**63 - 1)]],
        says("Limits such as `nofile`; -1: unlimited"),
    ] = {}
    time_limit_s: Annotated[Seconds, says("Longest run in seconds; 0: no limit")] = 0
    grace_s: Annotated[Seconds, says("Time between TERM and KILL")] = 30
    scheduling_timeout_s: Annotated[
        Seconds,
        says(
            "Give up (state `unschedulable`) if it could not start in this time; 0: wait for ever"
        ),
    ] = 0
    scheduling_timeout_seconds: Annotated[
        Seconds, says("Another name of `scheduling_timeout_s`")
    ] = 0
    begin_at: Annotated[
        Seconds | str, says("Not before: seconds since 1970, or 2026-11-15T18:00:00Z")
    ] = 0
    depends_on: Annotated[
        list[DependencyRequest], Meta(max_length=10_000), says("Jobs to wait for")
    ] = []
    depends_any: Annotated[bool, says("One met dependency is enough")] = False
    dependency_timeout_s: Annotated[
        Seconds, says("Cancelled if its dependencies are not met in this time; 0: wait for ever")
    ] = 0
    keep_waiting: Annotated[bool, says("Wait on although a dependency can no longer be met")] = (
        False
    )
    group: Annotated[Short, says("A group of one's own, whose jobs share a cap")] = ""
    max_concurrent: Annotated[
        Whole | None, says("How many of the group, array or sweep may run at once; 0 lifts the cap")
    ] = None
    array: Annotated[
        str,
        Meta(max_length=65_536),
        says("Indices such as `0-99`, `1,3,5-20:5` or `0-999%16` (at most 16 at once)"),
    ] = ""
    parameters: Annotated[Parameters | None, says("A sweep instead of an array")] = None
    retries: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        says("How often it is tried again; 0, or 3 where `restart` is given"),
    ] = None
    restart: Annotated[
        RestartPolicy | None, says("When it is tried again; `on-failure` unless given")
    ] = None
    retry_on: Annotated[
        list[int | str],
        Meta(max_length=300),
        says("Only after these exit codes or causes; empty: any failure"),
    ] = []
    backoff_s: Annotated[
        Seconds | None,
        says("Wait before the first retry, doubled each time; 1, or 60 with `restart` alone"),
    ] = None
    labels: Annotated[dict[str, str], says("Words to find it by")] = {}
    hold: Annotated[bool, says("Held until it is released")] = False
    qos: Annotated[
        ServiceClass,
        says("How firm its claim is: `guaranteed` never gives way, `best-effort` always does"),
    ] = ServiceClass.BURSTABLE
    deadline_at: Annotated[
        Seconds | str, says("When it should be done: seconds since 1970, or 2026-11-15T18:00:00Z")
    ] = 0
    promise: Annotated[
        bool,
        says("Whether `deadline_at` is to be promised: room is kept for it, or it is refused"),
    ] = False
    estimate_s: Annotated[
        Seconds, says("How long it will probably run; 0: as long as its limit")
    ] = 0
    preemptible: Annotated[bool, says("May give way to more urgent jobs")] = False
    preempt_mode: Annotated[
        PreemptMode | None, says("How it gives way; null: as the policy says")
    ] = None
    preempt_retries: Annotated[
        Annotated[int, Meta(ge=0, le=1000)],
        says("How often it comes back after it gave way; `retries` are not used up by that"),
    ] = 100
    checkpoint_signal: Annotated[
        Short, says("Sent before TERM when it must give way or its time is over, such as `USR1`")
    ] = ""
    save_signal: Annotated[
        Short, says("Sent when it shall save its work and go on, such as `USR2`")
    ] = ""
    save_every_s: Annotated[
        Seconds, says("Seconds between two requests to save its work; 0: only when a user asks")
    ] = 0
    warn_signal: Annotated[
        Short, says("Sent once before its time limit is over, such as `USR1`; needs `warn_s`")
    ] = ""
    warn_s: Annotated[Seconds, says("Seconds before the limit at which `warn_signal` is sent")] = 0
    restart_cost_s: Annotated[
        Seconds, says("What a restart costs it beyond lost work; dear jobs give way last")
    ] = 0
    type: Annotated[JobType, says("What kind of work it is, for quotas by type")] = ""
    bundle: Annotated[Short, says("The sha256 of a working folder put to `/bundles/`")] = ""
    image: Annotated[Line, says("A container image; its node has podman or apptainer")] = ""
    licenses: Annotated[
        Words, says("Licences of the site that it holds while it runs: `matlab:2`")
    ] = []
    ports: Annotated[
        Words, says("Names of ports: each task finds a free one as `ROTA_PORT_NAME`")
    ] = []
    health: Annotated[
        HealthRequest | None, says("How its tasks are asked whether they are well; null: not")
    ] = None
    pty: Annotated[
        bool, says("On a pseudo-terminal that its owner can attach to; both outputs become one")
    ] = False
    notify: Annotated[
        Words,
        says(
            "Whom to tell of what happens to it: `https://HOST/PATH`, `mail:ADDRESS` or "
            "`NAME:ADDRESS`, each with its events behind it (`,on=started,failed`); else its end"
        ),
    ] = []


class BatchRequest(Strict):
    """Several jobs: all of them are taken, or none."""

    jobs: Annotated[list[JobRequest], Meta(min_length=1, max_length=10_000)]


JobAction = Literal[
    "cancel", "hold", "release", "requeue", "retry", "retry-failed", "suspend", "resume"
]


class JobPatch(Strict):
    """What may be changed of a job that exists. Absent fields stay as they are."""

    name: str | None = None
    priority: Annotated[int, Meta(ge=0, le=100)] | str | None = None
    time_limit_s: Seconds | None = None
    grace_s: Annotated[
        Seconds | None, says("For later attempts: one that runs keeps what it was launched with")
    ] = None
    scheduling_timeout_s: Seconds | None = None
    command: list[str] | str | None = None
    workdir: Line | None = None
    output: Line | None = None
    error: Line | None = None
    variables: dict[str, str] | None = None
    resources: ResourcesPatch | None = None
    queue: Short | None = None
    project: Short | None = None
    begin_at: Seconds | str | None = None
    depends_on: Annotated[list[DependencyRequest], Meta(max_length=10_000)] | None = None
    depends_any: bool | None = None
    keep_waiting: bool | None = None
    retries: Annotated[int, Meta(ge=0, le=1000)] | None = None
    labels: dict[str, str] | None = None
    tasks: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    min_tasks: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    nodes: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    constraints: Words | None = None
    node_list: Words | None = None
    exclude: Words | None = None
    tolerate: Words | None = None
    near: Words | None = None
    apart: Words | None = None
    topology: Short | None = None
    exclusive: bool | None = None
    data: Words | None = None
    #: An empty text lets it go anywhere again.
    cluster: Short | None = None
    engine: Short | None = None
    vdc: Short | None = None
    qos: ServiceClass | None = None
    #: An empty text or 0 takes the deadline away.
    deadline_at: Seconds | str | None = None
    estimate_s: Seconds | None = None
    preemptible: bool | None = None
    preempt_mode: PreemptMode | None = None
    preempt_retries: Annotated[int, Meta(ge=0, le=1000)] | None = None
    checkpoint_signal: Short | None = None
    #: An empty text, and 0 seconds, take these two away.
    save_signal: Short | None = None
    save_every_s: Seconds | None = None
    restart_cost_s: Seconds | None = None
    type: JobType | None = None
    notify: Words | None = None
    #: The cap of an array, or of the group that the job belongs to; 0 lifts it.
    max_concurrent: Whole | None = None
    hold: bool | None = None
    #: `retry` puts a running job back; of an ended one it makes a new job. `retry-failed`, alone,
    #: makes a new array of the elements of an array that failed.
    action: JobAction | None = None


class SelectRequest(Strict):
    """Which jobs: by id, all that the caller may change, or those of one user."""

    ids: Annotated[list[JobRef], Meta(max_length=10_000)] = []
    all: bool = False
    user: Short = ""
    #: For ``:requeue``: hold them in the queue.
    hold: bool = False


class TokenRequest(Strict):
    """A network credential for somebody; by default for the caller, with the role ``user``."""

    user: Short = ""
    access: Access = Access.USER
    note: Annotated[str, Meta(max_length=200)] = ""
    #: How long it is valid, in seconds; 0: for ever. Left out: a day for a join token, else ever.
    expires_s: Seconds | None = None
    #: Of a join token (``agent``): how many nodes may join with it; 0: any number, left out: one.
    uses: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    #: Of a join token: each of its nodes waits until an operator approves it.
    approve: bool = False
    #: For jobs of this project and for nothing else; its quota is the budget.
    project: Short = ""


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
        except RecursionError:
            raise Malformed("the body is not JSON that anybody means: nested too deeply") from None
        except UnicodeDecodeError:
            raise Malformed("the body is not JSON: it is not valid UTF-8") from None


decode_job = Body(JobRequest)
decode_batch = Body(BatchRequest)
decode_patch = Body(JobPatch)
decode_select = Body(SelectRequest)
