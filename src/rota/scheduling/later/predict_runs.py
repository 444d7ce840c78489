"""Recent runs by user, name and shape: bounded, and sorted for quantiles.

A run is kept as a part of its limit where the job had one, so that runs under different limits
can be compared; else in seconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from math import ceil

#: Runs that are remembered per kind, and kinds.
RECENT = 64
KINDS = 20_000

#: How broad a kind may be and still tell of jobs of one name; see ``RunHistory.find``.
NAMED = 2

#: User, name, processors and limit; broader kinds leave some of them open.
Kind = tuple[str | None, str | None, int, float]


class Runs:
    """What jobs of one kind took lately."""

    __slots__ = ("_ascending", "_recent")

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._ascending: list[float] = []

    def __len__(self) -> int:
        return len(self._ascending)

    def add(self, part: float) -> None:
        """One more run; beyond a number the oldest goes."""
        recent, ascending = self._recent, self._ascending
        recent.append(part)
        insort(ascending, part)
        if len(recent) > RECENT:
            del ascending[bisect_left(ascending, recent.popleft())]

    def quantile(self, level: float) -> float:
        """At least this share of all runs, and of the next one with them, is not above."""
        ascending = self._ascending
        count = len(ascending)
        return ascending[min(ceil(level * (count + 1)), count) - 1]

    def middle_beyond(self, part: float) -> float:
        """The middle of all runs that took longer than this; 0: none did."""
        ascending = self._ascending
        first = bisect_right(ascending, part)
        return ascending[(first + len(ascending)) // 2] if first < len(ascending) else 0.0


def kinds_of(user: str, name: str, procs: int, limit_s: float) -> tuple[Kind, ...]:
    # Broader kinds hold parts of limits or seconds, never both.
    unit = 1.0 if limit_s else 0.0
    if name:
        return (
            (user, name, procs, limit_s),
            (user, name, 0, unit),
            (user, None, 0, unit),
            (None, None, 0, unit),
        )
    return (user, name, procs, limit_s), (user, None, 0, unit), (None, None, 0, unit)


class RunHistory:
    """Runs by kind; the kinds that were used longest ago are forgotten."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Kind, Runs] = {}

    def find(self, kinds: tuple[Kind, ...], least: int, broad: int = 0) -> tuple[Runs | None, int]:
        """The runs of the narrowest kind that has enough of them, and how broad it is.

        ``broad``: the fewest runs of jobs of any name that say something of this one.
        """
        known = self._known
        for breadth, kind in enumerate(kinds, 5 - len(kinds)):
            runs = known.get(kind)
            if runs is not None and len(runs) >= (broad if breadth > NAMED and broad else least):
                return runs, breadth
        return None, 0

    def add(self, kinds: tuple[Kind, ...], part: float) -> None:
        """One more run of each of these kinds."""
        known = self._known
        for kind in kinds:
            runs = known.pop(kind, None)
            if runs is None:
                runs = Runs()
            known[kind] = runs
            runs.add(part)
        while len(known) > KINDS:
            del known[next(iter(known))]
