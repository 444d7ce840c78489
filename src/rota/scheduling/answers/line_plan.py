"""When each job of a whole line starts if nothing else comes: cheap, for thousands of jobs.

The site is taken as one large node. Jobs are looked at in order, and each gets the earliest room
that those before it leave. That is less than a pass knows, and bands (``bands``) say how far the
answer is to be trusted. Amounts of several resources are packed into one integer (``pack``), so
that a comparison looks at all of them at once.
"""

from __future__ import annotations

from bisect import bisect_left
from math import floor, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Bits of one amount; the topmost of them is never set in it.
FIELD = 48
#: A longer line is planned in steps of time.
LONG = 300
#: The shortest step, and how much further away each next one is.
STEP_S, GROWTH = 1.0, 1.02

#: What a job takes, and for how long.
Claim = tuple[int, float]


def pack(amounts: Sequence[int]) -> int:
    """Several amounts as one number."""
    return sum(amount << (FIELD * place) for place, amount in enumerate(amounts))


def guards(kinds: int) -> int:
    """The topmost bits of these packed amounts: one that is too small takes its own away."""
    return sum(1 << (FIELD * place + FIELD - 1) for place in range(kinds))


def plan_line(
    free: int, running: Iterable[Claim], line: Sequence[Claim], kinds: int = 1
) -> Iterator[float]:
    """How long each job of the line waits, in order; infinite for one that is too large.

    ``free`` is what nobody holds now. ``running`` gives amounts back, each after its seconds.
    """
    guard, steps = guards(kinds), FreeSteps(coarse=len(line) > LONG)
    times, rooms = _profile(free, running, steps)
    #: Where the last search for such a piece ended: the room only becomes less.
    reached: dict[Claim, float] = {}
    for piece in line:
        amount, run_s = piece
        first = bisect_left(times, reached.get(piece, 0.0))
        at = _earliest(times, rooms, piece, guard, first)
        if at == len(times):
            yield float("inf")
            continue
        start_s = reached[piece] = times[at]
        yield start_s
        until = _cut(times, rooms, steps.near(start_s + run_s))
        for place in range(at, until):
            rooms[place] -= amount


class FreeSteps:
    """Moments that ends are put on, where there are too many of them."""

    def __init__(self, *, coarse: bool) -> None:
        self._coarse = coarse
        #: How much later ends so far should have been put.
        self._owed_s = 0.0

    def near(self, end_s: float) -> float:
        """A step beside it: such a one that the ends put off make up for those brought forward."""
        if not self._coarse or end_s <= 0.0:
            return end_s
        count = floor(log(max(end_s / STEP_S, 1.0), GROWTH))
        below_s = STEP_S * GROWTH**count if end_s >= STEP_S else 0.0
        above_s = STEP_S * GROWTH ** (count + 1) if end_s >= STEP_S else STEP_S
        self._owed_s += end_s - below_s
        if self._owed_s <= (above_s - below_s) / 2.0:
            return below_s
        self._owed_s -= above_s - below_s
        return above_s


def _profile(
    free: int, running: Iterable[Claim], steps: FreeSteps
) -> tuple[list[float], list[int]]:
    """From when on how much is free; each step lasts until the next, the last one for ever."""
    given: dict[float, int] = {}
    for amount, left_s in running:
        end_s = steps.near(left_s)
        given[end_s] = given.get(end_s, 0) + amount
    free += given.pop(0.0, 0)
    times, rooms = [0.0], [free]
    for end_s in sorted(given):
        free += given[end_s]
        times.append(end_s)
        rooms.append(free)
    return times, rooms


def _earliest(times: list[float], rooms: list[int], piece: Claim, guard: int, at: int) -> int:
    """The first step from ``at`` on from which there is room for so long."""
    (amount, run_s), count = piece, len(times)
    while at < count:
        if (((rooms[at] | guard) - amount) & guard) != guard:
            at += 1
            continue
        end_s, until = times[at] + run_s, at + 1
        while until < count and times[until] < end_s:
            if (((rooms[until] | guard) - amount) & guard) != guard:
                break
            until += 1
        else:
            return at
        at = until + 1
    return count


def _cut(times: list[float], rooms: list[int], at_s: float) -> int:
    """The step that begins at a moment; made if there is none."""
    at = bisect_left(times, at_s)
    if at == len(times) or times[at] != at_s:
        times.insert(at, at_s)
        rooms.insert(at, rooms[at - 1])
    return at
