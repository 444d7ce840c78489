"""From a pod to what became of its attempt: a table without a clock.

========================================== ====================================================
the pod                                    its attempt
========================================== ====================================================
container ended, exit code N               ended with N; 129 to 192: died of signal N - 128
... OOMKilled                              out of memory
... StartError, ContainerCannotRun         start failed, for the job's sake
... ContainerStatusUnknown                 node lost, and nobody knows how it ended
... and Kubernetes says why it made way    preempted, or node lost, also with 0
... not 0, after the pod was deleted       node lost, unless Rota asked for it: that comes first
failed: DeadlineExceeded                   time limit
failed: OutOfcpu, NodeAffinity, ...        start failed, for the node's sake
failed: Evicted, NodeLost, others          node lost
deleted, never on a node, or confirmed     start failed, for the node's sake; node lost if it ran
deleted, overdue, on a node that is lost   the same
container runs                             running
pending                                    waiting, with the scheduler's or the kubelet's words
========================================== ====================================================
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lightkube.models.core_v1 import ContainerState, PodStatus
from lightkube.models.meta_v1 import ObjectMeta

from rota.backends.api import EngineJob, EnginePhase
from rota.backends.kubernetes.client import CONTAINER
from rota.backends.kubernetes.objects import HOPELESS, KEY
from rota.backends.orders import parse_key
from rota.core.facts.states import Blame, Cause

if TYPE_CHECKING:
    from collections.abc import Collection

    from lightkube.models.core_v1 import ContainerStateTerminated, PodCondition
    from lightkube.resources.core_v1 import Pod

    from rota.backends.orders import Key

#: The container could not be made of what the job named.
_BAD_STARTS = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
#: The node would not have it, after the scheduler had sent it there.
_NOT_TAKEN = frozenset(
    {
        *("NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage"),
        *("UnexpectedAdmissionError", "TopologyAffinityError", "NodePorts", "Outofnvidia.com/gpu"),
    }
)
#: Kubernetes tries these again for ever.
_HOPELESS = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("ImageInspectError", "CreateContainerConfigError", "CreateContainerError"),
        *("RunContainerError", "CrashLoopBackOff"),
    }
)
#: A kubelet that has removed a container before it told of its end makes up a code for it.
_FORGOTTEN = "ContainerStatusUnknown"
#: How it ends that is told to.
_STOPPED = (137, 143)
#: The most that two clocks of one cluster may differ.
SKEW = timedelta(seconds=30)
_DELETED = "the pod was deleted in Kubernetes"


class _Facts(NamedTuple):
    """The parts of a pod that the table reads."""

    meta: ObjectMeta
    status: PodStatus
    state: ContainerState
    node: str

    @property
    def asked_at(self) -> datetime | None:
        """When somebody asked for its deletion; None: nobody did."""
        if self.meta.deletionTimestamp is None:
            return None
        return self.meta.deletionTimestamp - timedelta(
            seconds=self.meta.deletionGracePeriodSeconds or 0
        )

    @property
    def confirmed(self) -> bool:
        """Whether only our finalizer keeps it: its kubelet let go, or it was removed by force."""
        return self.asked_at is not None and not self.meta.deletionGracePeriodSeconds


def key_of(pod: Pod) -> Key | None:
    notes = (pod.metadata or ObjectMeta()).annotations or {}
    return parse_key(notes.get(KEY, ""))


def job_of(pod: Pod, key: Key, lost_nodes: Collection[str] = ()) -> EngineJob:
    """``lost_nodes``: machines that Kubernetes does not hear any more."""
    facts = _facts(pod)
    common: dict[str, Any] = {
        "uid": key.uid,
        "id": facts.meta.name or "",
        "node": facts.node,
        "submitted_s": _seconds(facts.meta.creationTimestamp),
    }
    ended = facts.state.terminated
    if ended is not None and ended.reason != _FORGOTTEN:
        return EngineJob(**common, phase=EnginePhase.ENDED, **_end(facts, ended))
    if ended is not None or facts.status.phase in ("Failed", "Succeeded"):
        return EngineJob(**common, phase=EnginePhase.ENDED, **_failure(facts))
    gone = facts.asked_at is not None and (not facts.node or facts.node in lost_nodes)
    if gone or facts.confirmed:
        return EngineJob(**common, phase=EnginePhase.ENDED, **_vanished(facts))
    if facts.state.running is not None:
        began_s = _seconds(facts.state.running.startedAt)
        return EngineJob(**common, phase=EnginePhase.RUNNING, started_s=began_s)
    return EngineJob(**common, phase=EnginePhase.WAITING, reason=_why_it_waits(facts))


def is_overdue(pod: Pod, now_s: float, slack_s: float) -> bool:
    """Whether it should have gone by now: its node may be lost."""
    due = (pod.metadata or ObjectMeta()).deletionTimestamp
    return due is not None and now_s > _seconds(due) + slack_s


def is_hopeless(pod: Pod) -> str:
    """Why its container cannot be made, however often it is tried; empty: it may yet be."""
    facts = _facts(pod)
    waiting = facts.state.waiting
    if waiting is None or waiting.reason not in _HOPELESS or facts.asked_at is not None:
        return ""
    return _why_it_waits(facts)


def _facts(pod: Pod) -> _Facts:
    status = pod.status or PodStatus()
    # The site may put containers of its own beside ours.
    ours = [one for one in status.containerStatuses or [] if one.name == CONTAINER]
    state = ours[0].state if ours else None
    node = pod.spec.nodeName if pod.spec is not None else None
    return _Facts(pod.metadata or ObjectMeta(), status, state or ContainerState(), node or "")


def _end(facts: _Facts, ended: ContainerStateTerminated) -> dict[str, Any]:
    code, reason = ended.exitCode, ended.reason or ""
    told: dict[str, Any] = {
        "started_s": _seconds(ended.startedAt),
        "ended_s": _seconds(ended.finishedAt),
    }
    message = ended.message or facts.status.message or ""
    if reason in _BAD_STARTS:
        bad = {"cause": Cause.START_FAILED, "fault": Blame.JOB, "detail": message or reason}
        return told | {"started_s": 0.0} | bad
    told |= {"signal": code - 128} if 128 < code <= 192 else {"code": code}
    if reason == "OOMKilled":
        return told | {"cause": Cause.OUT_OF_MEMORY, "detail": "OOMKilled"}
    if facts.status.reason == "DeadlineExceeded":
        return told | {"cause": Cause.TIME_LIMIT, "detail": message}
    failed = facts.status.phase == "Failed" and facts.status.reason
    if failed or _disruption(facts):
        # Also with 0: so ends what makes way when it is told to.
        return told | _moved(facts, _words(facts) or reason)
    if code and _ended_by_deletion(facts, ended):
        return told | {"cause": Cause.NODE_LOST, "detail": _DELETED}
    return told


def _ended_by_deletion(facts: _Facts, ended: ContainerStateTerminated) -> bool:
    asked_at = facts.asked_at
    if asked_at is None or ended.finishedAt is None:
        return asked_at is not None
    # The clock of a node may be behind that of the server.
    late = SKEW if ended.exitCode in _STOPPED else timedelta()
    return ended.finishedAt >= asked_at - late


def _disruption(facts: _Facts) -> PodCondition | None:
    """Why Kubernetes itself ended it, where the version says so."""
    conditions = facts.status.conditions or []
    return next(
        (c for c in conditions if c.type == "DisruptionTarget" and c.status == "True"), None
    )


def _moved(facts: _Facts, words: str) -> dict[str, Any]:
    """It made way, for another pod or for what befell its node."""
    told = _disruption(facts)
    if told is None:
        return {"cause": Cause.NODE_LOST, "detail": words}
    words = told.message or words or told.reason or ""
    preempted = told.reason == "PreemptionByScheduler"
    return {"cause": Cause.PREEMPTED if preempted else Cause.NODE_LOST, "detail": words}


def _failure(facts: _Facts) -> dict[str, Any]:
    """It is over, and no container says how."""
    reason = facts.status.reason or ""
    otherwise = "the pod has failed" if facts.asked_at is None else _DELETED
    words = _words(facts) or otherwise
    told: dict[str, Any] = {"ended_s": _last_seconds(facts), "detail": words}
    if reason in _NOT_TAKEN:
        return told | {"cause": Cause.START_FAILED, "fault": Blame.NODE}
    # A kubelet drops the status of a container when it removes it: it may well have run.
    told["started_s"] = _seconds(facts.status.startTime)
    if reason == "DeadlineExceeded":
        return told | {"cause": Cause.TIME_LIMIT}
    return told | _moved(facts, words)


def _vanished(facts: _Facts) -> dict[str, Any]:
    """It goes or has gone without a word of its node."""
    running = facts.state.running
    told: dict[str, Any] = {"ended_s": _seconds(facts.asked_at)}
    if running is not None:
        words = f"{_DELETED}, and node {facts.node} has not said how it ended"
        return told | {"started_s": _seconds(running.startedAt)} | _moved(facts, words)
    hopeless = (facts.meta.annotations or {}).get(HOPELESS)
    fault = Blame.JOB if hopeless else Blame.NODE
    words = hopeless or f"{_DELETED} before it was started"
    return told | {"cause": Cause.START_FAILED, "fault": fault, "detail": words}


def _why_it_waits(facts: _Facts) -> str:
    waiting = facts.state.waiting
    if waiting is not None and waiting.reason:
        return f"{waiting.reason}: {waiting.message}".removesuffix(": None").rstrip(": ")
    for condition in facts.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason or "not scheduled yet"
    return f"on its way to node {facts.node}" if facts.node else "not scheduled yet"


def _words(facts: _Facts) -> str:
    return f"{facts.status.reason or ''}: {facts.status.message or ''}".strip(": ")


def _last_seconds(facts: _Facts) -> float:
    return max((_seconds(c.lastTransitionTime) for c in facts.status.conditions or []), default=0.0)


def _seconds(at: datetime | None) -> float:
    if at is None:
        return 0.0
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
