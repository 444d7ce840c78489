"""How jobs ended, a page of ids at a time: what is read at start instead of every row there is.

A page is sealed once nothing of it can change: all of its ids are given out, every row of it has
ended, and no array has elements there that nothing has touched yet. It is written once, packed,
and stays when its rows are pruned. Pages that cannot be sealed, and the newest ids, are read row
by row.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from rota.core.derived.ids import page_ids, page_of
from rota.core.facts.states import JobState
from rota.store import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.driver import DatabaseDriver

#: Of their names in the table of blobs.
PREFIX = "outcomes/"
#: All of them lie between these, however a server sorts words: many do not see the slash.
FIRST, LAST = f"{PREFIX}0", f"{PREFIX}{'9' * 16}"
_FINAL = ", ".join(f"'{state}'" for state in rows.FINAL_STATES)
_OPEN = ", ".join(f"'{state}'" for state in rows.OPEN_STATES)
_STATES = {state.value: state for state in JobState}

Ended = list[tuple[int, JobState]]
Pages = list[tuple[int, bytes]]


def load(driver: DatabaseDriver) -> tuple[Pages, Ended]:
    """All that ended: in sealed pages, and one by one."""
    pages = [(number, zlib.decompress(body)) for number, body in sorted(_sealed(driver, "body"))]
    ended: Ended = []
    for first, last in _between([number for number, _ in pages]):
        ended += _ended(driver, first, last)
    return pages, ended


def sealable(driver: DatabaseDriver, next_id: int, limit: int) -> list[tuple[str, bytes, None]]:
    """Up to ``limit`` pages that can be sealed now, as rows of ``blobs``. From any thread."""
    sealed = {number for number, _ in _sealed(driver, "1")}
    fresh: list[tuple[str, bytes, None]] = []
    number = 0
    while len(fresh) < limit and page_ids(number)[1] < next_id:
        if number not in sealed and _is_final(driver, *page_ids(number)):
            codes = page_of(number, _ended(driver, *page_ids(number)))
            fresh.append((_name(number), zlib.compress(codes, 6), None))
        number += 1
    return fresh


def _name(number: int) -> str:
    return f"{PREFIX}{number:012}"


def _sealed(driver: DatabaseDriver, wanted: str) -> Iterator[tuple[int, Any]]:
    text = f"SELECT digest, {wanted} FROM blobs WHERE digest >= ? AND digest <= ?"
    for name, found in driver.read(text, (FIRST, LAST)):
        yield int(name.removeprefix(PREFIX)), found


def _between(numbers: list[int]) -> Iterator[tuple[int, int | None]]:
    """The ranges of ids outside of these pages, which are in order; the last one has no end."""
    begin = 0
    for number in numbers:
        first, last = page_ids(number)
        if first > begin:
            yield begin, first - 1
        begin = last + 1
    yield begin, None


def _ended(driver: DatabaseDriver, first: int, last: int | None) -> Ended:
    text = f"SELECT id, state FROM jobs WHERE id >= ? AND state IN ({_FINAL})"
    values = [first]
    if last is not None:
        text += " AND id <= ?"
        values.append(last)
    return [(job_id, _STATES[state]) for job_id, state in driver.read(text, values)]


def _is_final(driver: DatabaseDriver, first: int, last: int) -> bool:
    ((waiting,),) = driver.read(
        f"SELECT (SELECT count(*) FROM jobs WHERE id BETWEEN ? AND ? AND state IN ({_OPEN}))"
        " + (SELECT count(*) FROM arrays WHERE waiting = 1 AND id <= ? AND last_id >= ?)",
        (first, last, last, first),
    )
    return not waiting
