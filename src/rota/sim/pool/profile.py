"""How many processors are free from when to when, and where a job fits in.

``FreeProfile`` knows numbers. ``Pinned`` knows which ones: a set of node numbers is one integer
with a bit for each, so that a promise is kept on the very nodes that it names.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import compress
from operator import ne
from typing import NamedTuple

INFINITE = float("inf")


class Slot(NamedTuple):
    """From when, and how many (or which) processors."""

    start_s: float
    held: int


class FreeProfile:
    """Free processors over time. Each step lasts until the next; the last one has no end."""

    __slots__ = ("_vain", "free", "times")

    def __init__(self, total: int, now_s: float = 0.0) -> None:
        self.times: list[float] = [now_s]
        self.free: list[int] = [self._all(total)]
        #: By size and length of a slot: before that moment none can begin, as was found.
        self._vain: dict[int, dict[float, float]] = {}

    def _all(self, total: int) -> int:
        return total

    def advance(self, now_s: float) -> None:
        """What is over is forgotten."""
        times = self.times
        if now_s <= times[0]:
            return
        at = bisect_right(times, now_s) - 1
        if at:
            del times[:at]
            del self.free[:at]
        times[0] = now_s

    def _cut(self, at_s: float) -> int:
        """The step that begins at a moment; made if there is none."""
        times = self.times
        at = bisect_left(times, at_s)
        if at == len(times) or times[at] != at_s:
            times.insert(at, at_s)
            self.free.insert(at, self.free[at - 1])
        return at

    def take(self, start_s: float, end_s: float, held: int) -> None:
        """Somebody has these processors from then to then."""
        start_s = max(start_s, self.times[0])
        if end_s <= start_s:
            return
        first = self._cut(start_s)
        last = self._cut(end_s) if end_s != INFINITE else len(self.times)
        free = self.free
        for at in range(first, last):
            free[at] -= held
        if held < 0 and self._vain:
            # What is larger than all that is free there gains nothing by it.
            most = max(free[first:last])
            for size in [size for size in self._vain if size <= most]:
                del self._vain[size]

    def give_back(self, start_s: float, end_s: float, held: int) -> None:
        """Undo a ``take``, as far as it is not over."""
        self.take(start_s, end_s, -held)

    def join(self) -> None:
        """Neighbouring steps that do not differ become one."""
        times, free = self.times, self.free
        differs = [True, *map(ne, free[1:], free)]
        if not all(differs):
            self.times = [*compress(times, differs)]
            self.free = [*compress(free, differs)]

    def earliest(self, size: int, run_s: float, before_s: float = INFINITE) -> Slot | None:
        """The first moment from which this number is free for that long; None: none before that."""
        times, free = self.times, self.free
        count = len(times)
        at = 0
        while at < count:
            if free[at] < size:
                at += 1
                continue
            start_s = times[at]
            if start_s >= before_s:
                return None
            end_s = start_s + run_s
            until = at + 1
            while until < count and times[until] < end_s:
                if free[until] < size:
                    break
                until += 1
            else:
                return Slot(start_s, size)
            at = until + 1
        return None

    def moved(self, slot: Slot, run_s: float) -> Slot:
        """The slot of a job that waits, exchanged for an earlier one if there is one.

        From where it begins now the room is its own, so that only steps before that are asked.
        """
        than_s, size = slot
        vain = self._vain.get(size)
        if vain is None:
            vain = self._vain[size] = {}
        known_s = vain.get(run_s, 0.0)
        if known_s == than_s:
            return slot
        times, free = self.times, self.free
        count = bisect_left(times, than_s)
        # A slot that begins before ``known_s`` and fits here would have fitted there, too.
        at = bisect_left(times, known_s) if 0.0 < known_s < than_s else 0
        while at < count:
            if free[at] < size:
                at += 1
                continue
            earlier_s = times[at]
            end_s = earlier_s + run_s
            at += 1
            while at < count and times[at] < end_s:
                if free[at] < size:
                    break
                at += 1
            else:
                self.give_back(than_s, than_s + run_s, size)
                self.take(earlier_s, earlier_s + run_s, size)
                return Slot(earlier_s, size)
        vain[run_s] = than_s
        return slot

    def fits_now(self, size: int, run_s: float) -> Slot | None:
        """Room from this moment on, if there is."""
        found = self.earliest(size, run_s, before_s=self._soon)
        return found if found is not None and found.start_s == self.times[0] else None

    @property
    def _soon(self) -> float:
        return self.times[1] if len(self.times) > 1 else INFINITE


class Pinned(FreeProfile):
    """Which processors are free over time; the lowest numbers are taken first."""

    __slots__ = ()

    def _all(self, total: int) -> int:
        return (1 << total) - 1

    def take(self, start_s: float, end_s: float, held: int) -> None:
        start_s = max(start_s, self.times[0])
        if end_s <= start_s:
            return
        first = self._cut(start_s)
        last = self._cut(end_s) if end_s != INFINITE else len(self.times)
        for at in range(first, last):
            self.free[at] &= ~held

    def give_back(self, start_s: float, end_s: float, held: int) -> None:
        start_s = max(start_s, self.times[0])
        if end_s <= start_s:
            return
        first = self._cut(start_s)
        last = self._cut(end_s) if end_s != INFINITE else len(self.times)
        for at in range(first, last):
            self.free[at] |= held

    def moved(self, slot: Slot, run_s: float) -> Slot:
        """Even at the same moment there may be lower numbers by now."""
        self.give_back(slot.start_s, slot.start_s + run_s, slot.held)
        slot = self.earliest(slot.held.bit_count(), run_s) or slot
        self.take(slot.start_s, slot.start_s + run_s, slot.held)
        return slot

    def earliest(self, size: int, run_s: float, before_s: float = INFINITE) -> Slot | None:
        times, free = self.times, self.free
        count = len(times)
        for at in range(count):
            common = free[at]
            if common.bit_count() < size:
                continue
            start_s = times[at]
            if start_s >= before_s:
                return None
            end_s = start_s + run_s
            for until in range(at + 1, count):
                if times[until] >= end_s:
                    break
                common &= free[until]
                if common.bit_count() < size:
                    break
            if common.bit_count() >= size:
                return Slot(start_s, lowest(common, size))
        return None


def lowest(numbers: int, count: int) -> int:
    """The lowest of a set of numbers, ``count`` of them."""
    chosen = 0
    for _ in range(count):
        bit = numbers & -numbers
        chosen |= bit
        numbers ^= bit
    return chosen


def numbers_of(held: int) -> list[int]:
    """The numbers in a set."""
    found: list[int] = []
    while held:
        bit = held & -held
        found.append(bit.bit_length() - 1)
        held ^= bit
    return found
