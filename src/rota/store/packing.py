"""Old bodies, packed: most of a row are words that all rows share.

A dictionary of such words is made once, of rows of this very database, and kept in it; with it a
body shrinks to a quarter. Rows are packed an hour after they were written, in idle moments, in the
order of their numbers: what is new may be written again soon, and nobody waits for this.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from rota.store import rows, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rota.store.driver import Driver
    from rota.store.statements import Statement

#: In front of a packed body, before the number of its dictionary. Nothing in msgpack begins so.
MARK = 0xC1
#: The names of the dictionaries in the table of blobs.
PREFIX = "packing/"
#: How much a dictionary holds, at most: the words of the rows that come first are enough.
DICTIONARY_BYTES = 12_000
#: Too few rows to make one of.
SAMPLE_MIN = 40
#: A window a little larger than dictionary and body, and little memory: each body is short.
_WINDOW, _MEMORY, _LEVEL = 15, 6, 6
_FINAL = frozenset(rows.FINAL_STATES)
_STATE = statements.JOB_COLUMNS.index("state")


class _Table(NamedTuple):
    """One whose rows are packed; the body is its last column."""

    name: str
    columns: tuple[str, ...]
    #: The place of the time by which it is known what is old.
    time: int
    insert: Callable[[list[rows.Row]], Iterator[Statement]]

    @property
    def bookmark(self) -> str:
        return f"bookmark packed {self.name}"


_EVENTS = _Table(
    "events",
    statements.EVENT_COLUMNS,
    statements.EVENT_COLUMNS.index("at_s"),
    statements.insert_events,
)
_JOBS = _Table(
    "jobs",
    statements.JOB_COLUMNS,
    statements.JOB_COLUMNS.index("created_at"),
    statements.upsert_jobs,
)


class Packing:
    """Packs and unpacks the bodies of one database."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._dictionaries: dict[int, bytes] = {}

    def plain(self, body: bytes) -> bytes:
        """The body as it was written. From any thread."""
        if body[:1] != b"\xc1":
            return body
        unpacker = zlib.decompressobj(-_WINDOW, self._dictionary(body[1]))
        return unpacker.decompress(bytes(body[2:]))

    def run(self, before_s: float, limit: int) -> int:
        """Pack up to ``limit`` jobs and as many events from before a time. How many it looked at.

        In the thread that commits.
        """
        events = [row for row in self._next(_EVENTS, limit) if row[_EVENTS.time] < before_s]
        jobs = [row for row in self._next(_JOBS, limit) if row[_JOBS.time] < before_s]
        if not events and not jobs:
            return 0
        plan = self._learn([row[-1] for row in (*jobs, *events)])
        if not self._dictionaries:
            return 0
        plan += self._anew(_EVENTS, events)
        plan += self._anew(_JOBS, [row for row in jobs if row[_STATE] in _FINAL])
        for table, found in ((_EVENTS, events), (_JOBS, jobs)):
            if found:
                plan.append(statements.set_meta(table.bookmark, str(found[-1][0])))
        self._driver.write(plan)
        return len(events) + len(jobs)

    def _next(self, table: _Table, limit: int) -> list[rows.Row]:
        found = self._driver.read("SELECT value FROM meta WHERE key = ?", (table.bookmark,))
        after, key = int(found[0][0]) if found else 0, table.columns[0]
        return self._driver.read(
            f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {key} > ?"
            f" ORDER BY {key} LIMIT ?",
            (after, limit),
        )

    def _anew(self, table: _Table, found: list[rows.Row]) -> list[Statement]:
        """Taken out and put in again: a row that merely becomes shorter leaves a hole in its page,
        which SQLite never fills.
        """
        keys = [row[0] for row in found]
        packed = [(*row[:-1], self._packed(bytes(row[-1]))) for row in found]
        return [*statements.delete(table.name, table.columns[0], keys), *table.insert(packed)]

    def _packed(self, body: bytes) -> bytes:
        if body[0] == MARK:
            return body
        number = max(self._dictionaries)
        words = self._dictionaries[number]
        packer = zlib.compressobj(
            _LEVEL, zlib.DEFLATED, -_WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, words
        )
        packed = bytes((MARK, number)) + packer.compress(body) + packer.flush()
        return packed if len(packed) < len(body) else body

    def _learn(self, bodies: Sequence[bytes]) -> list[Statement]:
        """What keeps the dictionary, where this is the first time and there is enough to see."""
        if not self._dictionaries:
            self._read_all()
        if self._dictionaries or len(bodies) < SAMPLE_MIN:
            return []
        words = b"".join(bytes(body) for body in _spread(bodies))[-DICTIONARY_BYTES:]
        self._dictionaries[1] = words
        return list(statements.insert_blobs([(f"{PREFIX}{1:03}", words, None)]))

    def _dictionary(self, number: int) -> bytes:
        if number not in self._dictionaries:
            self._read_all()
        return self._dictionaries[number]

    def _read_all(self) -> None:
        found = self._driver.read(
            "SELECT digest, body FROM blobs WHERE digest >= ? AND digest < ?", (PREFIX, "packing0")
        )
        for name, words in found:
            self._dictionaries[int(name.removeprefix(PREFIX))] = bytes(words)


def _spread(bodies: Sequence[bytes]) -> Sequence[bytes]:
    """Some of all of them, events and jobs of every kind."""
    return bodies[:: max(1, len(bodies) // SAMPLE_MIN)]
