"""Whose doing an end was: causes are many and exact, and these few words say what to do next."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.core.facts.job import Attempt
from rota.core.facts.states import Blame, Cause

if TYPE_CHECKING:
    from rota.core.facts.job import Outcome


class Fault(StrEnum):
    """What an end that was no success is put down to."""

    #: The program itself: it said so by its exit code, or crashed.
    PROGRAM = "program"
    #: It asked for less than it took: memory, time.
    REQUEST = "request"
    #: The machine it ran on. The same work may well succeed on another one.
    NODE = "node"
    #: The rules of the site: it gave way, moved, or never got its turn. Nothing is wrong with it.
    SITE = "site"
    #: A user or an operator wanted it so.
    PEOPLE = "people"
    #: Another job, or another member of its gang, failed first.
    OTHERS = "others"


_FAULTS = MappingProxyType(
    {
        Cause.EXIT: Fault.PROGRAM,
        Cause.SIGNAL: Fault.PROGRAM,
        Cause.START_FAILED: Fault.PROGRAM,
        Cause.UNHEALTHY: Fault.PROGRAM,
        Cause.OUT_OF_MEMORY: Fault.REQUEST,
        Cause.TIME_LIMIT: Fault.REQUEST,
        Cause.NODE_LOST: Fault.NODE,
        Cause.PREEMPTED: Fault.SITE,
        Cause.BACKFILL_WINDOW: Fault.SITE,
        Cause.ASSEMBLY_TIMEOUT: Fault.SITE,
        Cause.SCHEDULING_TIMEOUT: Fault.SITE,
        Cause.QUOTA: Fault.SITE,
        Cause.MIGRATED: Fault.SITE,
        Cause.SHRUNK: Fault.SITE,
        Cause.CANCELLED: Fault.PEOPLE,
        Cause.REQUEUED: Fault.PEOPLE,
        Cause.DEPENDENCY: Fault.OTHERS,
        Cause.PEER_FAILED: Fault.OTHERS,
    }
)


#: How a failed start is told that the job brought about, by an agent that does not say so itself.
_OF_JOB = (
    *("working folder ", "output file ", "error output file ", "command or environment"),
    *("no command", "ulimit ", "bundle ", "image ", "user ", "checkpoint folder "),
)
#: How a start is told that failed for want of a packed working folder that another head has.
NO_BUNDLE = "the controller does not have it any more"
#: Older keepers tell so of a start that they know nothing of: it may well have run.
_NOT_KNOWN = "not started: keeper was killed"


def blame_of(told: str) -> Blame | None:
    """For whose sake a start failed, by how it is told; None: it may not have failed at all."""
    if told == _NOT_KNOWN:
        return None
    return Blame.JOB if told.startswith(_OF_JOB) else Blame.NODE


def lacks_bundle(end: Attempt) -> bool:
    """Whether it never began, because its working folder is not where the head that leads looks."""
    return end.cause is Cause.START_FAILED and end.detail.endswith(NO_BUNDLE)


def fault_of(end: Attempt | Outcome) -> Fault | None:
    """None: it ended well, or has not ended."""
    if end.cause is None or (end.cause is Cause.EXIT and end.exit_code == 0):
        return None
    if isinstance(end, Attempt) and end.fault is Blame.NODE:
        return Fault.NODE
    return _FAULTS[end.cause]
