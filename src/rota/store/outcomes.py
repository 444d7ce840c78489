"""How jobs ended, a page of ids at a time: what is read at start instead of every row there is.

A page is sealed once nothing of it can change: all of its ids are given out, every row of it has
ended, and no array has elements there that nothing has touched yet. It is written once, packed,
and stays when its rows are pruned. Pages that cannot be sealed, and the newest ids, are read row
by row.

Whatever is pruned is written down in the same transaction: onto the sealed page, or onto a loose
one, which says what the rows that went would have said. A loose page becomes part of the sealed one
in the end. Elements of an array that were cut off together, more of them than a page has, are a
row of their own.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from rota.core.cluster import WORST_FIRST
from rota.core.derived.ids import Ledger, Span, page_ids, page_number, page_of
from rota.core.facts.states import JobState
from rota.store import rows, statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rota.core.facts.array import Array
    from rota.store.driver import DatabaseDriver
    from rota.store.statements import Statement

#: What begins their names in the table of blobs: of sealed pages, of loose ones, of spans.
SEALED, LOOSE, SPAN = "outcomes/", "pruned/", "spans/"
_FINAL = ", ".join(f"'{state}'" for state in rows.FINAL_STATES)
_OPEN = ", ".join(f"'{state}'" for state in rows.OPEN_STATES)
_STATES = {state.value: state for state in JobState}
#: Beyond every number.
_END = 10**12 - 1

Outcomes = list[tuple[int, JobState]]


class KnownEnds(NamedTuple):
    """All that ended: in pages, in long spans, and one by one."""

    pages: list[tuple[int, bytes]]
    spans: list[Span]
    outcomes: Outcomes


def load(driver: DatabaseDriver) -> KnownEnds:
    pages = dict(_unpacked(SEALED, _all(driver, SEALED, "digest, body")))
    outcomes: Outcomes = []
    for first, last in _between(sorted(pages)):
        outcomes += _ended(driver, first, last)
    pages |= _unpacked(LOOSE, _all(driver, LOOSE, "digest, body"))
    return KnownEnds(sorted(pages.items()), _spans(driver), outcomes)


def seal(driver: DatabaseDriver, next_id: int, limit: int) -> tuple[int, list[Statement]]:
    """Up to ``limit`` pages that can be sealed now: how many, and what writes them."""
    sealed = {_number(SEALED, name) for (name,) in _all(driver, SEALED, "digest")}
    fresh: dict[int, bytes] = {}
    number = 0
    while len(fresh) < limit and page_ids(number)[1] < next_id:
        if number not in sealed and _is_final(driver, *page_ids(number)):
            fresh[number] = page_of(number, _ended(driver, *page_ids(number)))
        number += 1
    loose = _named(driver, LOOSE, fresh)
    merged = {n: _joined(codes, loose.get(n)) for n, codes in fresh.items()}
    gone = statements.delete("blobs", "digest", [_name(LOOSE, number) for number in loose])
    return len(fresh), [*gone, *_written(SEALED, merged)]


def keep(driver: DatabaseDriver, jobs: Outcomes, arrays: Sequence[Array]) -> list[Statement]:
    """What writes down how these ended, whose rows go. In the thread that commits."""
    numbers = {page_number(job_id) for job_id, _ in jobs}
    for array in arrays:
        numbers |= set(range(page_number(array.id), page_number(array.id + array.count) + 1))
    sealed, loose = _named(driver, SEALED, numbers), _named(driver, LOOSE, numbers)
    ledger = Ledger()
    for number, codes in (sealed | loose).items():
        ledger.put_page(number, codes)
    for job_id, state in jobs:
        ledger.put(job_id, state)
    for array in arrays:
        put_array(ledger, array)
    fresh = {n: codes for n, codes in ledger.pages() if codes != (sealed | loose).get(n)}
    return [
        *_written(SEALED, {n: codes for n, codes in fresh.items() if n in sealed}),
        *_written(LOOSE, {n: codes for n, codes in fresh.items() if n not in sealed}),
        *statements.insert_blobs(
            [
                (_name(SPAN, first), f"{last} {state.value}".encode(), None)
                for first, last, state in ledger.spans
            ]
        ),
    ]


def put_array(ledger: Ledger, array: Array) -> None:
    """How an array ended that has nothing left to run, and the elements that it alone knows of."""
    for first, last in array.cut:
        assert array.cut_outcome is not None
        ids = array.element_id(first), array.element_id(last)
        ledger.put_span(*ids, array.cut_outcome.state)
    ends = ledger.states_in(array.id + 1, array.id + array.count)
    state = next((state for state in WORST_FIRST if state in ends), None)
    if state is not None:
        ledger.put_array(array.id, state)


def _name(kind: str, number: int) -> str:
    return f"{kind}{number:012}"


def _number(kind: str, name: str) -> int:
    return int(name.removeprefix(kind))


def _all(driver: DatabaseDriver, kind: str, wanted: str) -> list[rows.Row]:
    # With all digits at both ends: many servers sort words without a look at the slash.
    text = f"SELECT {wanted} FROM blobs WHERE digest >= ? AND digest <= ?"
    return driver.read(text, (_name(kind, 0), _name(kind, _END)))


def _named(driver: DatabaseDriver, kind: str, numbers: Iterable[int]) -> dict[int, bytes]:
    names = [_name(kind, number) for number in sorted(numbers)]
    texts = statements.select("blobs", "digest, body", "digest", names)
    return dict(
        _unpacked(kind, (row for text, values in texts for row in driver.read(text, values)))
    )


def _unpacked(kind: str, found: Iterable[rows.Row]) -> Iterator[tuple[int, bytes]]:
    for name, body in found:
        yield _number(kind, name), zlib.decompress(body)


def _spans(driver: DatabaseDriver) -> list[Span]:
    found: list[Span] = []
    for name, body in sorted(_all(driver, SPAN, "digest, body")):
        last, state = bytes(body).decode().split()
        found.append((_number(SPAN, name), int(last), _STATES[state]))
    return found


def _joined(codes: bytes, more: bytes | None) -> bytes:
    """Each knows of ids that the other one does not."""
    return bytes(map(max, codes, more)) if more else codes


def _written(kind: str, pages: dict[int, bytes]) -> list[Statement]:
    """A page that is there is replaced: an insert would leave it as it is."""
    fresh = [(_name(kind, n), zlib.compress(codes, 6), None) for n, codes in pages.items()]
    gone = statements.delete("blobs", "digest", [name for name, _, _ in fresh])
    return [*gone, *statements.insert_blobs(fresh)]


def _between(numbers: list[int]) -> Iterator[tuple[int, int | None]]:
    """The ranges of ids outside of these pages, which are in order; the last one has no end."""
    begin = 0
    for number in numbers:
        first, last = page_ids(number)
        if first > begin:
            yield begin, first - 1
        begin = last + 1
    yield begin, None


def _ended(driver: DatabaseDriver, first: int, last: int | None) -> Outcomes:
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
