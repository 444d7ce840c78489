"""Where a job is and how it ended, from what Slurm says.

Slurm keeps a wait status: 768 is exit code 3, 9 is signal 9, 139 is signal 11 with a core. It calls
every death by a signal a failed launch; only signal 53, which no process dies of, stands for one.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.backends.api import EngineJob, EnginePhase
from rota.core.facts.states import Blame, Cause
from rota.hostlist import expand

if TYPE_CHECKING:
    from rota.backends.slurm.records import SlurmRecord

WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
    | {"RESV_DEL_HOLD"}
)
#: By an operator. A user's own hold is what our own submit has for a moment.
_HELD = "JobHeldAdmin"
#: Waits for nothing but its own nodes, which it has.
BOOTING = "CONFIGURING"
#: How each end is called here; None: the exit status tells.
ENDS = MappingProxyType(
    {
        "COMPLETED": None,
        "FAILED": None,
        "TIMEOUT": Cause.TIME_LIMIT,
        "DEADLINE": Cause.TIME_LIMIT,
        "NODE_FAIL": Cause.NODE_LOST,
        "BOOT_FAIL": Cause.NODE_LOST,
        "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
        "PREEMPTED": Cause.PREEMPTED,
        "CANCELLED": Cause.CANCELLED,
        "REVOKED": Cause.CANCELLED,
        "LAUNCH_FAILED": Cause.START_FAILED,
        "RECONFIG_FAIL": Cause.START_FAILED,
    }
)
#: The number that slurmstepd gives where it could not start the script.
NOT_STARTED = 53
_DETAILS = MappingProxyType(
    {
        Cause.TIME_LIMIT: "over its time limit in Slurm",
        Cause.NODE_LOST: "Slurm lost its node",
        Cause.OUT_OF_MEMORY: "Slurm ended it for want of memory",
        Cause.PREEMPTED: "preempted by Slurm",
        Cause.CANCELLED: "cancelled in Slurm",
        Cause.START_FAILED: "Slurm could not start it",
    }
)


def as_job(uid: str, record: SlurmRecord) -> EngineJob:
    """What the host of the engine hears of it."""
    nodes = nodes_in(record.nodes)
    node = nodes[0] if nodes else ""
    if record.state not in ENDS:
        waits = record.state in WAITING
        placed = not waits or record.state == BOOTING
        return EngineJob(
            uid=uid,
            id=record.id,
            phase=EnginePhase.WAITING if waits else EnginePhase.RUNNING,
            reason=_waits_for(record) if waits else "",
            held=waits and record.reason.startswith(_HELD),
            node=node if placed else "",
            nodes=tuple(nodes) if placed else (),
            submitted_s=record.submitted_s,
            # Of one that waits Slurm tells when it might start.
            started_s=0.0 if waits else record.started_s,
            restarts=record.restarts,
            user=record.user,
        )
    code, signal = _split(record.status)
    cause = ENDS[record.state]
    if signal == NOT_STARTED:
        cause, code, signal = Cause.START_FAILED, None, 0
    return EngineJob(
        uid=uid,
        id=record.id,
        phase=EnginePhase.ENDED,
        reason=record.reason,
        node=node,
        nodes=tuple(nodes),
        submitted_s=record.submitted_s,
        # One that was cancelled while it waited has the moment of its end there.
        started_s=record.started_s if node else 0.0,
        ended_s=record.ended_s,
        code=code if node else None,
        signal=signal,
        cause=cause,
        detail=_detail(record, cause),
        fault=Blame.NODE if cause is Cause.START_FAILED else None,
        restarts=record.restarts,
        user=record.user,
    )


def _split(status: int | None) -> tuple[int | None, int]:
    if status is None:
        return None, 0
    signal = status & 0x7F
    return (None, signal) if signal else (status >> 8 & 0xFF, 0)


def _waits_for(record: SlurmRecord) -> str:
    return record.reason or ("its nodes boot" if record.state == BOOTING else "")


def _detail(record: SlurmRecord, cause: Cause | None) -> str:
    if cause is None:
        return ""
    by = f" by {record.by}" if record.by and cause is Cause.CANCELLED else ""
    shows = cause in (Cause.START_FAILED, Cause.NODE_LOST) and record.reason
    return f"{_DETAILS[cause]}{by}" + (f": {record.reason}" if shows else "")


def nodes_in(short: str) -> list[str]:
    """The names in a list such as ``n[1-3]``."""
    try:
        return list(expand(short))
    except ValueError:
        return [short]
