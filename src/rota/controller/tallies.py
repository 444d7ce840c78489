"""Counters and histograms that cost next to nothing to move: those of a tick move for every job.

The library's own take a lock for each number, and look labels up in three steps. These belong to
one thread, the controller's loop, and become the library's families when they are scraped.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import CollectorRegistry


class Counted:
    """One number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Spread:
    """How many values there were up to each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Each bound with all that lie below it, as text: so it is shown."""
        bounds = map(floatToGoString, (*self._bounds, inf))
        return [*zip(bounds, map(float, accumulate(self._counts)), strict=True)]


class Counts:
    """A counter with labels: a ``Counted`` for each of their values."""

    def __init__(
        self, registry: CollectorRegistry, name: str, text: str, labels: Sequence[str] = ()
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._counts: dict[tuple[str, ...], Counted] = {}
        registry.register(self)

    def labels(self, *values: str) -> Counted:
        found = self._counts.get(values)
        if found is None:
            found = self._counts[values] = Counted()
        return found

    def collect(self) -> Iterator[Any]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count.value)
        yield family


class Spreads:
    """A histogram with labels: a ``Spread`` for each of their values."""

    def __init__(
        self,
        registry: CollectorRegistry,
        name: str,
        text: str,
        bounds: Sequence[float],
        labels: Sequence[str] = (),
    ) -> None:
        self._bounds = bounds
        self._name, self._text, self._labels = name, text, labels
        self._spreads: dict[tuple[str, ...], Spread] = {}
        registry.register(self)

    def labels(self, *values: str) -> Spread:
        found = self._spreads.get(values)
        if found is None:
            found = self._spreads[values] = Spread(self._bounds)
        return found

    def collect(self) -> Iterator[Any]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, spread in self._spreads.items():
            family.add_metric(values, spread.buckets, spread.sum)
        yield family
