"""From the log to what people are told: which events tell of what, and in which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.changes import events as ev
from rota.core.changes import gpu_events as gpu
from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.words.units import format_mib, format_when

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Outcome

#: What is told: the name of the event and what else there is to say about it.
Told = tuple[str, dict[str, Any]]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to one job, a node or a quota, as every receiver gets it."""

    #: The same whenever it is sent again: receivers can drop repeats by it.
    id: str
    event: str
    #: Its place in the log: later events have higher numbers.
    seq: int
    at: str
    actor: str
    job: dict[str, Any]
    detail: dict[str, Any]
    #: The same in a line for people; chat services show this field of a webhook.
    text: str
    at_s: float
    #: The node that it is about, or the user or project; both empty: it is about a job.
    node: str = ""
    account: str = ""

    @classmethod
    def of(cls, record: Recorded, cluster_id: str, event: str, **facts: Any) -> Notice:
        """Of one record, by the name that receivers know the event by."""
        return cls(
            id=f"{cluster_id}-{record.seq}-{event}",
            event=event,
            seq=record.seq,
            at=format_when(record.at_s),
            actor=record.actor,
            at_s=record.at_s,
            **facts,
        )

    @property
    def about(self) -> str:
        if self.account:
            return self.account
        return f"node {self.node}" if self.node else f"job {self.job['id']}"


def telling(record: Recorded) -> list[Told]:
    """What an event of the log tells about its job; mostly nothing."""
    rule = TELLING.get(type(record.event))
    return rule(record.event) if rule is not None else []


def subject(event: ev.AnyEvent) -> int:
    """The job or array that an event which tells something is about."""
    found: int = getattr(event, "job", 0) or getattr(event, "array", 0)
    return found


def round_of(event: ev.AttemptStarted | ev.AttemptEnded) -> str:
    """All tasks of a job that start together have attempts of the same number."""
    return event.uid.rpartition(".")[2].partition("-")[0]


def _submitted(event: ev.JobSubmitted | ev.ArraySubmitted) -> list[Told]:
    told: list[Told] = [("submitted", {})]
    if event.held:
        told.append(("held", {}))
    if event.eligible:
        told.append(("eligible", {}))
    return told


def _array_changed(event: ev.ArrayChanged) -> list[Told]:
    told: list[Told] = []
    if event.held is not None:
        told.append(("held" if event.held else "released", {}))
    if event.eligible:
        told.append(("eligible", {}))
    return told


def _started(event: ev.AttemptStarted | ev.AttemptEnded) -> list[Told]:
    """An end tells of the start as well, when nothing else did: see ``Collector``."""
    return [("started", {"started_at": format_when(event.started_s)})] if event.started_s else []


def _requeued(event: ev.JobRequeued) -> list[Told]:
    told: list[Told] = [("requeued", {"why": "returned" if event.kept else "asked"})]
    return [*told, ("held", {})] if event.held else told


def _retried(event: ev.JobRetried) -> list[Told]:
    more = {"detail": event.detail} if event.detail else {}
    again = {"why": "retry", "cause": event.cause, "next_try_at": format_when(event.not_before_s)}
    return [("requeued", again | more)]


def _ended(event: ev.JobSettled | ev.ArrayCancelled) -> list[Told]:
    return [(str(event.outcome.state), _outcome(event.outcome))]


