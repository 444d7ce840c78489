"""Ids: which were given out, to whose request, and how their jobs ended."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.states import FINAL, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

_STATES = tuple(JobState)
_CODE = {state: code for code, state in enumerate(_STATES, start=1)}
#: Added to the code of an array.
_ARRAY = 0x80
FINAL_ORDER = tuple(state for state in _STATES if state in FINAL)
#: Ids per page: 2 to the power of this.
_BITS = 12
_PAGE = 1 << _BITS
#: First and last id, and how all between them ended.
Span = tuple[int, int, JobState]
_first, _last = itemgetter(0), itemgetter(1)


class Ledger:
    """How each finished job ended: a byte per id, and none for ids that ended in one long span.

    An array that is cancelled as a whole would otherwise cost a byte per element for ever, and a
    caller can make and cancel as many as it likes. It grows for years all the same. So a controller
    that has to take a tick back keeps it (``rewind``) instead of reading again all that ever ended.
    """

    __slots__ = ("_pages", "_spans", "_undo", "counts")

    def __init__(self) -> None:
        #: By the number of the page. Zero: unfinished, never given out, or in a span.
        self._pages: dict[int, bytearray] = {}
        #: First and last id and the state of each long span, in order; replaced, never changed.
        self._spans: tuple[Span, ...] = ()
        self.counts: dict[JobState, int] = dict.fromkeys(FINAL_ORDER, 0)
        #: Spans and counts as they were at ``begin``, and by id the codes that were written over.
        self._undo: tuple[tuple[Span, ...], dict[JobState, int], dict[int, int]] | None = None

    def begin(self) -> None:
        """From here on changes can be taken back."""
        self._undo = (self._spans, dict(self.counts), {})

    def rewind(self) -> None:
        """Take back what was put since ``begin``."""
        if self._undo is not None:
            self._spans, self.counts, codes = self._undo
            for item, code in codes.items():
                self._pages[item >> _BITS][item & (_PAGE - 1)] = code
            self.begin()

    def get(self, job_id: int) -> JobState | None:
        page = self._pages.get(job_id >> _BITS)
        if page is not None and (code := page[job_id & (_PAGE - 1)] & ~_ARRAY):
            return _STATES[code - 1]
        at = bisect_right(self._spans, job_id, key=_first) - 1
        return self._spans[at][2] if at >= 0 and job_id <= self._spans[at][1] else None

    def is_array(self, item: int) -> bool:
        """Whether this is the id of an array that has ended."""
        page = self._pages.get(item >> _BITS)
        return page is not None and page[item & (_PAGE - 1)] >= _ARRAY

    def states_in(self, first: int, last: int) -> set[JobState]:
        """The states that occur among a block of finished jobs."""
        return {state for state, count in self.counts_in(first, last).items() if count}

    def counts_in(self, first: int, last: int) -> dict[JobState, int]:
        """How often each final state occurs among a block of ids."""
        found = dict.fromkeys(FINAL_ORDER, 0)
        for number in range(first >> _BITS, (last >> _BITS) + 1):
            page = self._pages.get(number)
            if page is not None:
                base = number << _BITS
                block = page[max(first - base, 0) : last + 1 - base]
                for state in FINAL_ORDER:
                    found[state] += block.count(_CODE[state])
        for begin, end, state in self._touched(first, last):
            found[state] += min(end, last) - max(begin, first) + 1
        return found

    def put(self, job_id: int, state: JobState) -> None:
        if before := self._write(job_id, _CODE[state]):
            # What is said once more is not counted twice.
            self.counts[_STATES[before - 1]] -= 1
        self.counts[state] += 1

    def put_page(self, number: int, codes: bytes) -> None:
        """A whole page at once (``page_of``), of which nothing was put before."""
        self._pages[number] = bytearray(codes)
        for state in FINAL_ORDER:
            self.counts[state] += codes.count(_CODE[state])

    def pages(self) -> list[tuple[int, bytes]]:
        """All that has a code of its own: number and codes of each page, in order."""
        return [(number, bytes(codes)) for number, codes in sorted(self._pages.items())]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The long spans, in order."""
        return self._spans

    def put_span(self, first: int, last: int, state: JobState) -> None:
        """Elements of one array that ended together: what is said of some of them is the same."""
        touched = self._touched(first, last)
        if not touched and last - first < _PAGE:
            for job_id in range(first, last + 1):
                self.put(job_id, state)
            return
        for ended, count in self.counts_in(first, last).items():
            self.counts[ended] -= count
        self.counts[state] += last - first + 1
        for number in range(first >> _BITS, (last >> _BITS) + 1):
            for job_id in self._written(number, first, last):
                self._write(job_id, 0)
        union = (min([first, *map(_first, touched)]), max([last, *map(_last, touched)]), state)
        self._spans = tuple(sorted([*(s for s in self._spans if s not in touched), union]))

    def put_array(self, array_id: int, state: JobState) -> None:
        """How an array ended as a whole: it is no job, so it is not counted."""
        self._write(array_id, _CODE[state] | _ARRAY)

    def _touched(self, first: int, last: int) -> list[Span]:
        """The long spans that share an id with this block."""
        at = max(bisect_right(self._spans, first, key=_first) - 1, 0)
        end = bisect_right(self._spans, last, key=_first)
        return [span for span in self._spans[at:end] if span[1] >= first]

    def _written(self, number: int, first: int, last: int) -> list[int]:
        """The ids of a page that have a code of their own."""
        base, page = number << _BITS, self._pages.get(number)
        if page is None or not any(page):
            return []
        return [base + at for at, code in enumerate(page) if code and first <= base + at <= last]

    def _write(self, item: int, code: int) -> int:
        """Gives what stood there."""
        page = self._pages.get(item >> _BITS)
        if page is None:
            page = self._pages[item >> _BITS] = bytearray(_PAGE)
        before = page[item & (_PAGE - 1)]
        if self._undo is not None:
            self._undo[2].setdefault(item, before)
        page[item & (_PAGE - 1)] = code
        return before


def page_of(number: int, ended: Iterable[tuple[int, JobState]]) -> bytes:
    """How the jobs of a page ended, in the words of the ledger."""
    codes = bytearray(_PAGE)
    for job_id, state in ended:
        codes[job_id - (number << _BITS)] = _CODE[state]
    return bytes(codes)


def page_number(job_id: int) -> int:
    """The page that an id is on."""
    return job_id >> _BITS


def page_ids(number: int) -> tuple[int, int]:
    """The first and the last id of a page."""
    return number << _BITS, ((number + 1) << _BITS) - 1


#: Between a key and the digest of what was asked for; no key has it in it.
_MARK = "\x1f"


class Repeatable(NamedTuple):
    """What a submit under a key got, and what it had asked for; empty: not known."""

    first: int
    digest: str


def kept_key(key: str, digest: str) -> str:
    """A key and the digest of what was asked for under it, as they are kept."""
    return f"{key}{_MARK}{digest}" if key and digest else key


class Ids:
    """The id of the cluster, and those that it gave to jobs, arrays and reservations."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        #: What the next job, array or reservation gets.
        self.next = 1
        #: (user, Idempotency-Key) -> what the first submit under it got.
        self.keys: dict[tuple[str, str], Repeatable] = {}
        self.ended = Ledger()

    def give(self, last: int) -> None:
        """All ids up to this one are taken."""
        self.next = max(self.next, last + 1)

    def remember(self, user: str, key: str, first: int) -> None:
        """A submit got these ids; when it is repeated with its key it gets the same ones."""
        if key:
            name, _, digest = key.partition(_MARK)
            self.keys[user, name] = Repeatable(first, digest)
