"""A page: consecutive events of the log in one row, which has the number and time of the last one.

So a reader of what comes after a number finds each row that has some of it, in order. A row of its
own costs an event more than what it says: the head of the row, and entries in indexes.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec

from rota.store import rows, statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.store.rows import Row

#: What stands in place of the kind of an event. No event is called so.
KIND = "page"
#: The events that a page has; with fewer than a few it is not worth it.
EVENTS, FEW = 2048, 16
#: The table ``mentions`` says for this many ids in a row on which pages they are. One id each would
#: take ten times the room; with many, events of one job would be looked for on many pages.
IDS = 8
_LEVEL = 6
JOB = statements.EVENT_COLUMNS.index("job_id")
_AT, _KIND = statements.EVENT_COLUMNS.index("at_s"), statements.EVENT_COLUMNS.index("kind")

#: Column by column: what is alike lies together, and takes a tenth less room.
_Columns = tuple[list[int], list[float], list[str], list[str], list[int | None], list[bytes]]
_decode = msgspec.msgpack.Decoder(_Columns).decode


def is_page(row: Row) -> bool:
    return bool(row[_KIND] == KIND)


def stays(row: Row) -> bool:
    """Whether it has to be found without a job: what is not chatter, and so is never forgotten."""
    return row[JOB] is None and row[_KIND] not in rows.CHATTER


def folded(events: Sequence[Row]) -> Row:
    """The row of a page of these."""
    last, body = events[-1], rows.encode(tuple(zip(*events, strict=True)))
    return (last[0], last[_AT], "", KIND, None, zlib.compress(body, _LEVEL))


def unfolded(row: Row, after: int = 0, job: int = 0) -> list[Row]:
    """The events of a page, each as the row that it had: those beyond a number, or about a job."""
    columns = _decode(zlib.decompress(row[-1]))
    begin = bisect_right(columns[0], after)
    if job:
        places = [at for at in range(begin, len(columns[JOB])) if columns[JOB][at] == job]
        return [tuple(column[at] for column in columns) for at in places]
    return list(zip(*(column[begin:] for column in columns), strict=True))


def block_of(job: int) -> int:
    return job // IDS


def mentions(events: Iterable[Row]) -> list[int]:
    """The blocks of ids that are mentioned."""
    return sorted({block_of(row[JOB]) for row in events if row[JOB] is not None})
