"""The bodies of requests about the site: reservations, accounts, quotas, rules, marks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.api.bodies.mib import TakesMib
from rota.api.bodies.queue_requests import QueueRequest
from rota.api.bodies.request_fields import BIG, JobType, Line, Seconds, Short, Words, says
from rota.core.derived.usage import DAY_S, DAYS_KEPT

Ceiling = Annotated[int, Meta(ge=0, le=BIG)] | UnsetType | None
Index = Annotated[int, Meta(ge=0, le=65_535)]
Index64 = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Pids = Annotated[list[Annotated[int, Meta(ge=1, le=BIG)]], Meta(max_length=1000)]
Shares = Annotated[int, Meta(ge=0, le=1_000_000)]
Amount = Annotated[float, Meta(ge=0, le=1_000_000_000)]


class SiteStrict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of all bodies: a field that does not exist is refused, never ignored."""


class DrainRequest(SiteStrict):
    """Why a node takes no new work, and what becomes of the work that it has."""

    note: Annotated[str, Meta(max_length=500)] = ""
    migrate: Annotated[
        bool, says("Its jobs go on elsewhere as soon as their work is saved; else they finish")
    ] = False
    deadline_at: Annotated[
        Seconds | str,
        says("What is still there then is put back into the queue: seconds since 1970, or a time"),
    ] = 0


class LimitsRequest(
    TakesMib,
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
):
    """Ceilings; null: none. Absent ones stay as they are."""

    jobs: Annotated[Ceiling, says("Jobs that hold room at once")] = UNSET
    queued: Annotated[Ceiling, says("Jobs that wait")] = UNSET
    cpus: Annotated[Amount | UnsetType | None, says("CPUs at once")] = UNSET
    memory_mib: Annotated[Ceiling, says("Memory at once, in MiB")] = UNSET
    memory_mb: Ceiling = UNSET
    gpus: Annotated[Amount | UnsetType | None, says("GPUs at once")] = UNSET
    gpu_hours: Annotated[
        Amount | UnsetType | None,
        says("GPU-hours within `period_s`"),
    ] = UNSET
    cost: Annotated[
        Amount | UnsetType | None,
        says("Money within `period_s`, by the prices of the policy"),
    ] = UNSET


class QuotaRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """What an account may hold. Absent fields stay as they are."""

    hard: Annotated[LimitsRequest, says("Never exceeded")] = LimitsRequest()
    soft: Annotated[LimitsRequest, says("Beyond it room is borrowed, and given back")] = (
        LimitsRequest()
    )
    types: Annotated[
        dict[str, LimitsRequest | None],
        says("Hard limits by type of job: training, inference, workflow; null takes one away"),
    ] = {}
    borrow: Annotated[bool | None, says("Whether more than `soft` may be borrowed at all")] = None
    period_s: Annotated[
        Annotated[int, Meta(ge=3600, le=DAYS_KEPT * DAY_S)] | None,
        says("The period of `gpu_hours` and `cost`, up to 366 days"),
    ] = None


class NewQueueRequest(QueueRequest, kw_only=True):
    """A queue that is not there yet."""

    name: Short


class ProjectRequest(SiteStrict):
    """A project as it shall be."""

    parent: Annotated[Short, says("The project above it; empty: none")] = ""
    shares: Annotated[Shares, says("Its weight among its neighbours")] = 1
    quota: Annotated[QuotaRequest, says("What all jobs of it and below it may hold")] = (
        QuotaRequest()
    )
    members: Annotated[list[Short], says("Whose jobs may count for it; empty: everybody's")] = []


class ProjectPatch(SiteStrict):
    """What shall change of a project. Absent fields stay as they are."""

    parent: Short | None = None
    shares: Shares | None = None
    quota: QuotaRequest | None = None
    #: False keeps the limits on record and lets nothing wait for them.
    enforce_quota: bool | None = None
    members: list[Short] | None = None


class UserPatch(SiteStrict):
    """Shares, quota and role of a user. Absent fields stay as they are."""

    shares: Shares | None = None
    quota: QuotaRequest | None = None
    #: What the user may do on the local socket. For admins.
    role: Literal["admin", "operator", "user", "viewer"] | None = None


class ProjectQuotaPatch(SiteStrict):
    """The hard limits of a project in the older words; null: no limit, absent: as it is."""

    cpu_quota: Amount | UnsetType | None = UNSET
    #: In GiB.
    memory_quota: Amount | UnsetType | None = UNSET
    gpu_quota: Amount | UnsetType | None = UNSET
    max_concurrent_jobs: Ceiling = UNSET
    #: How many jobs of a type may run at once.
    job_types: dict[str, Annotated[int, Meta(ge=0, le=BIG)] | None] = {}
    enforce_quota: bool | None = None


class QuotaQuestion(SiteStrict):
    """What a job would ask for, in all its tasks."""

    cpu: Amount = 0.0
    #: In GiB.
    memory_gb: Amount = 0.0
    gpu: Amount = 0.0
    job_type: JobType = ""


