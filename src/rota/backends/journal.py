"""What this host has asked of its engine: on disk before it is asked, so that nothing is twice.

An entry that is only intended may have reached the engine all the same: the host looks there before
it asks again. An end is kept until the controller has it on disk.
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from rota.backends.api import EngineJob, EnginePhase
from rota.backends.orders import AttemptOrder, Gang

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (uid TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS past (uid TEXT PRIMARY KEY, body BLOB NOT NULL, at_s REAL NOT NULL);
CREATE INDEX IF NOT EXISTS past_at ON past (at_s);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class Stance(StrEnum):
    """How far an attempt has come, as far as this host knows for certain."""

    INTENDED = "intended"
    SUBMITTED = "submitted"
    ENDED = "ended"
    #: It was submitted, and the engine knows it no more.
    MISSING = "missing"


class EngineEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One attempt on this engine."""

    uid: str
    #: The node of ours that it was placed on.
    node: str
    state: Stance
    order: AttemptOrder | None = None
    #: The engine's own id: a hint for people and for calls, never a proof.
    id: str = ""
    #: When it was last submitted or intended.
    at_s: float = 0.0
    end: EngineJob | None = None
    #: What it has between TERM and KILL.
    grace_s: float = 30.0
    #: Why it was taken out of the engine again; empty: it was not.
    given_back: str = ""
    #: Whose peer it is, also when its order is gone.
    gang: Gang | None = None

    @classmethod
    def intended(cls, order: AttemptOrder, node: str, at_s: float) -> EngineEntry:
        """It shall be asked for, for a node of ours."""
        return cls(
            uid=order.uid,
            node=node,
            state=Stance.INTENDED,
            order=order,
            at_s=at_s,
            grace_s=order.launch.grace_s,
            gang=order.gang,
        )

    @property
    def over(self) -> bool:
        return self.state in (Stance.ENDED, Stance.MISSING)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(EngineEntry).decode
_decode_end = msgspec.msgpack.Decoder(EngineJob).decode
#: So long the engine's name of an attempt is kept after its end is known.
PAST_S = 90 * 86400.0


class EngineJournal:
    """Everything not forgotten. A write is on disk when the call returns."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)
        rows = self._db.execute("SELECT body FROM entries")
        self.entries: dict[str, EngineEntry] = {
            e.uid: e for (body,) in rows for e in (_decode(body),)
        }

    def put(self, entries: Iterable[EngineEntry]) -> None:
        """All of them or none."""
        entries = list(entries)
        if not entries:
            return
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany(
                "INSERT OR REPLACE INTO entries VALUES (?, ?)",
                [(entry.uid, _encode(entry)) for entry in entries],
            )
        self.entries |= {entry.uid: entry for entry in entries}

    def forget(self, uids: Iterable[str], now_s: float) -> None:
        """Their ends are known. What the engine called them stays a while, for readers of logs."""
        gone = [self.entries[uid] for uid in uids if uid in self.entries]
        if not gone:
            return
        ends = [(entry.uid, _encode(entry.end), now_s) for entry in gone if entry.end is not None]
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO past VALUES (?, ?, ?)", ends)
            self._db.executemany(
                "DELETE FROM entries WHERE uid = ?", [(entry.uid,) for entry in gone]
            )
            self._db.execute("DELETE FROM past WHERE at_s < ?", (now_s - PAST_S,))
        for entry in gone:
            del self.entries[entry.uid]

    def past(self, uid: str) -> EngineJob | None:
        """How an attempt ended that was forgotten not too long ago."""
        row = self._db.execute("SELECT body FROM past WHERE uid = ?", (uid,)).fetchone()
        return _decode_end(row[0]) if row else None

    def without_past(self, jobs: list[EngineJob]) -> tuple[list[EngineJob], list[EngineJob]]:
        """Those that are news, and what was forgotten here and is still in the engine's list."""
        ended = [job.uid for job in jobs if job.phase is EnginePhase.ENDED]
        asked = msgspec.json.encode([uid for uid in ended if uid not in self.entries])
        rows = self._db.execute(
            "SELECT uid FROM past WHERE uid IN (SELECT value FROM json_each(?))", (asked,)
        )
        past = {uid for (uid,) in rows}
        left = [job for job in jobs if job.phase is EnginePhase.ENDED and job.uid in past]
        if not left:
            return jobs, left
        return [
            job for job in jobs if job.phase is not EnginePhase.ENDED or job.uid not in past
        ], left

    def fact(self, name: str) -> str:
        """What was noted under this name; empty: nothing."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def note(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def drop(self, name: str) -> None:
        self._db.execute("DELETE FROM facts WHERE name = ?", (name,))

    def close(self) -> None:
        self._db.close()
