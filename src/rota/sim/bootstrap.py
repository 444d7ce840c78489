"""How sure a mean is: 95 % intervals by resampling blocks of the trace.

Waits of neighbours depend on each other (one long queue delays hundreds), so single jobs must not
be drawn one by one: that would give intervals far too narrow. Blocks of consecutive jobs are drawn
instead, with replacement, and the mean over each draw shows how far the figure could have been off.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rota.sim.measures import finished, measure, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.sim.run import Run

BLOCKS = 50
DRAWS = 2000
#: The interval leaves out this share of the draws, half of it at each end.
LEFT_OUT = 0.05


class Interval(NamedTuple):
    """A figure and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Of a difference: it is more than chance."""
        return self.low > 0 or self.high < 0


class Intervals(NamedTuple):
    mean_wait: Interval
    mean_bounded_slowdown: Interval


def intervals(run: Run, seed: int = 0, blocks: int = BLOCKS) -> Intervals | None:
    """Intervals of the run's means; None with fewer than two jobs per block."""
    waits, slowdowns = measure(finished(run))
    return _intervals(waits, slowdowns, seed, blocks)


def difference(run: Run, base: Run, seed: int = 0, blocks: int = BLOCKS) -> Intervals | None:
    """By how much the means of ``run`` lie above those of ``base``, over the same jobs.

    Both policies met the same bursts, so the difference is known far better than either mean.
    None with fewer than two jobs per block, or where one policy finished jobs that the other did
    not: such runs have no pairs.
    """
    run, base = finished(run), finished(base)
    if [job.id for job in run.jobs] != [job.id for job in base.jobs]:
        return None
    columns = zip(measure(run), measure(base), strict=True)
    waits, slowdowns = ([a - b for a, b in zip(*pair, strict=True)] for pair in columns)
    return _intervals(waits, slowdowns, seed, blocks)


def _intervals(
    waits: Sequence[float], slowdowns: Sequence[float], seed: int, blocks: int
) -> Intervals | None:
    if len(waits) < 2 * blocks:
        return None
    # The same draws for both figures: their intervals then speak of the same other traces.
    return Intervals(_interval(waits, seed, blocks), _interval(slowdowns, seed, blocks))


def _interval(values: Sequence[float], seed: int, blocks: int) -> Interval:
    edges = [len(values) * number // blocks for number in range(blocks + 1)]
    parts = [(sum(values[low:high]), high - low) for low, high in pairwise(edges)]
    chance = random.Random(seed)
    means = []
    for _ in range(DRAWS):
        drawn = chance.choices(parts, k=blocks)
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    return Interval(
        value=sum(total for total, _ in parts) / len(values),
        low=quantile(means, LEFT_OUT / 2),
        high=quantile(means, 1 - LEFT_OUT / 2),
    )