def _outcome(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {"cause": outcome.cause, "exit_code": outcome.exit_code}
    if outcome.signal:
        found["signal"] = outcome.signal
    if outcome.detail:
        found["detail"] = outcome.detail
    return found


def _overused(event: gpu.GpuOverused) -> list[Told]:
    asked = f"asked for {format_mib(event.declared_mib)}" if event.declared_mib else "not given"
    words = f"it holds {format_mib(event.memory_mib)} on GPU {event.device}, {asked}"
    figures = {"gpu": event.device, "memory_mib": event.memory_mib}
    return [("gpu_overuse", {**figures, "declared_mib": event.declared_mib, "detail": words})]


def _idle(event: gpu.GpuIdle) -> list[Told]:
    listed = ",".join(map(str, event.devices))
    since = format_when(event.since_s)
    words = f"GPU {listed} has done nothing since {since}"
    return [("gpu_idle", {"gpus": list(event.devices), "since": since, "detail": words})]


TELLING: dict[type, Callable[[Any], list[Told]]] = {
    ev.JobSubmitted: _submitted,
    ev.ArraySubmitted: _submitted,
    ev.ArrayChanged: _array_changed,
    ev.JobEligible: lambda _: [("eligible", {})],
    ev.JobHeld: lambda _: [("held", {})],
    ev.JobReleased: lambda _: [("released", {})],
    ev.AttemptStarted: _started,
    ev.AttemptEnded: _started,
    ev.JobPreempted: lambda _: [("preempted", {})],
    ev.JobRequeued: _requeued,
    ev.JobRetried: _retried,
    ev.JobSettled: _ended,
    ev.ArrayCancelled: _ended,
    gpu.GpuOverused: _overused,
    gpu.GpuIdle: _idle,
    ev.DeadlineMissed: lambda _: [("deadline_missed", {})],
    ev.PromiseBroken: lambda event: [("promise_broken", {"detail": event.note})],
}


def make_notice(record: Recorded, told: Told, item: Job | Array, cluster_id: str) -> Notice:
    """What to send. Facts about the job are as of now, those in ``detail`` as of the event."""
    event, detail = told
    facts = _facts(item)
    number = facts["id"]
    if isinstance(item, Job) and item.array_id:
        number = f"{item.array_id}_{item.array_index}"
    kind = "array" if isinstance(item, Array) else "job"
    why = detail.get("detail") or (detail.get("cause", "") if event != "completed" else "")
    return Notice.of(
        record,
        cluster_id,
        event,
        job=facts,
        detail=detail,
        text=f"{kind} {number} ({facts['name']}) of {facts['user']}: {_WORDS.get(event, event)}"
        + (f", {why}" if why else ""),
    )


_WORDS = {
    "eligible": "waits for room",
    "requeued": "back in the queue",
    "gpu_overuse": "holds more GPU memory than it asked for",
    "gpu_idle": "has GPUs that do nothing",
    "deadline_missed": "is not done, and its deadline has passed",
    "promise_broken": "cannot be done by its deadline, though that was promised",
    "timeout": "stopped at its time limit",
    "node_failed": "lost its node",
    "unschedulable": "given up without a start",
}


def _facts(item: Job | Array) -> dict[str, Any]:
    spec = item.spec
    facts: dict[str, Any] = {
        "id": item.id,
        "uid": item.uid,
        "name": spec.name,
        "user": spec.user,
        "project": spec.project,
        "queue": spec.queue,
        "priority": spec.priority,
        "labels": spec.labels,
        "tasks": spec.task_count,
        "submitted_at": format_when(item.submitted_s),
    }
    if isinstance(item, Array):
        return facts | {"array_id": item.id, "count": item.count}
    name = spec.name
    for key, value in item.parameters.items():
        name = name.replace(f"{{{key}}}", value)
    nodes = [attempt.allocation.node for attempt in item.round]
    return facts | {
        "name": name,
        "array_id": item.array_id or None,
        "array_index": item.array_index if item.array_id else None,
        "started_at": format_when(item.started_s) if item.started_s else None,
        "ended_at": format_when(item.ended_s) if item.ended_s else None,
        "nodes": list(dict.fromkeys(nodes)),
    }


_encode = msgspec.json.Encoder().encode


def encode_notice(notice: Notice) -> bytes:
    """The body of a webhook."""
    about = "account" if notice.account else "node" if notice.node else "job"
    left_out = {"at_s", "account", "node", "job"} - {about}
    names = [name for name in notice.__struct_fields__ if name not in left_out]
    fields = {name: getattr(notice, name) for name in names}
    return _encode(fields)
