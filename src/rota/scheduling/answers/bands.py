"""How far a foretold start is to be trusted, learned from this site's own starts.

A plan says how long a job will wait. What came of such words before says how much longer or
shorter it was: the ratio of the two, in logarithms, over the last starts that were foretold about
as far ahead. A *band* reaches from the expected start to both sides, as far as the quantiles of
these ratios lie, times a factor: large enough that the band would have held its share of the last
starts, and widened by every start that it missed (adaptive conformal inference). So it keeps what
it says while the site changes, whatever the errors look like.

Memory is bounded: a window of ratios for each class of waits, and one for all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from math import exp, log

import msgspec

#: The shares of starts that bands are to hold.
SHARES = (0.5, 0.8, 0.9)
#: The share of starts that the latest time of a word is to hold: "nine in ten before".
MOST = 0.9
#: Waits count as this much longer, or a second more would be a large ratio of a short one.
GRACE_S = 60.0
#: A class holds foretold waits up to this many times as long as its shortest; the last is open.
BREADTH, CLASSES = 4.0, 10
#: Ratios that a window remembers, and the fewest of a class that speak for it alone.
REMEMBERED, ENOUGH = 200, 50
#: How far a start that was missed widens the next bands, in logarithms and by their share; one
#: that was held narrows them by what is left of it. Where the share is held both are in balance.
STEP, WIDEST = 0.02, 2.0
#: Starts over which the plan's own word and the middle of what came of it are compared.
COMPARED = 50
#: No side of a band is narrower, so that what lies beyond it can be measured by it.
NARROWEST = 1e-6
#: What a site that has learned nothing goes by, the middle of what recorded logs show: each
#: start takes the place of one of them.
PRIOR = (
    *(-2.51, -1.47, -1.02, -0.73, -0.50, -0.35, -0.17, -0.05, -0.01, 0.0),
    *(0.0, 0.03, 0.08, 0.16, 0.30, 0.48, 0.74, 1.18, 2.41),
)


class Word(msgspec.Struct, frozen=True, array_like=True):
    """What is said of a job's wait, in seconds from the moment at which it is said."""

    #: By the plan alone.
    planned_s: float
    #: What is expected.
    wait_s: float
    #: Nine in ten such jobs have started by then.
    most_s: float
    #: From when to when, for each of the shares.
    bands_s: tuple[tuple[float, float], ...]
    #: The window that spoke.
    speaker: int = 0


class Window(msgspec.Struct, array_like=True):
    """The last ratios of one class, oldest first, and what its words were corrected by."""

    ratios: list[float]
    #: The logarithm of the factor on each band, and on the latest time.
    widths: list[float]
    #: Of late, how often the middle of the ratios was nearer than the plan's own word.
    nearer: float = 0.0
    #: Starts that it was told of, ever.
    told: int = 0


class Record(msgspec.Struct, array_like=True):
    """All that was learned, as it is kept from one life to the next."""

    windows: list[Window]


class _Ends(msgspec.Struct, frozen=True):
    """A word in logarithms of ratios."""

    middle: float
    most: float
    bands: tuple[tuple[float, float], ...]


