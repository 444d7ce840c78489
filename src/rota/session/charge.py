"""One attempt in the agent's care, and its end in the controller's words."""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.states import Blame, Cause
from rota.keeper.lease import CUT_OFF
from rota.rpc.messages import Seen, Sighting

if TYPE_CHECKING:
    from rota.rpc.messages import Launch
    from rota.session.instructions import Began, Gone, Keep, KnownAttempt, Queued

#: What an end begins with that health checks brought about.
UNHEALTHY = "unhealthy: "
#: The same of ends that came with the end of the node.
LEFT = "the node left: "
_BLAMES = {str(blame): blame for blame in Blame}


class ChargeStage(Enum):
    """Where an attempt is, as far as this node can tell."""

    SPAWNING = auto()
    RUNNING = auto()
    ENDED = auto()
    MISSING = auto()


class Alive(NamedTuple):
    """A running attempt: its first process, its memory limit (0: none), the devices it has.

    ``start`` tells its process from a later one with that number; 0 and less: not known.
    """

    uid: str
    pid: int
    memory_mib: int
    devices: tuple[int, ...] = ()
    start: int = 0


class Charge:
    """One attempt in the agent's care."""

    __slots__ = ("first_signal", "grace_s", "keep", "kill_at_s", "launch", "pid", "saves",
                 "seen", "stage", "start", "stopping", "suspended", "term_at_s", "uid", "wanted",
                 "world")  # fmt: skip

    def __init__(self, uid: str, stage: ChargeStage, keep: Keep) -> None:
        self.uid = uid
        self.stage = stage
        self.keep = keep
        #: Until the controller says otherwise in a full set, everything is wanted.
        self.wanted = True
        self.stopping = False
        #: Whether its processes are stopped where they are, or shall be once they exist.
        self.suspended = False
        #: What it hears first when it is stopped, so that it can save its state; 0: TERM.
        self.first_signal = 0
        #: How long it then has.
        self.grace_s = keep.grace_s
        self.term_at_s: float | None = None
        self.kill_at_s: float | None = None
        #: Kept until its process exists: a keeper that died may have to be told again.
        self.launch: Launch | None = None
        self.pid = self.start = 0
        #: What it was told of its gang, and how often it was asked to save; below 0: not known.
        self.world = b""
        self.saves = -1
        #: What to report; None while it is being started.
        self.seen: Seen | None = None

    @property
    def over(self) -> bool:
        return self.stage in (ChargeStage.ENDED, ChargeStage.MISSING)

    def run(self, start: Began | KnownAttempt) -> None:
        self.stage = ChargeStage.RUNNING
        self.launch = None
        self.pid, self.start = start.pid, start.start
        self.seen = Seen(
            self.uid,
            Sighting.RUNNING,
            pid=start.pid,
            started_s=start.started_s,
            external=start.external,
            where=start.where,
        )


def never_started(uid: str, cause: Cause, now_s: float) -> Seen:
    """It was stopped before anything was done for it."""
    detail = "stopped before it was started"
    return Seen(uid, Sighting.ENDED, ended_s=now_s, cause=cause, detail=detail)


def waiting(event: Queued) -> Seen:
    """Inside its engine, for a reason of the engine's own."""
    return Seen(
        event.uid,
        Sighting.WAITING,
        detail=event.reason,
        external=event.external,
        where=event.where,
    )


def sighting_of(event: Gone) -> Seen:
    """An end in the controller's words, with its cause where the exit status does not say it."""
    cause, detail, blame = event.cause, event.error, None
    if cause is not None:
        blame = _BLAMES.get(event.fault) if cause is Cause.START_FAILED else None
    elif event.note == CUT_OFF and not (event.started_s or event.lost):
        # It never was a process: the job waits for another node, or for this one.
        cause, detail, blame = Cause.START_FAILED, event.note, Blame.NODE
    elif event.note == CUT_OFF:
        # Whatever its exit code: it was told to end before its work was done.
        cause, detail = Cause.NODE_LOST, event.note
    elif event.note.startswith(LEFT):
        cause, detail = Cause.NODE_LOST, event.note
    elif event.note.startswith(UNHEALTHY):
        cause, detail = Cause.UNHEALTHY, event.note.removeprefix(UNHEALTHY)
    elif event.note and event.code != 0:
        cause, detail = Cause.OUT_OF_MEMORY, event.note
    elif event.lost:
        cause = Cause.NODE_LOST
    elif event.error:
        cause = Cause.EXIT if event.code is not None else Cause.START_FAILED
        blame = _BLAMES.get(event.fault) if cause is Cause.START_FAILED else None
    return Seen(
        uid=event.uid,
        sighting=Sighting.ENDED,
        started_s=event.started_s,
        ended_s=event.ended_s,
        exit_code=event.code,
        signal=event.signal,
        cause=cause,
        detail=detail,
        fault=blame,
        peak_memory_mib=math.ceil(event.maxrss_kb / 1024),
        cpu_s=event.cpu_s,
        gpu=event.gpu,
        external=event.external,
        where=event.where,
    )
