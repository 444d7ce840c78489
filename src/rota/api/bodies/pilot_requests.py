"""The bodies of requests about pilots."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from rota.api.bodies.mib import TakesMib
from rota.api.bodies.request_fields import BIG, Line, says
from rota.api.bodies.site_requests import SiteStrict

Count = Annotated[int, Meta(ge=0, le=BIG)]
Much = Annotated[float, Meta(ge=0, le=1_000_000_000)]
Labels = Annotated[dict[str, str], Meta(max_length=64)]


PilotKind = Literal["kubernetes", "slurm"]
PilotAllocationPhase = Literal["asked for", "waiting", "running", "starting", "up", "ended"]


class PilotRequest(TakesMib, SiteStrict):
    """How allocations of an engine are asked for when jobs wait."""

    kind: Annotated[PilotKind, says("The kind of its engine")]
    most: Annotated[Count, says("How many at a time, those that wait in the engine included")] = 4
    time_s: Annotated[Count, says("An allocation ends after this time")] = 3600
    idle_s: Annotated[Count, says("It is let go when nothing ran in it for this time")] = 30
    cpus: Annotated[Much, says("CPUs of one; 0: a whole node of the engine")] = 0
    memory_mib: Annotated[Count | UnsetType, says("Memory of one, in MiB")] = UNSET
    memory_mb: Count = 0
    gpus: Annotated[Count, says("GPUs of one")] = 0
    gpu_type: Annotated[Line, says("Their model")] = ""
    price_per_hour: Annotated[Much, says("What one costs in an hour")] = 0
    spend_per_hour: Annotated[Much, says("What all may cost in an hour; 0: no bound")] = 0
    unlimited: Annotated[bool, says("Jobs without a time limit may start in one")] = False
    labels: Annotated[Labels, says("Of its nodes")] = {}  # noqa: RUF012
    url: Annotated[Line, says("Where its agents reach the controller")] = ""
    program: Annotated[Line, says("The program `rota` on its nodes")] = ""
    engine: Annotated[dict[str, Any], says("Keys of [engines.NAME]")] = {}  # noqa: RUF012


class PilotPatch(TakesMib, SiteStrict):
    """Absent fields stay as they are."""

    most: Count | None = None
    time_s: Count | None = None
    idle_s: Count | None = None
    cpus: Much | None = None
    memory_mib: Count | None = None
    memory_mb: Count | None = None
    gpus: Count | None = None
    gpu_type: Line | None = None
    price_per_hour: Much | None = None
    spend_per_hour: Much | None = None
    unlimited: bool | None = None
    labels: Labels | None = None
    url: Line | None = None
    program: Line | None = None
    engine: dict[str, Any] | None = None


class AllocationState(SiteStrict):
    """One allocation, as its engine shows it."""

    node: Line
    id: Line
    state: PilotAllocationPhase
    reason: Annotated[str, Meta(max_length=2000)]
    since_s: Annotated[float, Meta(ge=0)]


class PilotStateRequest(SiteStrict):
    """How the allocations fare, and what keeps more from being asked for."""

    allocations: Annotated[list[AllocationState], Meta(max_length=10_000)]
    problem: Annotated[str, Meta(max_length=2000)] = ""


class OfferRequest(SiteStrict):
    """A node that could be had."""

    cpu_milli: Count
    memory_mib: Count
    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    gpu_type: Line = ""
    labels: Labels = {}  # noqa: RUF012 - structs copy it
    user: Annotated[Line, says("It starts the jobs of this user only; empty: of all")] = ""
    time_s: Annotated[Count, says("How long it would be there; 0: for ever")] = 0
    unlimited: bool = False


class DemandRequest(SiteStrict):
    """Nodes that could be had, and what the caller knows already."""

    offers: Annotated[list[OfferRequest], Meta(max_length=100)]
    version: Annotated[Line, says("Of the answer before; empty: answer at once")] = ""
    timeout_s: Annotated[float, Meta(ge=0, le=60)] = 0
    jobs_max: Annotated[int, Meta(ge=1, le=BIG), says("More equal jobs are a number")] = 1000
