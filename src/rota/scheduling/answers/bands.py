"""How far a foretold start is to be trusted, learned from this site's own starts.

A plan says how long a job will wait. What came of such words before says how much longer or
shorter it was: the ratio of the two, in logarithms, over the last starts that were foretold about
as far ahead. A *band* reaches from the expected start to both sides, as far as the quantiles of
these ratios lie. How many of them it is asked to hold is corrected by every start (adaptive
conformal inference): those it missed make the next bands hold more. There is one correction for
all words, which follows fast, and one for each class, which follows slowly. So bands keep what
they say while the site changes, whatever the errors look like.

Many jobs start at the very second that was foretold. A band that ends there holds all of them or
none: it cannot hold just its share. Then such a start counts for the part of them that the band
would need (``Word.edges``); else what is right too often would be narrowed for ever.

So each class of waits may hold more than was said of it, and of jobs that come together only some
are counted above. What all words together held is what a site sees. By that the bands *aim* at a
share: a little lower after each start that they held, a little higher after each that they
missed. Where more than half of all starts are exact, the band of half ends as the moment itself,
and holds no fewer.

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
#: All of them: the bands, then the latest time.
ALL = (*SHARES, MOST)
#: A class holds foretold waits up to this many times as long as its shortest; the last is open.
BREADTH, CLASSES = 4.0, 12
#: A start this near to the plan is taken to be at the very moment, and bands reach this far
#: beyond their ends, so that it is in a band that ends there.
NEAR_S = 0.1
#: No band is narrower.
MOMENT_S = 3 * NEAR_S
#: Starts that were held by moments and wait to be made up for by wider bands.
OWED = 20
#: The aim of a band is no lower than this part of its share, no further above it, and no higher.
AIM_LEAST, AIM_ABOVE, AIM_MOST = 0.2, 0.25, 0.98
#: What sums of seconds may be off by.
ROUNDED_S = 0.001
#: Errors count as this much larger when they are compared.
LEAST_S = 1.0
#: No ratio is larger, in logarithms, and no side of a band narrower.
FARTHEST, NARROWEST = 12.0, 1e-6
#: How far a share may be corrected.
CORRECTED = 0.5
#: The fewest starts of this site from which one learns by when nine in ten start.
SURE = 10
#: Counts of waves that are kept.
WAVES = 4000
#: How much a side grows for each share that is asked for beyond all that was ever seen.
BEYOND = 4.0
#: What a site that has learned nothing goes by, the middle of what recorded logs show: each
#: start takes the place of one of them.
PRIOR = (
    *(-2.51, -1.47, -1.02, -0.73, -0.50, -0.35, -0.17, -0.05, -0.01, 0.0),
    *(0.0, 0.03, 0.08, 0.16, 0.30, 0.48, 0.74, 1.18, 2.41),
)


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """Constants that were chosen on recorded logs, each on all but the one it was judged by."""

    #: Waits count as this much longer, or a second more would be a large ratio of a short one.
    grace_s: float = 3.0
    #: Ratios that a window remembers, and the fewest of a class that speak for it alone.
    remembered: int = 200
    enough: int = 50
    #: How far a start moves the share that is asked for, for all words and for its class.
    common_step: float = 0.05
    own_step: float = 0.02
    #: Ratios of one wave that a window remembers: jobs that come together err together.
    of_wave: int = 10
    #: Starts over which the plan's own word and the middle of what came of it are compared.
    compared: int = 50
    #: How far a start moves what bands aim at.
    aim_step: float = 0.005


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
    #: For how much a start at the very edge of each band counts as held by it.
    edges: tuple[float, ...]
    #: The window that spoke.
    speaker: int = 0
    #: Starts that had been learned from: words said with the same knowledge are of one wave.
    wave: int = 0

    def within(self, waited_s: float) -> list[bool]:
        """Whether each band holds a job that waited so long, ends included."""
        return [low <= waited_s <= high for low, high in self.bands_s]

    def is_moment(self, band: int) -> bool:
        """Whether a band is as narrow as can be."""
        if band >= len(self.bands_s):
            return False
        low, high = self.bands_s[band]
        return high - low < MOMENT_S

    def held(self, waited_s: float) -> list[float]:
        """For how much each band held a job that waited so long: 1, 0, or on its edge a part."""
        at_s, near_s = self.meant_s(waited_s), NEAR_S + ROUNDED_S
        found = []
        for (low, high), edge in zip(self.bands_s, self.edges, strict=True):
            on_edge = at_s == self.planned_s and (at_s - low < near_s or high - at_s < near_s)
            found.append(edge if on_edge and low <= at_s <= high else float(low <= at_s <= high))
        return found

    def meant_s(self, waited_s: float) -> float:
        """The wait, or the plan's own where that was right."""
        return self.planned_s if abs(waited_s - self.planned_s) < NEAR_S else waited_s

    def has_started(self, waited_s: float) -> bool:
        """Whether it had started by when nine in ten were to."""
        return waited_s <= self.most_s


