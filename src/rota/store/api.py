"""What the controller needs of a store, and the in-memory one that tests and worlds use."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

import msgspec

from rota.core.changes.events import ElementExpanded, Recorded
from rota.core.derived.ids import Span
from rota.core.derived.usage import Usage
from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.node import Node
from rota.core.facts.policy import Policy
from rota.core.facts.site.audit import Audited
from rota.core.facts.site.outer import Outer
from rota.core.facts.site.pilot import Pilot
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Group, Project, Queue, Reservation, Secret, Token, User

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rota.store.stats import Cohort, StateSums


class Batch(msgspec.Struct):
    """All that one tick changed: its events and the rows they touched, in full.

    A row that is None was removed. Committed as one transaction or not at all.
    """

    events: list[Recorded] = []
    jobs: list[Job] = []
    arrays: list[Array] = []
    #: By their digests. They are used as of the last event; without events they stay for ever.
    blobs: dict[str, bytes] = {}
    nodes: dict[str, Node | None] = {}
    queues: dict[str, Queue | None] = {}
    groups: dict[str, Group | None] = {}
    projects: dict[str, Project | None] = {}
    reservations: dict[int, Reservation | None] = {}
    pilots: dict[str, Pilot | None] = {}
    users: dict[str, User | None] = {}
    usage: dict[str, Usage | None] = {}
    outers: dict[str, Outer | None] = {}
    settings: dict[str, Policy | None] = {}
    tokens: dict[str, Token | None] = {}
    secrets: dict[str, Secret | None] = {}
    #: Who did what, beside the events.
    audit: list[Audited] = []
    #: The next id, when one was taken that no job or array will keep; 0: as the rows say.
    next_id: int = 0


class Snapshot(msgspec.Struct):
    """What a controller loads at start: everything alive, and how everything else ended."""

    cluster_id: str
    next_id: int = 1
    next_seq: int = 1
    #: Unfinished jobs. Finished ones that a repeated Idempotency-Key asks for: ``Store.job``.
    jobs: list[Job] = []
    #: Every array on record: they are few, and parents are asked about long after they ended.
    arrays: list[Array] = []
    #: Final state of every finished job that has a row: (id, state).
    outcomes: list[tuple[int, JobState]] = []
    #: The same of ids whose rows are gone, or of which nothing can change any more: (number of the
    #: page, its codes).
    pages: list[tuple[int, bytes]] = []
    #: Elements of arrays whose rows are gone, which were cut off together.
    spans: list[Span] = []
    #: (user, key, first id) of the submits of the 24 h before the newest event, by id.
    keys: list[tuple[str, str, int]] = []
    nodes: list[Node] = []
    queues: list[Queue] = []
    groups: list[Group] = []
    projects: list[Project] = []
    reservations: list[Reservation] = []
    pilots: list[Pilot] = []
    users: list[User] = []
    usage: list[Usage] = []
    outers: list[Outer] = []
    settings: list[Policy] = []
    tokens: list[Token] = []
    secrets: list[Secret] = []


class AuditFilter(msgspec.Struct, frozen=True):
    """Which records of the audit are wanted. Empty fields do not filter."""

    user: str = ""
    action: str = ""
    object: str = ""
    since_s: float = 0.0


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs a listing wants. Empty fields do not filter."""

    states: tuple[JobState, ...] = ()
    user: str = ""
    project: str = ""
    queue: str = ""
    name: str = ""
    array: int = 0
    ids: tuple[int, ...] = ()
    #: The lowest and the highest priority wanted.
    priorities: tuple[int, int] = (0, 100)
    #: Of those that have ended, only who did so since then; 0: all of them.
    ended_since_s: float = 0.0


