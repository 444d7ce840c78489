"""Which job ran where and when, as rectangles; a stretch of the trace where it is too long."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.sim.measures import stretches
from rota.sim.report.series import TraceSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.sim.run import Run

#: What a browser still draws and moves without delay.
STRETCHES_MAX = 1500
RECTANGLES_MAX = 6000

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


class Rectangle(NamedTuple):
    """A job on neighbouring rows for a time; ``low`` is where its lowest row begins."""

    place: int
    low: float
    height: float
    since_s: float
    until_s: float


class Gantt(NamedTuple):
    rectangles: list[Rectangle]
    #: Names of the rows from below; empty where rows are numbered processors.
    rows: list[str]
    row_count: int
    #: How many jobs are drawn.
    jobs: int


def window(
    runs: Sequence[Run], around_s: float, span: TraceSpan, most: int = STRETCHES_MAX
) -> TraceSpan:
    """The longest time around a moment in which no run has more than ``most`` jobs.

    All runs share it, so that one can be compared with the other.
    """
    edges = []
    for run in runs:
        times = list(stretches(run))
        edges.append((sorted(a for _, a, _ in times), sorted(b for _, _, b in times)))

    def crowd(half_s: float) -> int:
        return max(
            bisect_left(starts, around_s + half_s) - bisect_right(ends, around_s - half_s)
            for starts, ends in edges
        )

    low_s, high_s = 0.0, span.until_s - span.since_s
    if crowd(high_s) <= most:
        return span
    # The crowd only grows with the window, so halving finds the limit; 1 % is close enough.
    while high_s - low_s > max(high_s / 100, 1.0):
        middle_s = (low_s + high_s) / 2
        if crowd(middle_s) <= most:
            low_s = middle_s
        else:
            high_s = middle_s
    half_s = max(low_s, 1.0)
    return TraceSpan(max(span.since_s, around_s - half_s), min(span.until_s, around_s + half_s))


def gantt(run: Run, view: TraceSpan, most: int = STRETCHES_MAX) -> Gantt:
    """The jobs that ran in the window, first started first, on their nodes or on free rows."""
    inside = [
        piece
        for piece in stretches(run)
        if piece[1] < view.until_s and piece[2] > view.since_s and piece[1] < piece[2]
    ]
    inside.sort(key=lambda piece: (piece[1], piece[0]))
    inside = inside[:most]
    if any(run.nodes):
        return _on_nodes(run, inside)
    return _on_slots(run, inside)


def _on_slots(run: Run, inside: Sequence[tuple[int, float, float]]) -> Gantt:
    """Processors without names: each job takes the lowest that are free when it starts."""
    free: list[tuple[int, int]] = [(0, run.capacity)]
    leaving: list[tuple[float, int, list[tuple[int, int]]]] = []
    rectangles: list[Rectangle] = []
    drawn: set[int] = set()
    for number, (place, since_s, until_s) in enumerate(inside):
        while leaving and leaving[0][0] <= since_s:
            free = _joined(free + heappop(leaving)[2])
        taken, free = _lowest(free, run.jobs[place].procs)
        if len(rectangles) + len(taken) > RECTANGLES_MAX:
            break
        heappush(leaving, (until_s, number, taken))
        rectangles += [Rectangle(place, a, b - a, since_s, until_s) for a, b in taken]
        drawn.add(place)
    return Gantt(rectangles, [], run.capacity, len(drawn))


def _lowest(
    free: Sequence[tuple[int, int]], count: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The lowest ``count`` rows as ranges, and what is left. Fewer where there are no more."""
    taken, left = [], []
    for low, high in free:
        cut = min(high, low + count)
        if cut > low:
            taken.append((low, cut))
            count -= cut - low
        if high > cut:
            left.append((cut, high))
    return taken, left


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, with neighbours made one."""
    ranges.sort()
    joined: list[tuple[int, int]] = []
    for low, high in ranges:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def _on_nodes(run: Run, inside: Sequence[tuple[int, float, float]]) -> Gantt:
    """Jobs on the nodes that they really had; those that share one stand above each other."""
    parts = {place: _parts(run.nodes[place]) for place, _, _ in inside}
    names = _row_names(parts.values())
    rows = {name: number for number, name in enumerate(names)}
    seats: list[tuple[Rectangle, int, int]] = []
    for place, since_s, until_s in inside:
        numbers = sorted(rows[name] for name in parts[place])
        joined = _joined([(number, number + 1) for number in numbers])
        if len(seats) + len(joined) > RECTANGLES_MAX:
            break
        seats += [(Rectangle(place, a, b - a, since_s, until_s), a, b) for a, b in joined]
    rectangles = _stacked(seats)
    numbered = all(name.isdigit() for name in names)
    return Gantt(
        rectangles,
        [] if numbered else names,
        len(names),
        len({rectangle.place for rectangle in rectangles}),
    )


def _parts(nodes: str) -> set[str]:
    """``0-3,7`` in single numbers; what is no number is a name."""
    names: set[str] = set()
    for part in filter(None, nodes.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None:
            names.add(part)
        else:
            first, last = int(match[1]), int(match[2] or match[1])
            names.update(map(str, range(first, last + 1)))
    return names


def _row_names(parts: Iterable[set[str]]) -> list[str]:
    """Every row from below: numbers without gaps, names in their order."""
    names = set().union(*parts)
    if not names or not all(name.isdigit() for name in names):
        return sorted(names, key=lambda name: (len(name), name))
    return [str(number) for number in range(max(map(int, names)) + 1)]


def _stacked(seats: Sequence[tuple[Rectangle, int, int]]) -> list[Rectangle]:
    """Jobs that are on one row at one time share its height."""
    busy: dict[int, list[float]] = {}
    levels = []
    for rectangle, low, high in seats:
        level = _free_level([busy.setdefault(row, []) for row in range(low, high)], rectangle)
        levels.append(level)
    depth = max((len(ends) for ends in busy.values()), default=1)
    stacked = []
    for (rectangle, low, high), level in zip(seats, levels, strict=True):
        if depth == 1:
            stacked.append(rectangle)
            continue
        stacked += [
            rectangle._replace(low=row + level / depth, height=1 / depth)
            for row in range(low, high)
        ]
    return stacked


def _free_level(rows: Sequence[list[float]], rectangle: Rectangle) -> int:
    """The lowest level that is free on all these rows; it is taken until the job's end."""
    level = 0
    while any(level < len(ends) and ends[level] > rectangle.since_s for ends in rows):
        level += 1
    for ends in rows:
        ends += [0.0] * (level + 1 - len(ends))
        ends[level] = rectangle.until_s
    return level
