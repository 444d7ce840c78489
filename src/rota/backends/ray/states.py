"""From a job's record and the shim's notes to what became of its attempt: a table without a clock.

============================================ ==================================================
Ray says                                     its attempt
============================================ ==================================================
PENDING                                      waiting, in Ray's words
... and nothing in Ray will ever start it    start failed, for the node's sake
RUNNING, the program has not begun           waiting
RUNNING                                      running
SUCCEEDED, FAILED with an exit code          ended with it; below 0: died of that signal
... and the program was not started          start failed, as the notes say
FAILED while it was set up                   start failed, for the node's sake
FAILED, its supervisor was killed            cancelled
FAILED, its node ran out of memory           out of memory
FAILED, its supervisor or its node died      node lost
... and a member of a gang was lost          node lost
STOPPED                                      cancelled, unless Rota asked for it: that comes first
============================================ ==================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rota.backends.api import EngineJob, EnginePhase
from rota.backends.ray.shim import UNSTARTED
from rota.core.facts.states import Blame, Cause

if TYPE_CHECKING:
    from rota.backends.ray.records import RayJob

#: These speak of what Ray does before the program.
_SETUP = frozenset(
    {
        *("RUNTIME_ENV_SETUP_FAILURE", "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"),
        *("JOB_SUPERVISOR_ACTOR_START_FAILURE", "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"),
        "JOB_ENTRYPOINT_COMMAND_START_ERROR",
    }
)
_KILLED, _NO_MEMORY = "killed by `ray.kill`", "low on memory"
ORPHANED = "Ray has taken the job in, and nothing in Ray will ever start it"


class ShimNotes(NamedTuple):
    """What the shim wrote down."""

    started_s: float = 0.0
    ended_s: float = 0.0
    code: int | None = None
    signal: int = 0
    #: Why the program was not started, and for whose sake.
    unstarted: str = ""
    fault: Blame | None = None
    #: Of a gang: why a member is lost, and the ids of the nodes of all by rank.
    lost: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return bool(self.ended_s or self.lost) or self.fault is not None


def parse_notes(body: bytes) -> ShimNotes:
    """Whole lines alone count; what is none of the shim's is passed over."""
    notes = ShimNotes()
    for line in body.decode(errors="replace").split("\n")[:-1]:
        word, _, rest = line.partition(" ")
        first, _, second = rest.partition(" ")
        if word == "unstarted" and first in ("job", "node"):
            notes = notes._replace(unstarted=second, fault=Blame(first))
        elif word == "lost" and rest:
            notes = notes._replace(lost=rest)
        elif word == "member" and second:
            notes = notes._replace(nodes=(*notes.nodes, second))
        elif word == "started" and _is_time(first):
            notes = notes._replace(started_s=float(first))
        elif word in ("exit", "signal") and first.isdecimal() and _is_time(second):
            told: dict[str, Any] = {"code" if word == "exit" else "signal": int(first)}
            notes = notes._replace(ended_s=float(second), **told)
    return notes


def job_of(
    uid: str, job: RayJob, notes: ShimNotes | None, node: str, orphaned: bool = False
) -> EngineJob:
    """``notes``: None: they cannot be read. ``orphaned``: nothing will ever start it."""
    common: dict[str, Any] = {"uid": uid, "id": job.id, "submitted_s": job.started_s}
    if orphaned:
        end = _unstarted(Blame.NODE, ORPHANED)
        return EngineJob(**common, phase=EnginePhase.ENDED, ended_s=job.started_s, **end)
    if job.over:
        return EngineJob(
            **common, node=node, phase=EnginePhase.ENDED, **_end(job, notes or ShimNotes())
        )
    if job.status == "RUNNING" and (notes is None or notes.started_s):
        started_s = notes.started_s if notes is not None else job.started_s
        return EngineJob(**common, node=node, phase=EnginePhase.RUNNING, started_s=started_s)
    told = job.message if job.status == "PENDING" else "its program is being started"
    return EngineJob(**common, phase=EnginePhase.WAITING, reason=_one_line(told or "it waits"))


def _end(job: RayJob, notes: ShimNotes) -> dict[str, Any]:
    """The shim's word on times and status, where there is one; Ray's on everything else."""
    status = _status(job.driver_exit_code)
    if notes.ended_s:
        status = {"code": notes.code, "signal": notes.signal}
    ran = job.driver_node_id is not None and (bool(notes.started_s) or bool(status))
    told: dict[str, Any] = {
        "started_s": notes.started_s or (job.started_s if ran else 0.0),
        "ended_s": notes.ended_s or job.ended_s,
    }
    if notes.fault is not None:
        return told | {"started_s": 0.0} | _unstarted(notes.fault, notes.unstarted)
    if notes.lost:
        return told | {"cause": Cause.NODE_LOST, "detail": notes.lost}
    if job.status == "STOPPED":
        return told | status | {"cause": Cause.CANCELLED, "detail": "stopped in Ray"}
    if job.driver_exit_code == UNSTARTED and not notes.started_s:
        words = "the program was not started, and its node does not say why"
        return told | {"started_s": 0.0} | _unstarted(Blame.NODE, words)
    if job.driver_exit_code is not None:
        return told | status
    return told | _failure(job)


def _failure(job: RayJob) -> dict[str, Any]:
    """It failed, and no process of its own says how."""
    words = job.message or ""
    detail = _one_line(words)
    if job.error_type in _SETUP or job.driver_node_id is None:
        return {"started_s": 0.0} | _unstarted(Blame.NODE, detail)
    # A supervisor has begun its job's program long before anything can happen to it.
    told: dict[str, Any] = {"started_s": job.started_s, "detail": detail}
    if _KILLED in words:
        return told | {"cause": Cause.CANCELLED, "detail": "killed in Ray"}
    if _NO_MEMORY in words:
        return told | {"cause": Cause.OUT_OF_MEMORY}
    return told | {"cause": Cause.NODE_LOST}


def _unstarted(fault: Blame, why: str) -> dict[str, Any]:
    return {"cause": Cause.START_FAILED, "fault": fault, "detail": why}


def _status(code: int | None) -> dict[str, Any]:
    if code is None:
        return {}
    return {"code": code} if code >= 0 else {"signal": -code}


def _one_line(text: str) -> str:
    """What Ray says over several lines, the most telling of which is the last."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if not lines:
        return "Ray does not say why"
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"


def _is_time(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
