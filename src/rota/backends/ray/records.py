"""What Ray says of jobs, nodes and use, as far as it is read here."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

#: Ray's own resource of every node, by its address.
NODE = "node:"
_HEAD = "node:__internal_head__"
_MODEL = "accelerator_type:"


class RayJob(msgspec.Struct, frozen=True):
    """A job of the job server. Times are milliseconds; it starts when it is taken in."""

    status: str
    #: None: a driver that nobody submitted.
    submission_id: str | None = None
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    @property
    def id(self) -> str:
        return self.submission_id or ""

    @property
    def over(self) -> bool:
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")

    @property
    def started_s(self) -> float:
        return (self.start_time or 0) / 1000

    @property
    def ended_s(self) -> float:
        return (self.end_time or 0) / 1000


class RayAmount(NamedTuple):
    """Processors in thousandths, memory in MiB, devices."""

    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: int = 0

    def plus(self, other: RayAmount) -> RayAmount:
        return RayAmount(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def less(self, other: RayAmount) -> RayAmount:
        return RayAmount(*(max(0, a - b) for a, b in zip(self, other, strict=True)))

    def fits(self, free: RayAmount) -> bool:
        return all(mine <= theirs for mine, theirs in zip(self, free, strict=True))

    def __str__(self) -> str:
        words = [f"{self.cpu_milli / 1000:g} CPU", f"{self.memory_mib} MiB"]
        return ", ".join([*words, f"{self.gpus} GPU"])


class RayNode(msgspec.Struct, frozen=True):
    """A node as Ray's state interface shows it; a dead one may have lost its name."""

    node_id: str
    node_ip: str
    state: str
    node_name: str | None = None
    state_message: str | None = None
    resources_total: dict[str, float] = {}
    labels: dict[str, str] | None = None

    @property
    def alive(self) -> bool:
        return self.state == "ALIVE"

    @property
    def has(self) -> RayAmount:
        return amount_of(self.resources_total)

    @property
    def resource(self) -> str:
        """What binds work to it."""
        own = [r for r in self.resources_total if r.startswith(NODE) and r != _HEAD]
        return own[0] if own else f"{NODE}{self.node_ip}"

    @property
    def model(self) -> str:
        """Of its devices."""
        found = [r.removeprefix(_MODEL) for r in self.resources_total if r.startswith(_MODEL)]
        return found[0] if len(found) == 1 else ""


class RayUse(msgspec.Struct, frozen=True):
    """What is in use of each node, by its id, at one moment of Ray's; Ray writes it every 5 s."""

    at_s: float = 0.0
    used: dict[str, RayAmount] = {}


def amount_of(resources: dict[str, float]) -> RayAmount:
    return RayAmount(
        round(1000 * resources.get("CPU", 0.0)),
        int(resources.get("memory", 0.0)) >> 20,
        int(resources.get("GPU", 0.0)),
    )


class _Load(msgspec.Struct, rename="camel"):
    usage_by_node: dict[str, dict[str, tuple[float, float]]] = {}


class _Status(msgspec.Struct, rename="camel"):
    time: float = 0.0
    load_metrics_report: _Load | None = None


class _Shown(msgspec.Struct, rename="camel"):
    cluster_status: _Status | None = None


class _ClusterStatus(msgspec.Struct):
    data: _Shown


class _Inner(msgspec.Struct):
    result: list[RayNode]
    total: int = 0


class _Outer(msgspec.Struct):
    result: _Inner


class _Nodes(msgspec.Struct):
    data: _Outer


class _Actor(msgspec.Struct):
    state: str


class _ActorList(msgspec.Struct):
    result: list[_Actor]


class _ActorAnswer(msgspec.Struct):
    result: _ActorList


class _Actors(msgspec.Struct):
    data: _ActorAnswer


def nodes_of(body: bytes) -> list[RayNode]:
    return msgspec.json.decode(body, type=_Nodes).data.result.result


def any_alive(body: bytes) -> bool:
    """Whether one of the actors in an answer may still do something."""
    found = msgspec.json.decode(body, type=_Actors).data.result.result
    return any(actor.state != "DEAD" for actor in found)


def use_of(body: bytes) -> RayUse:
    """Empty where this Ray does not say it: with no autoscaler, or with its second version."""
    status = msgspec.json.decode(body, type=_ClusterStatus).data.cluster_status
    load = status.load_metrics_report if status is not None else None
    if status is None or load is None:
        return RayUse()
    rows = load.usage_by_node.items()
    used = {node: {kind: pair[0] for kind, pair in row.items()} for node, row in rows}
    return RayUse(status.time, {node: _rounded_up(row) for node, row in used.items()})


def _rounded_up(used: dict[str, float]) -> RayAmount:
    """A part of a device or of a MiB is one that others cannot have whole."""
    gpus, size = used.get("GPU", 0.0), used.get("memory", 0.0)
    whole = RayAmount(round(1000 * used.get("CPU", 0.0)), int(size) >> 20, int(gpus))
    return whole.plus(RayAmount(0, int(size % (1 << 20) > 0), int(gpus % 1 > 0)))