class Bands:
    """Says how long a job will wait and how sure that is, and learns from how long it did."""

    __slots__ = ("_ascending", "_ends", "_windows")

    def __init__(self, record: Record | None = None) -> None:
        if record is None or len(record.windows) != CLASSES + 1:
            count = len(SHARES) + 1
            record = Record([Window([*PRIOR], [0.0] * count) for _ in range(CLASSES + 1)])
        self._windows = record.windows
        self._ascending = [sorted(window.ratios) for window in self._windows]
        #: What each window says, worked out when it is first asked after a start.
        self._ends: dict[int, _Ends] = {}

    @property
    def record(self) -> Record:
        return Record(self._windows)

    @property
    def told(self) -> int:
        """Starts that were learned from."""
        return self._windows[CLASSES].told

    def say(self, planned_s: float) -> Word:
        """What to say of a job that would wait so long by the plan."""
        place = self._speaker(planned_s)
        ends = self._ends.get(place)
        if ends is None:
            ends = self._ends[place] = self._work_out(place)
        whole_s = planned_s + GRACE_S

        def seconds(end: float) -> float:
            return max(whole_s * exp(end) - GRACE_S, 0.0)

        bands_s = tuple((seconds(low), seconds(high)) for low, high in ends.bands)
        return Word(planned_s, seconds(ends.middle), seconds(ends.most), bands_s, place)

    def chance(self, planned_s: float, within_s: float) -> float:
        """How many of such jobs have started after so long, by what came of the last ones."""
        ascending = self._ascending[self._speaker(planned_s)]
        bound = log((within_s + GRACE_S) / (planned_s + GRACE_S))
        return bisect_right(ascending, bound) / (len(ascending) + 1)

    def _speaker(self, planned_s: float) -> int:
        """The window that speaks for such a wait."""
        own = _class_of(planned_s)
        return own if self._windows[own].told >= ENOUGH else CLASSES

    def learn(self, word: Word, waited_s: float) -> None:
        """A job has started, so long after this was said of it."""
        self._correct(word, waited_s)
        ratio = log((waited_s + GRACE_S) / (word.planned_s + GRACE_S))
        for place in (_class_of(word.planned_s), CLASSES):
            window, ascending = self._windows[place], self._ascending[place]
            middle = _quantile(ascending, 0.5)
            window.nearer += ((abs(ratio - middle) < abs(ratio)) - window.nearer) / COMPARED
            window.told += 1
            window.ratios.append(ratio)
            insort(ascending, ratio)
            if window.told <= len(PRIOR) or len(window.ratios) > REMEMBERED:
                del ascending[bisect_left(ascending, window.ratios.pop(0))]
            self._ends.pop(place, None)

    def _correct(self, word: Word, waited_s: float) -> None:
        """Widen what was missed, narrow what held; only the window that spoke is corrected."""
        widths = self._windows[word.speaker].widths
        held = [low <= waited_s <= high for low, high in word.bands_s]
        held.append(waited_s <= word.most_s)
        for at, share in enumerate((*SHARES, MOST)):
            width = widths[at] + STEP * (share - held[at])
            widths[at] = min(max(width, -WIDEST), WIDEST)

    def _work_out(self, place: int) -> _Ends:
        ascending, window = self._ascending[place], self._windows[place]
        widths = window.widths
        middle = _quantile(ascending, 0.5) if window.nearer > 0.5 else 0.0
        bands = []
        reach = (0.0, 0.0)
        for share, width in zip(SHARES, widths, strict=False):
            down, up = _sides(ascending, middle, share)
            factor = exp(width) * _factor(ascending, middle, (down, up), share)
            # A band that is to hold more lies around the one that is to hold less.
            reach = max(reach[0], down * factor), max(reach[1], up * factor)
            bands.append((middle - reach[0], middle + reach[1]))
        most = (_quantile(ascending, MOST) - middle) * exp(widths[-1])
        return _Ends(middle, middle + max(most, 0.0), tuple(bands))


def _sides(ascending: list[float], middle: float, share: float) -> tuple[float, float]:
    """How far the share reaches below and above the middle, with as many left out on each side."""
    out = (1.0 - share) / 2.0
    down = middle - _quantile(ascending, out)
    up = _quantile(ascending, 1.0 - out) - middle
    return max(down, NARROWEST), max(up, NARROWEST)


def _factor(
    ascending: list[float], middle: float, sides: tuple[float, float], share: float
) -> float:
    """How many times the sides are needed to hold the share."""
    down, up = sides
    scores = sorted([max((middle - ratio) / down, (ratio - middle) / up) for ratio in ascending])
    return _quantile(scores, share)


def _class_of(planned_s: float) -> int:
    return min(int(log(planned_s / GRACE_S + 1.0, BREADTH)), CLASSES - 1)


def _quantile(ascending: list[float], level: float) -> float:
    """Straight between neighbours, and so that the next one counts with those that were."""
    exact = min(max(level * (len(ascending) + 1) - 1.0, 0.0), len(ascending) - 1.0)
    below = int(exact)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (ascending[above] - ascending[below]) * (exact - below)