class Window(msgspec.Struct, array_like=True):
    """The last ratios of one class, oldest first, and what its words were corrected by."""

    ratios: list[float]
    #: Of which wave each one was.
    waves: list[int]
    #: How much more each band is asked to hold than its share, and the latest time.
    more: list[float]
    #: How far off the plan's own word and the middle of the ratios were of late, in logarithms.
    off: list[float]
    #: Starts that it was told of, ever; of a wave no more than it remembers.
    told: int = 0


class BandRecord(msgspec.Struct, array_like=True):
    """All that was learned, as it is kept from one life to the next."""

    windows: list[Window]
    #: Which shares bands aim at so that all words together hold theirs, and the latest time.
    aims: list[float] = msgspec.field(default_factory=lambda: [*ALL])


class _Ends(msgspec.Struct, frozen=True):
    """A word in logarithms of ratios."""

    middle: float
    most: float
    bands: tuple[tuple[float, float], ...]
    edges: tuple[float, ...]


class Bands:
    """Says how long a job will wait and how sure that is, and learns from how long it did."""

    __slots__ = ("_aims", "_ascending", "_ends", "_heard", "_owed", "_tuning", "_windows")

    def __init__(self, record: BandRecord | None = None, tuning: Tuning | None = None) -> None:
        #: How far aims are to go down as soon as a band is wide enough for it.
        self._owed = [0.0] * len(ALL)
        sizes = (CLASSES + 1, len(ALL))
        if record is None or (len(record.windows), len(record.aims)) != sizes:
            record = BandRecord([_new_window() for _ in range(CLASSES + 1)])
        self._tuning = tuning or Tuning()
        self._windows, self._aims = record.windows, record.aims
        self._ascending = [sorted(window.ratios) for window in self._windows]
        #: What each window says, worked out when it is first asked after a start.
        self._ends: dict[int, _Ends] = {}
        #: Starts of each of the last waves, and waits that outlasted each band (the second number).
        self._heard: dict[tuple[int, int], int] = {}

    @property
    def record(self) -> BandRecord:
        return BandRecord(self._windows, self._aims)

    @property
    def told(self) -> int:
        """Starts that were learned from."""
        return self._windows[CLASSES].told

    def starts_behind(self, word: Word) -> int:
        """How many starts such a word was learned from."""
        return min(self._windows[word.speaker].told, self._tuning.remembered)

    def is_sure(self, word: Word) -> bool:
        """Whether it was learned from enough starts to say by when nine in ten such jobs start."""
        return self.starts_behind(word) >= SURE

    def say(self, planned_s: float) -> Word:
        """What to say of a job that would wait so long by the plan."""
        place, grace_s = self._speaker(planned_s), self._tuning.grace_s
        ends = self._ends.get(place)
        if ends is None:
            ends = self._ends[place] = self._work_out(place)
        whole_s = planned_s + grace_s

        def seconds(end: float) -> float:
            return max(whole_s * exp(min(end, FARTHEST)) - grace_s, 0.0)

        bands_s = tuple(
            (max(seconds(low) - NEAR_S, 0.0), seconds(high) + NEAR_S) for low, high in ends.bands
        )
        middle_s, most_s = seconds(ends.middle), seconds(ends.most) + NEAR_S
        return Word(planned_s, middle_s, most_s, bands_s, ends.edges, place, self.told)

    def chance(self, planned_s: float, within_s: float) -> float:
        """How many of such jobs have started after so long, by what came of the last ones."""
        ascending = self._ascending[self._speaker(planned_s)]
        return bisect_right(ascending, self._ratio(planned_s, within_s)) / (len(ascending) + 1)

    def miss(self, word: Word, band: int) -> None:
        """A job still waits for which this band of its word is over."""
        self._correct(word, {band: 0.0}, self._weight(word.wave, band))
        self._aim(word, {band: False})
        self._ends.clear()

    def learn(self, word: Word, waited_s: float, missed: int = 0) -> None:
        """A job has started, so long after this was said of it; ``missed``: bands told before."""
        in_time = word.has_started(waited_s)
        held = [*word.held(waited_s), float(in_time)]
        new = [*range(missed, len(SHARES)), len(SHARES)]
        self._correct(word, {at: held[at] for at in new}, self._weight(word.wave))
        within = [*word.within(waited_s), in_time]
        self._aim(word, {at: within[at] for at in new})
        waited_s = word.meant_s(waited_s)
        for place in (self._class_of(word.planned_s), CLASSES):
            window = self._windows[place]
            middle = _quantile(self._ascending[place], 0.5)
            self._compare(window, middle, word.planned_s, waited_s)
            self._remember(place, self._ratio(word.planned_s, waited_s), word.wave)
        # The correction of all words is in what every window says.
        self._ends.clear()

    def mend(self, word: Word, counted_s: float, waited_s: float) -> None:
        """A job that was learned of while it waited has started: the ratio is another one."""
        counted, ratio = (self._ratio(word.planned_s, each) for each in (counted_s, waited_s))
        for place in (self._class_of(word.planned_s), CLASSES):
            ratios, ascending = self._windows[place].ratios, self._ascending[place]
            if counted in ratios:
                ratios[ratios.index(counted)] = ratio
                del ascending[bisect_left(ascending, counted)]
                insort(ascending, ratio)
        self._ends.clear()

    def _weight(self, wave: int, band: int = -1) -> float:
        """For how much one more of a wave counts: the more of it were heard of, the less."""
        heard = self._heard[wave, band] = self._heard.get((wave, band), 0) + 1
        while len(self._heard) > WAVES:
            del self._heard[next(iter(self._heard))]
        return min(self._tuning.of_wave / heard, 1.0)

    def _remember(self, place: int, ratio: float, wave: int) -> None:
        """One more ratio; the oldest goes, or where its wave has its part, the oldest of that."""
        window, ascending, oldest = self._windows[place], self._ascending[place], -1
        if window.waves.count(wave) >= self._tuning.of_wave:
            oldest = window.waves.index(wave)
        else:
            window.told += 1
            if window.told <= len(PRIOR) or len(window.ratios) >= self._tuning.remembered:
                oldest = 0
        if oldest >= 0:
            del ascending[bisect_left(ascending, window.ratios.pop(oldest))]
            del window.waves[oldest]
        window.ratios.append(ratio)
        window.waves.append(wave)
        insort(ascending, ratio)

    def _ratio(self, planned_s: float, waited_s: float) -> float:
        grace_s = self._tuning.grace_s
        return log((waited_s + grace_s) / (planned_s + grace_s))

    def _class_of(self, planned_s: float) -> int:
        return min(int(log(planned_s / self._tuning.grace_s + 1.0, BREADTH)), CLASSES - 1)

    def _speaker(self, planned_s: float) -> int:
        """The window that speaks for such a wait."""
        own = self._class_of(planned_s)
        return own if self._windows[own].told >= self._tuning.enough else CLASSES

    def _compare(self, window: Window, middle: float, planned_s: float, waited_s: float) -> None:
        """How far the plan's own word and the middle would have been off."""
        grace_s = self._tuning.grace_s
        for at, moved in enumerate((0.0, middle)):
            error_s = abs((planned_s + grace_s) * exp(moved) - grace_s - waited_s)
            window.off[at] += (log(error_s + LEAST_S) - window.off[at]) / self._tuning.compared

    def _correct(self, word: Word, held: dict[int, float], weight: float) -> None:
        """Ask more of what was missed, less of what held."""
        steps = {CLASSES: self._tuning.common_step}
        if word.speaker != CLASSES:
            steps[word.speaker] = self._tuning.own_step
        for place, step in steps.items():
            more = self._windows[place].more
            for at, got in held.items():
                asked = more[at] + weight * step * (self._aims[at] - got)
                more[at] = min(max(asked, -CORRECTED), CORRECTED)

    def _aim(self, word: Word, within: dict[int, bool]) -> None:
        """Aim at more where all words held too few starts, at less where they held too many.

        A moment cannot be narrowed: what it held too often waits for a band that can.
        """
        step = self._tuning.aim_step
        for at, was in within.items():
            moved = self._owed[at] + step * (ALL[at] - was)
            if moved < 0.0 and word.is_moment(at):
                self._owed[at] = max(moved, -OWED * step)
                continue
            self._owed[at] = 0.0
            low, high = ALL[at] * AIM_LEAST, min(ALL[at] + AIM_ABOVE, AIM_MOST)
            self._aims[at] = min(max(self._aims[at] + moved, low), high)

    def _work_out(self, place: int) -> _Ends:
        ascending, window = self._ascending[place], self._windows[place]
        more = window.more
        if place != CLASSES:
            more = [
                own + common for own, common in zip(more, self._windows[CLASSES].more, strict=True)
            ]
        plain, moved = window.off
        middle = _quantile(ascending, 0.5) if moved < plain else 0.0
        bands: list[tuple[float, float]] = []
        low = high = middle
        *asked, asked_of_most = (
            min(aim + extra, share + CORRECTED)
            for aim, extra, share in zip(self._aims, more, ALL, strict=True)
        )
        for each in asked:
            below, above = _around(ascending, middle, each)
            # A band that is to hold more lies around the one that is to hold less.
            low, high = min(low, below), max(high, above)
            bands.append((low, high))
        most = max(middle, _reach(ascending, middle, asked_of_most))
        edges = tuple(
            _edge(ascending, band, aim) for band, aim in zip(bands, self._aims, strict=False)
        )
        return _Ends(middle, most, tuple(bands), edges)


