"""Which jobs a program waits for, and what it heard of ends: nothing is sent or read here."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.client.handle import JobReference

J = TypeVar("J", bound="JobReference")

KINDS = "job-settled,array-cancelled"
#: The server says something every 15 s, if only a dot.
SILENCE_S = 60.0
#: How long the server may be away (a restart, an upgrade) before waiting for it is given up.
PATIENCE_S = 300.0
RETRY_S = 0.5
#: The longest that the first submit waits for the line; without it the answers come later.
FIRST_S = 10.0
#: The most ids that go into the address of one request.
IDS_MAX = 500
#: Ends of jobs that nobody has asked for yet: a short job may end before its submitter has the id.
EARLY_MAX = 20_000


class Ends(Generic[J]):
    """The jobs that are waited for, and ends that were heard of too early.

    There may be several handles of one job. A caller with several threads locks it.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, list[J]] = {}
        self._early: OrderedDict[int, str] = OrderedDict()

    @property
    def waiting(self) -> list[J]:
        """The handles of jobs that are not known to have ended."""
        return [job for jobs in self._waiting.values() for job in jobs]

    def add(self, jobs: Iterable[J]) -> list[tuple[J, str]]:
        """Wait for these; those that are known to have ended already, with their state."""
        ended = []
        for job in jobs:
            state = self._early.get(job.id)
            if state is None:
                self._waiting.setdefault(job.id, []).append(job)
            else:
                ended.append((job, state))
        return ended

    def ended(self, job_id: int, state: str) -> list[J]:
        """The handles that waited for this end."""
        jobs = self._waiting.pop(job_id, [])
        if not jobs:
            self._early[job_id] = state
            if len(self._early) > EARLY_MAX:
                self._early.popitem(last=False)
        return jobs

    def let_go(self) -> list[J]:
        """Wait for none any more; those that were waited for."""
        jobs = self.waiting
        self._waiting.clear()
        return jobs

    def questions(self) -> Iterator[str]:
        """The ids to ask for after a silence, as many in each text as one request takes."""
        ids = list(self._waiting)
        for first in range(0, len(ids), IDS_MAX):
            yield ",".join(map(str, ids[first : first + IDS_MAX]))


class Frames:
    """Makes events of the bytes of a stream; None is the greeting, from which on none is missed."""

    def __init__(self) -> None:
        self._rest = b""
        self._greeted = False

    def feed(self, piece: bytes) -> Iterator[dict[str, Any] | None]:
        """The events that are complete with this piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
            elif line.startswith(b": rota") and not self._greeted:
                self._greeted = True  # Later ones only break a silence.
                yield None
