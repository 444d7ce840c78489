"""What a run meant for each job: how long it waited, and how much slower that made it.

Figures, intervals and pictures all begin with these columns, so that none of them can
disagree about what a wait is.
"""

from __future__ import annotations

from array import array
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.sim.run import Run

#: Shorter jobs count as this long in a slowdown, or a second of waiting would ruin the mean.
BOUND_S = 10.0


class RunMeasures(NamedTuple):
    """Columns in step with ``run.jobs``. Arrays, because a million lists of boxes is a lot."""

    waits_s: array[float]
    slowdowns: array[float]


def measure(run: Run) -> RunMeasures:
    """The wait and the bounded slowdown of each job.

    A job that had to give way waited whenever it was not on the machine, and its slowdown is its
    whole stay over its own length.
    """
    waits, slowdowns = array("d"), array("d")
    for job, start, end in zip(run.jobs, run.start_s, run.end_s, strict=True):
        length = end - start
        slowdown = (end - job.submit_s) / (length if length > BOUND_S else BOUND_S)
        waits.append(start - job.submit_s)
        slowdowns.append(slowdown if slowdown > 1.0 else 1.0)
    for place, held_s in held_in_pieces(run).items():
        job = run.jobs[place]
        stay_s = run.end_s[place] - job.submit_s
        waits[place] = stay_s - held_s
        slowdowns[place] = max(1.0, stay_s / max(BOUND_S, min(job.run_s, held_s)))
    return RunMeasures(waits, slowdowns)


def held_in_pieces(run: Run) -> dict[int, float]:
    """How long each job that ran in several pieces was on the machine, by its position."""
    held: dict[int, float] = {}
    for place, since_s, until_s in run.pieces:
        held[place] = held.get(place, 0.0) + until_s - since_s
    return held


def stretches(run: Run) -> Iterable[tuple[int, float, float]]:
    """Every ``(position, from, to)`` in which a job was on the machine."""
    several = {place for place, _, _ in run.pieces}
    whole = zip(range(len(run.jobs)), run.start_s, run.end_s, strict=True)
    if not several:
        return whole
    return chain((piece for piece in whole if piece[0] not in several), run.pieces)


def finished(run: Run) -> Run:
    """The same run without jobs that never started or never ended (their time is infinite)."""
    if all(map(isfinite, run.start_s)) and all(map(isfinite, run.end_s)):
        return run
    kept = [
        place
        for place, (start, end) in enumerate(zip(run.start_s, run.end_s, strict=True))
        if isfinite(start) and isfinite(end)
    ]
    moved = {place: new for new, place in enumerate(kept)}
    changes: dict[str, object] = {
        name: [column[place] for place in kept] if column else column
        for name, column in (
            ("jobs", run.jobs),
            ("start_s", run.start_s),
            ("end_s", run.end_s),
            ("estimate_s", run.estimate_s),
            ("nodes", run.nodes),
            ("preemptions", run.preemptions),
        )
    }
    changes["killed"] = [moved[place] for place in run.killed if place in moved]
    changes["pieces"] = [(moved[p], a, b) for p, a, b in run.pieces if p in moved]
    return msgspec.structs.replace(run, **changes)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share lies, straight between neighbours; 0 of nothing."""
    if not ordered:
        return 0.0
    exact = (len(ordered) - 1) * share
    below = int(exact)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (exact - below)


def mean(values: Sequence[float]) -> float:
    """The plain average; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0