def _new_window() -> Window:
    return Window([*PRIOR], [-1] * len(PRIOR), [0.0] * len(ALL), [0.0, 0.0])


def _edge(ascending: list[float], band: tuple[float, float], share: float) -> float:
    """The part of all at the edges that the band needs to hold just its share."""
    low, high = band
    within = max(bisect_left(ascending, high) - bisect_right(ascending, low), 0)
    at_all = bisect_right(ascending, high) - bisect_left(ascending, low)
    if at_all <= within:
        return 1.0
    needed = (share * (len(ascending) + 1) - within) / (at_all - within)
    return min(max(needed, 0.0), 1.0)


def _around(ascending: list[float], middle: float, share: float) -> tuple[float, float]:
    """What holds the share, with about as many left out on each side."""
    out = (1.0 - min(max(share, 0.02), 0.98)) / 2.0
    down = max(middle - _quantile(ascending, out), NARROWEST)
    up = max(_quantile(ascending, 1.0 - out) - middle, NARROWEST)
    scores = sorted([max((middle - ratio) / down, (ratio - middle) / up) for ratio in ascending])
    times = _quantile(scores, share) * _beyond(ascending, share)
    return middle - down * times, middle + up * times


def _reach(ascending: list[float], middle: float, share: float) -> float:
    """What the share is not above."""
    return middle + (_quantile(ascending, share) - middle) * _beyond(ascending, share)


def _beyond(ascending: list[float], share: float) -> float:
    """How much wider than all that was seen."""
    count = len(ascending)
    return 1.0 + BEYOND * max(share - count / (count + 1), 0.0)


def _quantile(ascending: list[float], level: float) -> float:
    """Straight between neighbours, and so that the next one counts with those that were."""
    exact = min(max(level * (len(ascending) + 1) - 1.0, 0.0), len(ascending) - 1.0)
    below = int(exact)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (ascending[above] - ascending[below]) * (exact - below)