class Store(Protocol):
    """Durable state. One thread writes; reads may come from any thread."""

    @property
    def name(self) -> str:
        """Where the state is, for people: never with a password."""

    @property
    def local(self) -> bool:
        """Whether a commit waits for a disk of this machine only, never for a network."""

    @property
    def backlog(self) -> int:
        """Rows written since the last ``tidy``; 0 where tidying does nothing."""

    def load(self, *, ended: bool = True) -> Snapshot:
        """``ended``: also how every finished job ended, which is most of it after some years."""

    def lead(self) -> None:
        """Take over from the controller that led before (``driver.Driver``); opening does it."""

    def prove(self) -> None:
        """Raises ``Unavailable`` unless this process leads, and nobody has led since it began.

        In the thread that commits. Nothing may be promised to an agent without it.
        """

    def commit(self, batch: Batch) -> None:
        """All or nothing, on disk when it returns. Raises ``Unavailable`` when it cannot.

        After ``errors.OutcomeUnknown`` (a server went away in the middle) the caller must load
        again; after any other exception nothing was changed.
        """

    def blob(self, digest: str) -> bytes | None: ...

    def job(self, job_id: int) -> Job | None: ...

    def job_by_uid(self, uid: str) -> Job | None: ...

    def array(self, array_id: int) -> Array | None: ...

    def array_by_uid(self, uid: str) -> Array | None: ...

    def list_jobs(
        self, wanted: JobFilter, *, after: int = 0, limit: int = 100, newest_first: bool = False
    ) -> list[Job]:
        """Jobs that have rows, by id, beyond ``after`` (0: from the start, or from the newest)."""

    def elements(self, array: int, states: tuple[JobState, ...], limit: int) -> list[Job]:
        """Elements of an array that have rows, by id; without states in any."""

    def count_states(self) -> dict[JobState, int]: ...

    def job_sums(self, wanted: Cohort) -> list[StateSums]:
        """How the jobs submitted in a time fared, by user and state."""

    def longest_jobs(self, wanted: Cohort, *, now_s: float, limit: int = 5) -> list[Job]:
        """Of the jobs submitted in a time those whose latest run was, or is, the longest."""

    def jobs_submitted(self, since_s: float, until_s: float, *, limit: int) -> Iterator[Job]:
        """The jobs that were submitted between two moments, the newest first."""

    def events(self, *, after: int = 0, job: int = 0, limit: int = 1000) -> list[Recorded]: ...

    def all_events(self) -> Iterator[Recorded]: ...

    def audit(self, wanted: AuditFilter, *, before: int = 0, limit: int = 100) -> list[Audited]:
        """Who did what, the newest first; older than the record ``before`` (0: from the newest)."""

    def prune_audit(self, before_s: float, *, limit: int = 5000) -> int:
        """Drop up to ``limit`` records of the audit from before a time. How many went."""

    def prune(self, before_s: float, *, limit: int = 500, keep: Collection[int] = ()) -> int:
        """Drop up to ``limit`` finished jobs that ended before a time, with their events.

        Ids in ``keep`` (parents that waiting jobs ask about) stay, as does everything that is
        unfinished or that a repeated key may still find. Returns how many rows went: call it
        again, in the thread that commits, until that is 0.
        """

    def unused_blobs(self, before_s: float) -> list[str]:
        """The blobs that were last used long before a time, and that no job or array refers to."""

    def drop_blobs(self, digests: list[str], before_s: float) -> None:
        """Drop those that were found, except what was used since. In the thread that commits."""

    def seal_outcomes(self, *, limit: int = 8) -> int:
        """Make the next start shorter: pages of ids of which nothing changes any more are kept as
        such. How many were added: call it again, in the thread that commits, until that is 0.
        """

    def pack(self, before_s: float, *, now_s: float = inf, limit: int = 100) -> int:
        """Make rows and events from before a time smaller; what they say stays the same.

        What is dated later than ``now_s`` is old, too: the clock was wrong when it was written. How
        many it looked at: call it again, in the thread that commits, until that is 0.
        """

    def bookmark(self, name: str) -> str:
        """How far some reader of the log has come, in its own words; empty: it never said."""

    def set_bookmark(self, name: str, place: str) -> None:
        """Keep that. In the thread that commits."""

    def answer(self, key: str) -> bytes | None:
        """What a request under a key was answered; None: nothing is known of it."""

    def set_answer(self, key: str, at_s: float, body: bytes | None, *, before_s: float) -> None:
        """Keep that (None: forget it), and drop all from before a time.

        In the thread that commits.
        """

    def tidy(self) -> None:
        """Work that can wait for an idle moment. In the thread that commits."""

    def close(self) -> None: ...


def job_ids_of(event: object) -> Sequence[int]:
    """The job (or array) that an event is about, for the index of the log: none, or one."""
    if isinstance(event, ElementExpanded):
        return (event.array + 1 + event.position,)
    job = getattr(event, "job", None) or getattr(event, "array", None)
    return (job,) if isinstance(job, int) else ()
