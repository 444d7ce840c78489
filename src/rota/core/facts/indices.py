"""Sets of array indices, kept as runs: a million queued elements cost as much as one."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

#: More elements than this in one array is refused: ids and listings stay manageable.
MAX_ELEMENTS = 10_000_000


class IndexRun(msgspec.Struct, frozen=True, array_like=True):
    """The indices ``first, first + step, …, last`` (``last`` included)."""

    first: int
    last: int
    step: int = 1

    def __len__(self) -> int:
        return (self.last - self.first) // self.step + 1

    def __contains__(self, index: int) -> bool:
        return self.first <= index <= self.last and (index - self.first) % self.step == 0


def parse_indices(text: str) -> tuple[tuple[IndexRun, ...], int]:
    """Read ``0-99``, ``1,3,5-20:5`` or ``0-999%16``; give the runs and the cap (0: none)."""
    body, percent, cap_text = text.strip().partition("%")
    good_cap = cap_text.isascii() and cap_text.isdecimal() and len(cap_text) < 12
    if percent and (not good_cap or int(cap_text) < 1):
        raise Rejected.bad("array", text, "the cap after % must be a whole number above 0")
    runs = tuple(
        sorted((_parse_run(part, text) for part in body.split(",")), key=lambda run: run.first)
    )
    if sum(map(len, runs)) > MAX_ELEMENTS:
        raise Rejected.bad("array", text, f"at most {MAX_ELEMENTS} elements")
    _refuse_overlap(runs, text)
    return runs, int(cap_text or 0)


def _parse_run(part: str, text: str) -> IndexRun:
    span, colon, step_text = part.strip().partition(":")
    first_text, dash, last_text = span.partition("-")
    numbers = [first_text, last_text if dash else first_text, step_text if colon else "1"]
    if not all(number.isascii() and number.isdecimal() and len(number) < 12 for number in numbers):
        raise Rejected.bad("array", text, "expected indices such as 0-99, 1,3,5-20:5 or 0-999%16")
    first, last, step = map(int, numbers)
    if last < first or step < 1:
        raise Rejected.bad("array", text, "a range must rise and its step must be above 0")
    return IndexRun(first, last - (last - first) % step, step)


#: The most runs that may lie across each other; each further one is compared with all of them.
MAX_INTERLEAVED = 100


def _refuse_overlap(runs: tuple[IndexRun, ...], text: str) -> None:
    """Runs come by their first index; one stays open until the next begins behind its last."""
    open_runs: list[IndexRun] = []
    for run in runs:
        open_runs = [before for before in open_runs if before.last >= run.first]
        if len(open_runs) >= MAX_INTERLEAVED:
            raise Rejected.bad("array", text, f"at most {MAX_INTERLEAVED} ranges may interleave")
        if any(_share(before, run) for before in open_runs):
            raise Rejected.bad("array", text, "an index may stand only once")
        open_runs.append(run)


def _share(a: IndexRun, b: IndexRun) -> bool:
    """Whether two runs have an index in common, by arithmetic: they may be millions long."""
    common = gcd(a.step, b.step)
    if (b.first - a.first) % common:
        return False
    step = b.step // common
    # The smallest index of ``a``'s progression, from ``a.first`` up, that is in ``b``'s as well.
    turns = (b.first - a.first) // common * pow(a.step // common, -1, step) % step
    meet = a.first + turns * a.step
    every = a.step * step
    low = max(a.first, b.first)
    if meet < low:
        meet += -(-(low - meet) // every) * every
    return meet <= min(a.last, b.last)


class IndexSet:
    """The elements of an array by *position* (0…n-1): which ones still wait.

    Positions, not indices: an element's job id is the array's first id plus its position, so
    the order of ids is the order in which elements start. Kept as disjoint ascending spans.
    """

    __slots__ = ("spans",)

    def __init__(self, spans: list[list[int]]) -> None:
        self.spans = spans

    @classmethod
    def full(cls, count: int) -> IndexSet:
        return cls([[0, count - 1]] if count else [])

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __contains__(self, position: int) -> bool:
        at = self._find(position)
        return at is not None

    def first(self) -> int:
        """The lowest position; the caller knows that there is one."""
        return self.spans[0][0]

    def discard(self, position: int) -> None:
        at = self._find(position)
        if at is None:
            return
        first, last = self.spans[at]
        left = [[first, position - 1]] if position > first else []
        right = [[position + 1, last]] if position < last else []
        self.spans[at : at + 1] = left + right

    def walk(self, start: int = 0) -> Iterator[int]:
        """Positions from ``start`` on, ascending."""
        for first, last in self.spans:
            if last >= start:
                yield from range(max(first, start), last + 1)

    def walk_back(self, start: int) -> Iterator[int]:
        """Positions from ``start`` down, descending."""
        for first, last in reversed(self.spans):
            if first <= start:
                yield from range(min(last, start), first - 1, -1)

    def _find(self, position: int) -> int | None:
        low, high = 0, len(self.spans)
        while low < high:
            middle = (low + high) // 2
            if self.spans[middle][1] < position:
                low = middle + 1
            else:
                high = middle
        if low < len(self.spans) and self.spans[low][0] <= position:
            return low
        return None


def index_at(runs: tuple[IndexRun, ...], position: int) -> int:
    """The index that stands at ``position`` of the runs in order."""
    for run in runs:
        if position < len(run):
            return run.first + position * run.step
        position -= len(run)
    raise IndexError(position)


def position_of(runs: tuple[IndexRun, ...], index: int) -> int | None:
    """The position of ``index``, or None when the array has no such element."""
    before = 0
    for run in runs:
        if index in run:
            return before + (index - run.first) // run.step
        before += len(run)
    return None
