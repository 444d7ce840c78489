"""How jobs ended, a page of ids at a time: what is read at start instead of every row there is.

A page is sealed once nothing of it can change: all of its ids are given out, every row of it has
ended, and no array has elements there that nothing has touched yet. It is written once, packed,
and stays when its rows are pruned. Pages that cannot be sealed, and the newest ids, are read row
by row.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from rota.core.derived.ids import page_ids, page_of
from rota.core.facts.states import JobState
from rota.store import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.driver import DatabaseDriver

#: Their names in the table of blobs, in the order of their numbers.
PREFIX, BEYOND = "outcomes/", "outcomes0"
_FINAL = ", ".join(f"'{state}'" for state in rows.FINAL_STATES)
_OPEN = ", ".join(f"'{state}'" for state in rows.OPEN_STATES)
_STATES = {state.value: state for state in JobState}

Ended = list[tuple[int, JobState]]
Pages = list[tuple[int, bytes]]


def load(driver: DatabaseDriver) -> tuple[Pages, Ended]:
    """All that ended: in sealed pages, and one by one."""
    found = driver.read(
        "SELECT digest, body FROM blobs WHERE digest >= ? AND digest < ? ORDER BY digest",
        (PREFIX, BEYOND),
    )
    pages = [(int(name.removeprefix(PREFIX)), zlib.decompress(body)) for name, body in found]
    ended: Ended = []
    for first, last in _between([number for number, _ in pages]):
        ended += _ended(driver, first, last)
    return pages, ended


def sealable(driver: DatabaseDriver, next_id: int, limit: int) -> list[tuple[str, bytes, None]]:
    """Up to ``limit`` pages that can be sealed now, as rows of ``blobs``. From any thread."""
    names = driver.read(
        "SELECT digest FROM blobs WHERE digest >= ? AND digest < ?", (PREFIX, BEYOND)
    )
    sealed = {int(name.removeprefix(PREFIX)) for (name,) in names}
    fresh: list[tuple[str, bytes, None]] = []
    number = 0
    while len(fresh) < limit and page_ids(number)[1] < next_id:
        if number not in sealed and _is_final(driver, *page_ids(number)):
            codes = page_of(number, _ended(driver, *page_ids(number)))
            fresh.append((f"{PREFIX}{number:012}", zlib.compress(codes, 6), None))
        number += 1
    return fresh


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
