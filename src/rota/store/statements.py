"""The statements, as text that SQLite and PostgreSQL both read; ``?`` stands for a value.

Many rows go into one statement: each call into a driver gives up the interpreter lock, and a
writer thread that does so per row waits per row for a busy event loop.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rota.store.rows import Row

    #: One statement and its values.
    Statement = tuple[str, Sequence[Any]]

T = TypeVar("T")

JOB_COLUMNS = (
    *("id", "uid", "user_id", "job_name", "project", "queue", "state", "priority"),
    *("gpu_count", "gpu_type", "cpu_cores", "memory_gb", "command", "working_dir"),
    *("created_at", "scheduled_at", "started_at", "completed_at"),
    *("array_id", "submit_key", "body"),
)
#: What never changes is left out of updates: its indexes then need no write.
JOB_FIXED = frozenset({"id", "uid", "user_id", "created_at", "array_id", "submit_key"})
#: What a job is read from: its body may be packed with what the other two say.
JOB_BODY = "body, uid, submit_key"
ARRAY_COLUMNS = (
    *("id", "uid", "user_id", "last_id", "waiting", "cut_at", "created_at", "submit_key"),
    *("body", "sweep"),
)
ARRAY_FIXED = frozenset({"id", "uid", "user_id", "last_id", "created_at", "submit_key", "sweep"})
AUDIT_COLUMNS = ("at_s", "user_id", "via", "address", "action", "object", "refused")
BLOB_COLUMNS = ("digest", "body", "used_s")
BLOB_FIXED = frozenset({"digest", "body"})
EVENT_COLUMNS = ("seq", "at_s", "actor", "kind", "job_id", "body")
MENTION_COLUMNS = ("block", "seq")

#: Rows per statement. Few sizes, so that each is prepared once and then found again.
SIZES = (256, 64, 16)


def upsert_jobs(rows: list[Row]) -> Iterator[Statement]:
    for chunk in _chunks(rows):
        yield _upsert("jobs", JOB_COLUMNS, JOB_FIXED, len(chunk)), _flat(chunk)


def upsert_arrays(rows: list[Row]) -> Iterator[Statement]:
    for chunk in _chunks(rows):
        yield _upsert("arrays", ARRAY_COLUMNS, ARRAY_FIXED, len(chunk)), _flat(chunk)


def insert_events(rows: list[Row]) -> Iterator[Statement]:
    for chunk in _chunks(rows):
        yield _insert("events", EVENT_COLUMNS, len(chunk)), _flat(chunk)


def insert_mentions(rows: list[Row]) -> Iterator[Statement]:
    for chunk in _chunks(rows):
        yield _insert("mentions", MENTION_COLUMNS, len(chunk)), _flat(chunk)


def delete_mentions(seq: int, blocks: Sequence[int]) -> Iterator[Statement]:
    for chunk in _chunks(blocks):
        marks = _marks(len(chunk))
        yield f"DELETE FROM mentions WHERE block IN ({marks}) AND seq = ?", (*chunk, seq)


def insert_audit(rows: list[Row]) -> Iterator[Statement]:
    for chunk in _chunks(rows):
        yield _insert("audit", AUDIT_COLUMNS, len(chunk)), _flat(chunk)


def insert_blobs(rows: list[Row]) -> Iterator[Statement]:
    """Digest, body and moment of use. One that is there already is the same one, used again."""
    for chunk in _chunks(rows):
        yield _upsert("blobs", BLOB_COLUMNS, BLOB_FIXED, len(chunk)), _flat(chunk)


def upsert_records(table: str, rows: list[Row]) -> Iterator[Statement]:
    for chunk in _chunks(rows):
        yield _upsert(table, ("key", "body"), frozenset({"key"}), len(chunk)), _flat(chunk)


def delete(table: str, column: str, keys: Sequence[Any]) -> Iterator[Statement]:
    for chunk in _chunks(keys):
        yield f"DELETE FROM {table} WHERE {column} IN ({_marks(len(chunk))})", chunk


def select(table: str, wanted: str, column: str, keys: Sequence[Any]) -> Iterator[Statement]:
    for chunk in _chunks(keys):
        yield f"SELECT {wanted} FROM {table} WHERE {column} IN ({_marks(len(chunk))})", chunk


def set_meta(key: str, value: str) -> Statement:
    return (
        "INSERT INTO meta (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def set_answer(key: str, at_s: float, body: bytes | None, before_s: float) -> Iterator[Statement]:
    yield "DELETE FROM answers WHERE key = ? OR at_s < ?", (key, before_s)
    if body is not None:
        yield "INSERT INTO answers (key, at_s, body) VALUES (?, ?, ?)", (key, at_s, body)


@cache
def _insert(table: str, columns: tuple[str, ...], count: int) -> str:
    row = f"({_marks(len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * count)}"


@cache
def _upsert(table: str, columns: tuple[str, ...], fixed: frozenset[str], count: int) -> str:
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in fixed)
    insert = _insert(table, columns, count)
    return f"{insert} ON CONFLICT ({columns[0]}) DO UPDATE SET {changes}"


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _chunks(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    start, count = 0, len(rows)
    for size in SIZES:
        while count - start >= size:
            yield rows[start : start + size]
            start += size
    if start < count:
        yield rows[start:]


def _flat(rows: Sequence[Row]) -> Sequence[Any]:
    if len(rows) == 1:
        return rows[0]
    return [value for row in rows for value in row]
