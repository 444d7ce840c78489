"""The life of a job, an attempt and a node, as tables. Everything else asks these tables."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from rota.core.facts.errors import IllegalMove


class JobState(StrEnum):
    """Where a job is. The last six are for good."""

    HELD = "held"
    QUEUED = "queued"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    PREEMPTED = "preempted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    NODE_FAILED = "node_failed"
    UNSCHEDULABLE = "unschedulable"


S = JobState

#: Final states: nothing leaves them. A requeue by a person makes a new life of the job (see MOVES).
FINAL = frozenset({S.COMPLETED, S.FAILED, S.CANCELLED, S.TIMEOUT, S.NODE_FAILED, S.UNSCHEDULABLE})
#: States in which a job holds no resources and is not finished.
WAITING = frozenset({S.HELD, S.QUEUED, S.PREEMPTED})
#: States in which a job holds resources.
ACTIVE = frozenset({S.SCHEDULED, S.RUNNING})

#: Every legal move and what may cause it. A move that is not here is a bug in the caller.
MOVES: MappingProxyType[JobState, MappingProxyType[JobState, str]] = MappingProxyType(
    {
        S.HELD: MappingProxyType(
            {
                S.QUEUED: "released",
                S.PREEMPTED: "released, having given way before it was held",
                S.CANCELLED: "cancelled, or a dependency can never be met",
                S.UNSCHEDULABLE: "scheduling timeout",
            }
        ),
        S.QUEUED: MappingProxyType(
            {
                S.HELD: "held",
                S.SCHEDULED: "placed by a pass",
                S.CANCELLED: "cancelled, or a dependency can never be met",
                S.UNSCHEDULABLE: "scheduling timeout, or no node can ever run it",
            }
        ),
        S.SCHEDULED: MappingProxyType(
            {
                S.RUNNING: "the agent reports its process",
                S.QUEUED: "could not be started, retried",
                S.HELD: "requeued and held",
                S.PREEMPTED: "gave way before it started",
                S.COMPLETED: "ended before its start was reported",
                S.FAILED: "could not be started, or ended with a failure",
                S.CANCELLED: "cancelled",
                S.TIMEOUT: "run-time limit",
                S.NODE_FAILED: "the node was lost",
            }
        ),
        S.RUNNING: MappingProxyType(
            {
                S.QUEUED: "retried or requeued",
                S.HELD: "requeued and held",
                S.PREEMPTED: "gave way to a job of higher priority",
                S.COMPLETED: "every task exited with 0",
                S.FAILED: "a task failed",
                S.CANCELLED: "cancelled",
                S.TIMEOUT: "run-time limit",
                S.NODE_FAILED: "the node was lost",
            }
        ),
        S.PREEMPTED: MappingProxyType(
            {
                S.QUEUED: "back in the queue",
                S.HELD: "held",
                S.SCHEDULED: "placed by a pass",
                S.CANCELLED: "cancelled",
                S.UNSCHEDULABLE: "scheduling timeout",
            }
        ),
    }
)


def check_move(job_id: int, before: JobState, after: JobState) -> None:
    """Raise ``IllegalMove`` unless the table lists the move."""
    if after not in MOVES.get(before, {}):
        raise IllegalMove(f"job {job_id}: {before} -> {after} is not a legal move")


class Phase(StrEnum):
    """Where one attempt is. ``placed`` and ``running`` are live: they hold their allocation."""

    PLACED = "placed"
    RUNNING = "running"
    ENDED = "ended"


class Cause(StrEnum):
    """The first cause of an end; closed, so that tools can rely on it."""

    EXIT = "exit"
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"
    PREEMPTED = "preempted"
    START_FAILED = "start_failed"
    NODE_LOST = "node_lost"
    DEPENDENCY = "dependency"
    SCHEDULING_TIMEOUT = "scheduling_timeout"
    PEER_FAILED = "peer_failed"
    SHRUNK = "shrunk"
    BACKFILL_WINDOW = "backfill_window"
    ASSEMBLY_TIMEOUT = "assembly_timeout"
    QUOTA = "quota"
    MIGRATED = "migrated"
    UNHEALTHY = "unhealthy"


class Blame(StrEnum):
    """For whose sake a start failed: only what the job itself named is the job's doing."""

    JOB = "job"
    NODE = "node"


class NodeState(StrEnum):
    """Whether a node takes new work."""

    UP = "up"
    DOWN = "down"
    DRAINED = "drained"


class QueueState(StrEnum):
    """Whether a queue takes and starts jobs."""

    ACTIVE = "active"
    PAUSED = "paused"
    DRAINING = "draining"
    CLOSED = "closed"


class EndedJob(Protocol):
    """How a job ended."""

    @property
    def state(self) -> JobState: ...


def fate(promised: bool, broken_s: float, ended: EndedJob | None) -> str:
    """What became of a promise: ``open``, ``kept``, ``broken``; empty: there is none.

    A job that was cancelled has been let off: there is nothing left to keep.
    """
    if not promised:
        return ""
    if broken_s or ended is None:
        return "broken" if broken_s else "open"
    return "" if ended.state is JobState.CANCELLED else "kept"