class ReservationRequest(SiteStrict):
    """Room for somebody from when to when: exactly one of `gpus`, `devices` and `nodes`.

    `nodes` beside `gpus` says where the GPUs are to be.
    """

    gpus: Annotated[
        int, Meta(ge=0, le=100_000), says("How many GPUs, wherever they are (or on `nodes`)")
    ] = 0
    gpu_type: Annotated[Short, says("Only of this model")] = ""
    node: Annotated[Short, says("The node of `devices`")] = ""
    devices: Annotated[
        list[Annotated[int, Meta(ge=0, le=100_000)]],
        Meta(max_length=10_000),
        says("These GPUs, by their index on `node`"),
    ] = []
    nodes: Annotated[Words, says("Whole nodes")] = []
    user: Annotated[Short, says("For this user")] = ""
    project: Annotated[Short, says("For the jobs of this project")] = ""
    maintenance: Annotated[bool, says("For nobody: nothing may run there then")] = False
    start_at: Annotated[
        Seconds | str,
        says("Seconds since 1970, `2026-11-15T18:00:00Z`, `18:00`, `tomorrow 9:00`; 0: now"),
    ] = 0
    duration_s: Annotated[Seconds, says("How long; or give `end_at`")] = 0
    end_at: Annotated[Seconds | str, says("When it ends, likewise")] = 0
    zone: Annotated[
        Short, says("The time zone of times without one, such as Europe/Berlin; empty: UTC")
    ] = ""
    note: Annotated[str, Meta(max_length=500), says("What it is for")] = ""
    job_id: Annotated[
        Index64 | str,
        says("Keep `gpu_ids` for this job, until it has ended; goes with no other field"),
    ] = 0
    gpu_ids: Annotated[Words, says("GPUs, each by its uuid or as NODE:INDEX")] = []


class PolicyRequest(SiteStrict):
    """Rules to change: those of a named policy first, then single ones."""

    policy: Annotated[Short, says("A named policy such as `fifo`, `easy` or `preemptive`")] = ""
    rules: Annotated[
        dict[str, Any],
        says('By their keys, `{"order.primary": "wfp3"}`, or in tables as GET shows them'),
    ] = {}


class ReplayRequest(PolicyRequest):
    """Rules to try on the jobs of the last days."""

    last_s: Annotated[
        int, Meta(ge=60, le=366 * 86400), says("Jobs that were submitted in this number of seconds")
    ] = 7 * 86400
    jobs: Annotated[int, Meta(ge=1, le=20_000), says("The most jobs, the newest first")] = 5000
    patience_s: Annotated[
        int, Meta(ge=1, le=240), says("A replay that takes longer is given up, with status 409")
    ] = 60


class ApplyRequest(ReplayRequest):
    """Rules to try on the jobs of the last days, and then to set with a guard."""

    guard_s: Annotated[
        int,
        Meta(ge=60, le=366 * 86400),
        says("So long the change is undone when a project waits longer than was foretold"),
    ] = 7 * 86400


class MarkRequest(SiteStrict):
    """Labels, taints, devices and processes of others: absent fields stay as they are."""

    labels: Annotated[dict[str, str | None], says("Labels to set; null takes one away")] = {}
    taints: Annotated[Words, says("Taints to add: `key`, `key=value`, `key=value:avoid`")] = []
    untaint: Annotated[Words, says("Keys of taints to take away")] = []
    devices: Annotated[
        Annotated[list[Index], Meta(max_length=1024)] | Literal["all"] | None,
        says("Indices of the devices that jobs may be given, or `all`; what runs goes on"),
    ] = None
    ignore: Annotated[Pids, says("Pids of processes outside Rota that shall not count")] = []
    unignore: Annotated[Pids, says("Pids that shall count again")] = []


class CheckpointRequest(SiteStrict):
    """When the work was saved, by default now, and what there is to say about it."""

    saved_at: Annotated[
        Seconds | str, says("Seconds since 1970, or 2026-11-15T18:00:00Z; 0: now")
    ] = 0
    data: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=200)]],
        Meta(max_length=100),
        says("Names of data that are ready; jobs may wait for one with `after-data`"),
    ] = []
    step: Annotated[Index64 | None, says("How far the work is: a step, an epoch")] = None
    note: Annotated[str, Meta(max_length=1000), says("Whatever helps to tell it from others")] = ""
    size: Annotated[Index64, says("Its bytes; more than the site takes is refused")] = 0
    path: Annotated[
        str,
        Meta(max_length=1000),
        says("Where it lies below `ROTA_CHECKPOINT_DIR`; what is no longer kept is removed there"),
    ] = ""
    planned: Annotated[
        bool, says("Only ask whether one of this size may be written; nothing is reported")
    ] = False


class ResetRequest(SiteStrict):
    """Whose use is forgotten. Both: of the user in the project; ``all``: of everybody."""

    user: Short = ""
    project: Short = ""
    all: bool = False


class SbatchRequest(SiteStrict):
    """What the command ``sbatch`` of Slurm is given."""

    script: Annotated[str, Meta(max_length=8 << 20), says("The text of the script")]
    options: Annotated[
        list[Line], says("Options as sbatch takes them: `--time=10`, `-n`, `4`; they win")
    ] = []
    args: Annotated[list[str], says("Arguments of the script")] = []
    env: Annotated[dict[str, str], says("The environment of the job")] = {}
    workdir: Annotated[Line, says("The folder that it runs in; an absolute path")] = "/"
    umask: Annotated[int, Meta(ge=0, le=0o777), says("The file mode mask, as a number")] = 0o022
    path: Annotated[Line, says("Where the script lies; its job is called after it")] = ""
    job: Annotated[
        dict[str, Any], says("Fields of `POST /jobs`, which win over the script's lines")
    ] = {}
    alone: Annotated[bool, says("One job: refuse a script that makes an array")] = False


class SecretRequest(SiteStrict):
    """What is in a secret. It cannot be read again."""

    value: Annotated[str, Meta(max_length=131_072), says("What jobs find in the variable")]
