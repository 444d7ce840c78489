"""What a driver of an engine can do, what it says of jobs and nodes, and how it refuses.

A driver keeps no state that matters: the journal of its host does. Every call is bounded in time,
and every error is one of four, because four things follow from them: the job has failed, the job
waits, the engine is silent, or nobody knows whether it has happened.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

from rota.core.facts.features import Feature as Feature  # noqa: TC001 - for drivers
from rota.core.facts.node import NodeSpec
from rota.core.facts.states import Blame, Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.backends.orders import AttemptOrder


class EngineError(Exception):
    """Base of the four. Its text is one line for people, in the engine's own words."""

    #: How long the engine itself asks us to wait; 0: it does not say.
    after_s = 0.0


class EngineRefused(EngineError):
    """It never will: the engine does not take such a job. ``fault`` says for whose sake."""

    def __init__(self, why: str, fault: Blame = Blame.JOB) -> None:
        super().__init__(why)
        self.fault = fault


class Full(EngineError):
    """Not now: a quota or a limit of the engine. Nothing was submitted."""


class Paced(Full):
    """Not now: the engine would take it, and is spared by its driver. Its turn will come."""


class EngineAway(EngineError):
    """The engine does not answer. Of a submit: it has not happened for certain."""


class Unsure(EngineError):
    """It may have happened: the answer was lost. Look before trying again."""


class EnginePhase(StrEnum):
    """Where a job is inside the engine."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class EngineJob(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One job of ours, as the engine sees it."""

    #: Of the key that the engine gave back. Never believed by ``id`` alone.
    uid: str
    id: str
    phase: EnginePhase
    #: Why it waits, in the engine's own words.
    reason: str = ""
    #: It waits because an operator of the engine has said so: it stays there until they say more.
    held: bool = False
    #: The engine's node that it runs or ran on; of a gang that is one job, all of them.
    node: str = ""
    nodes: tuple[str, ...] = ()
    submitted_s: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0
    #: None: it died of a signal, it never ran, or the engine does not say.
    code: int | None = None
    signal: int = 0
    #: Where the engine knows more than the exit status.
    cause: Cause | None = None
    detail: str = ""
    #: Of a start that failed: for whose sake.
    fault: Blame | None = None
    #: How often the engine has started it again by itself.
    restarts: int = 0
    #: Whose job it is there; empty: the engine has one user for all.
    user: str = ""


class EngineNode(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A machine of the engine, or with ``pool`` a class of equal ones among which it chooses."""

    spec: NodeSpec
    #: Whether the engine gives it work at all; ``detail`` says why not.
    usable: bool = True
    detail: str = ""
    pool: bool = False


class ByteStream(Protocol):
    """Bytes between a visitor and a running job, until either is gone."""

    async def read(self) -> bytes:
        """What comes next; nothing: it is over. What keeps it from being is an error."""

    async def write(self, body: bytes) -> None:
        """Returns when more may be written."""

    async def end(self) -> None:
        """No more will be written; what comes is still wanted."""

    async def resize(self, rows: int, columns: int) -> None:
        """Of a terminal: the visitor's window."""

    async def close(self) -> None:
        """The visitor has gone; what ran for it is ended as far as the engine can."""


class Enterable(Protocol):
    """What a driver with the feature ``visits`` can do beside all the rest."""

    async def enter(self, job: EngineJob, argv: tuple[str, ...]) -> ByteStream:
        """Run this beside the job on a terminal of its own, with the job's user, environment and
        folder.
        """

    async def reach(self, job: EngineJob, port: int) -> ByteStream:
        """A connection to a port on which the job listens."""


class Driver(Protocol):
    """Speaks to one engine. Calls may overlap; none may take longer than its host allows."""

    #: ``slurm``, ``kubernetes``, ``ray``.
    kind: str
    #: What it can do, as far as this engine's version goes. Known after ``open``.
    features: frozenset[Feature]
    #: A key that was submitted and cannot be found is given up after so long, not before.
    settle_s: float
    #: How long ``changes`` waits at most.
    poll_s: float
    #: How many are handed in before there is room for each one that runs, where the site does not
    #: say: 0 for an engine in whose queue jobs do not begin as others end.
    early: float
    #: Whose keys are ours. Set by its host before the first ``jobs``.
    cluster: str

    async def open(self) -> None:
        """Look whether the engine is there and what it can do."""

    async def close(self) -> None: ...

    async def nodes(self) -> list[EngineNode]:
        """Every machine, also one that is out of service."""

    async def submit(self, order: AttemptOrder) -> str:
        """Hand it in, once. Gives the engine's id."""

    async def jobs(self) -> list[EngineJob]:
        """All that carry a key of our cluster and that the engine still lists, ended ones too.

        A listing that is not complete is ``EngineAway``, never a shorter one.
        """

    async def find(self, uids: Iterable[str]) -> list[EngineJob]:
        """These alone, asked of everything that remembers, such as the accounting."""

    async def changes(self) -> None:
        """Return when something may have changed, at the latest after ``poll_s``."""

    async def signal(self, job: EngineJob, number: int) -> None:
        """Send a signal to all its processes."""

    async def stop(self, job: EngineJob, grace_s: float) -> None:
        """TERM, the grace, KILL, by the engine; of one that waits: take it out."""

    async def forget(self, job: EngineJob) -> None:
        """Its end is on the controller's disk."""

    async def read_log(
        self, job: EngineJob, stream: str, offset: int, limit: int, lines: int = 0
    ) -> tuple[bytes, int]:
        """A part of what it printed, and how much there is; ``stream``: ``stdout``, ``stderr``,
        and ``progress`` with the feature ``reports``.

        A negative offset counts from the end, with ``lines`` in lines.
        """
