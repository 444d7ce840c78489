"""Old jobs, packed: most of a row are words that all rows share.

A dictionary of such words is made once, of rows of this very database, and kept in it; with it a
body shrinks to a sixth. What no other row has, most of all its uid and its key, also stands in
columns of the same row: for each body these words are added to the dictionary. Rows are packed an
hour after they were written, in idle moments, in the order of their numbers: what is new may be
written again soon, and nobody waits for this. Older versions packed single events like this, too;
now they share pages: see ``log``.
"""

from __future__ import annotations

import zlib
from itertools import takewhile
from typing import TYPE_CHECKING

from rota.store import rows, statements
from rota.store.log.paging import is_old

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.store.driver import DatabaseDriver
    from rota.store.statements import Statement

#: In front of a packed body, before the number of its dictionary. Nothing in msgpack begins so.
MARK = 0xC1
#: Added to that number where words of the row itself were used, too.
OWN = 0x80
#: The names of the dictionaries in the table of blobs.
PREFIX = "packing/"
#: How much a dictionary holds, at most: the words of the rows that come first are enough.
DICTIONARY_BYTES = 12_000
#: Too few rows to make one of.
SAMPLE_MIN = 40
#: A window a little larger than dictionary and body, and little memory: each body is short.
_WINDOW, _MEMORY, _LEVEL = 15, 6, 6
_FINAL = frozenset(rows.FINAL_STATES)
_COLUMNS = statements.JOB_COLUMNS
_STATE, _AT = _COLUMNS.index("state"), _COLUMNS.index("created_at")
_UID, _KEY = _COLUMNS.index("uid"), _COLUMNS.index("submit_key")
_BOOKMARK = "bookmark packed jobs"


class Packing:
    """Packs and unpacks the bodies of one database."""

    def __init__(self, driver: DatabaseDriver) -> None:
        self._driver = driver
        self._dictionaries: dict[int, bytes] = {}

    def plain(self, body: bytes, uid: str = "", key: str | None = None) -> bytes:
        """The body as it was written, of a row with this uid and key. From any thread."""
        if body[:1] != b"\xc1":
            return body
        words = self._dictionary(body[1] & ~OWN)
        if body[1] & OWN:
            words += _own_words(uid, key)
        return zlib.decompressobj(-_WINDOW, words).decompress(bytes(body[2:]))

    def run(self, before_s: float, now_s: float, limit: int) -> int:
        """Pack up to ``limit`` jobs from before a time. How many it looked at.

        In the thread that commits.
        """
        found = [*takewhile(lambda row: is_old(row[_AT], before_s, now_s), self._next(limit))]
        if not found:
            return 0
        known = self._dictionaries or self._read_all()
        fresh = {} if known else _learned([row[-1] for row in found])
        if not (known or fresh):
            return 0
        plan = [*statements.insert_blobs([(_name(n), fresh[n], None) for n in fresh])]
        number, words = max((known or fresh).items())
        ended = [row for row in found if row[_STATE] in _FINAL]
        plan += self._anew([(*row[:-1], _packed(row, number, words)) for row in ended])
        plan.append(statements.set_meta(_BOOKMARK, str(found[-1][0])))
        self._driver.write(plan)
        # Only now: what is packed with words that are not on disk can never be read again.
        self._dictionaries = known or fresh
        return len(found)

    def forget(self) -> None:
        """Another controller may have led meanwhile: what counts is on disk."""
        self._dictionaries = {}

    def _next(self, limit: int) -> list[rows.Row]:
        found = self._driver.read("SELECT value FROM meta WHERE key = ?", (_BOOKMARK,))
        return self._driver.read(
            f"SELECT {', '.join(_COLUMNS)} FROM jobs WHERE id > ? ORDER BY id LIMIT ?",
            (int(found[0][0]) if found else 0, limit),
        )

    def _anew(self, packed: list[rows.Row]) -> list[Statement]:
        """On SQLite taken out and put in again: a row that merely becomes shorter leaves a hole in
        its page, which SQLite never fills. PostgreSQL puts a row of which no index knows that it
        has changed beside the old one, and writes no index.
        """
        out = statements.delete("jobs", "id", [row[0] for row in packed])
        again = statements.upsert_jobs(packed)
        return [*out, *again] if self._driver.dialect == "sqlite" else [*again]

    def _dictionary(self, number: int) -> bytes:
        words = self._dictionaries.get(number)
        if words is None:
            self._dictionaries = known = self._read_all()
            words = known[number]
        return words

    def _read_all(self) -> dict[int, bytes]:
        """Name by name: in what order names are is for a server to say, and differs."""
        found: dict[int, bytes] = {}
        while body := self._driver.read(
            "SELECT body FROM blobs WHERE digest = ?", (_name(len(found) + 1),)
        ):
            found[len(found) + 1] = bytes(body[0][0])
        return found


def _name(number: int) -> str:
    return f"{PREFIX}{number:03}"


def _packed(row: rows.Row, number: int, words: bytes) -> bytes:
    body = bytes(row[-1])
    if body[0] == MARK:
        return body
    words += _own_words(row[_UID], row[_KEY])
    packer = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, -_WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, words
    )
    packed = bytes((MARK, number | OWN)) + packer.compress(body) + packer.flush()
    return packed if len(packed) < len(body) else body


def _learned(bodies: Sequence[bytes]) -> dict[int, bytes]:
    """A first dictionary, where there is enough to see."""
    if len(bodies) < SAMPLE_MIN:
        return {}
    return {1: b"".join(bytes(body) for body in _spread(bodies))[-DICTIONARY_BYTES:]}


def _own_words(uid: str, key: str | None) -> bytes:
    return f"{key or ''}{uid}".encode()


def _spread(bodies: Sequence[bytes]) -> Sequence[bytes]:
    """Some of all of them."""
    return bodies[:: max(1, len(bodies) // SAMPLE_MIN)]
