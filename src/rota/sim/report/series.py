"""Levels over time: how much of the machine was used, how many jobs waited.

A year has millions of changes and a screen a thousand columns. Each column keeps the lowest, the
mean and the highest level of its time, so that no peak and no gap is lost.
"""

from __future__ import annotations

from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rota.sim.measures import stretches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.sim.run import Run

BINS = 1000
#: The calm line is the mean over this many bins: a hundredth of the picture to each side.
CALM = 21


class TraceSpan(NamedTuple):
    """From the first submit to the last end."""

    since_s: float
    until_s: float


class Series(NamedTuple):
    """One entry per bin; bin ``i`` begins at ``since_s + i * step_s``."""

    since_s: float
    step_s: float
    low: list[float]
    mean: list[float]
    high: list[float]


def whole_span(runs: Iterable[Run]) -> TraceSpan:
    """The time that all runs together take; a second where nothing ran."""
    known = [run for run in runs if run.jobs]
    since_s = min((job.submit_s for run in known for job in run.jobs), default=0.0)
    until_s = max((max(run.end_s) for run in known), default=since_s)
    return TraceSpan(since_s, max(until_s, since_s + 1.0))


def used_over_time(run: Run, span: TraceSpan, bins: int = BINS) -> Series:
    """Processors that jobs hold."""
    changes = []
    for place, since_s, until_s in stretches(run):
        procs = run.jobs[place].procs
        changes += [(since_s, procs), (until_s, -procs)]
    return binned(changes, span, bins)


def waiting_over_time(run: Run, span: TraceSpan, bins: int = BINS) -> Series:
    """Jobs that are submitted, not over, and not on the machine."""
    changes = [(job.submit_s, 1) for job in run.jobs]
    changes += [(end_s, -1) for end_s in run.end_s]
    for _, since_s, until_s in stretches(run):
        changes += [(since_s, -1), (until_s, 1)]
    return binned(changes, span, bins)


def binned(changes: list[tuple[float, int]], span: TraceSpan, bins: int = BINS) -> Series:
    """The level that the changes add up to, bin by bin."""
    step_s = (span.until_s - span.since_s) / bins
    sums = [0.0] * bins
    low = [float("inf")] * bins
    high = [0.0] * bins

    def hold(level: int, since_s: float, until_s: float) -> None:
        place = min(int((since_s - span.since_s) / step_s), bins - 1)
        while since_s < until_s and place < bins:
            # The last bin ends with the span, whatever rounding says.
            edge_s = span.since_s + (place + 1) * step_s if place < bins - 1 else span.until_s
            sums[place] += level * max(0.0, min(until_s, edge_s) - since_s)
            low[place] = min(low[place], level)
            high[place] = max(high[place], level)
            since_s = max(since_s, edge_s)
            place += 1

    level, at_s = 0, span.since_s
    changes.sort()
    # Changes of one instant count together: a job that follows another leaves no gap.
    for moment_s, together in groupby(changes, key=itemgetter(0)):
        hold(level, at_s, moment_s)
        level += sum(change for _, change in together)
        at_s = moment_s
    hold(level, at_s, span.until_s)
    return Series(span.since_s, step_s, low, [total / step_s for total in sums], high)


def smoothed(values: Sequence[float], width: int = CALM) -> list[float]:
    """The mean over the neighbours; at both ends over those that there are."""
    sums = [0.0, *accumulate(values)]
    half = width // 2
    smooth = []
    for place in range(len(values)):
        low, high = max(0, place - half), min(len(values), place + half + 1)
        smooth.append((sums[high] - sums[low]) / (high - low))
    return smooth
