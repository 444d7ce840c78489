"""What accounts have used: charged when an attempt ends, remembered with decay and by day.

The decayed sums answer fair share with a half-life; the sums by day answer rolling windows,
budgets and reports. Both are facts that follow from the log alone.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.derived.overruns import Overruns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.facts.resources import Amount

DAY_S = 86400
#: Days on record: a year. Older ones are forgotten when a new one begins.
DAYS_KEPT = 366


class Spent(msgspec.Struct, array_like=True):
    """CPU-seconds, GiB-seconds of memory, device-seconds; and what they cost."""

    cpu_s: float = 0.0
    memory_gib_s: float = 0.0
    device_s: float = 0.0
    cost: float = 0.0

    def add(self, other: Spent, factor: float = 1.0) -> None:
        self.cpu_s += factor * other.cpu_s
        self.memory_gib_s += factor * other.memory_gib_s
        self.device_s += factor * other.device_s
        self.cost += factor * other.cost

    def times(self, factor: float) -> Spent:
        return Spent(
            self.cpu_s * factor,
            self.memory_gib_s * factor,
            self.device_s * factor,
            self.cost * factor,
        )


class Usage(msgspec.Struct):
    """One user's use within one project."""

    user: str
    project: str
    #: Decayed up to ``as_of_s``.
    recent: Spent
    as_of_s: float = 0.0
    days: dict[int, Spent] = {}
    attempts: int = 0
    #: What was learned of its estimates.
    overruns: Overruns = Overruns()
    #: Promises to its jobs that were kept and broken, by day.
    promises: dict[int, tuple[int, int]] = {}

    @property
    def key(self) -> str:
        return usage_key(self.user, self.project)

    def recent_at(self, now_s: float, half_life_s: float) -> Spent:
        """The decayed sum as of now."""
        return self.recent.times(self.left_at(now_s, half_life_s))

    def left_at(self, now_s: float, half_life_s: float) -> float:
        """The part of it that is left by now."""
        return decay(now_s - self.as_of_s, half_life_s)

    def since(self, start_s: float) -> Spent:
        """Everything from a moment on; of the day that it falls into, its share."""
        total = Spent()
        first = int(start_s // DAY_S)
        for day, spent in self.days.items():
            if day > first:
                total.add(spent)
            elif day == first:
                total.add(spent, 1.0 - (start_s % DAY_S) / DAY_S)
        return total

    def between(self, start_s: float, end_s: float) -> Spent:
        """The same up to another moment."""
        total = self.since(start_s)
        total.add(self.since(end_s), -1.0)
        return Spent(*(max(0.0, part) for part in msgspec.structs.astuple(total)))

    def promises_between(self, start_s: float, end_s: float) -> tuple[int, int]:
        """Promises kept and broken from the day of a moment to that of another."""
        first = start_s // DAY_S
        counted = [
            told for day, told in self.promises.items() if day >= first and day * DAY_S <= end_s
        ]
        return sum(kept for kept, _ in counted), sum(broken for _, broken in counted)

    def count_promise(self, at_s: float, *, kept: bool) -> None:
        """A promise came to its end."""
        today = int(at_s // DAY_S)
        if today not in self.promises:
            _forget_before(self.promises, today)
        before, broken = self.promises.get(today, (0, 0))
        self.promises[today] = (before + kept, broken + (not kept))

    def charge(self, rate: Spent, start_s: float, end_s: float, half_life_s: float) -> None:
        """Add what was held at a constant rate between two moments."""
        if end_s > start_s:
            self.charge_recent(rate, start_s, end_s, half_life_s)
            self._charge_days(rate, start_s, end_s)

    def charge_recent(self, rate: Spent, start_s: float, end_s: float, half_life_s: float) -> None:
        """The same where nobody asks for days; the end is after the start."""
        as_of_s = max(self.as_of_s, end_s)
        self.recent = self.recent.times(decay(as_of_s - self.as_of_s, half_life_s))
        self.recent.add(rate, decayed_seconds(start_s, end_s, as_of_s, half_life_s))
        self.as_of_s = as_of_s

    def _charge_days(self, rate: Spent, start_s: float, end_s: float) -> None:
        known = len(self.days)
        for day, seconds in seconds_by_day(start_s, end_s):
            self.days.setdefault(day, Spent()).add(rate, seconds)
        if len(self.days) > known:
            _forget_before(self.days, int(end_s // DAY_S))


def _forget_before(days: dict[int, Any], last: int) -> None:
    """What is too old on the last day."""
    for day in [day for day in days if day <= last - DAYS_KEPT]:
        del days[day]


def seconds_by_day(start_s: float, end_s: float) -> Iterator[tuple[int, float]]:
    """The days, in UTC, into which the time between two moments falls, and how much into each."""
    for day in range(int(start_s // DAY_S), int(end_s // DAY_S) + 1):
        seconds = min(end_s, (day + 1) * DAY_S) - max(start_s, day * DAY_S)
        if seconds > 0:
            yield day, seconds


def usage_key(user: str, project: str) -> str:
    return f"{user}\n{project}"


def decay(elapsed_s: float, half_life_s: float) -> float:
    """What is left of a unit after some time. A clock that went back makes nothing grow."""
    if elapsed_s <= 0 or half_life_s <= 0:
        return 1.0
    return float(0.5 ** (elapsed_s / half_life_s))


def decayed_seconds(start_s: float, end_s: float, now_s: float, half_life_s: float) -> float:
    """The length of an interval as remembered now: each instant decayed by its own age.

    Charged while a job runs or once when it ends, in one piece or in many, the sum is the same.
    """
    if half_life_s <= 0:
        return max(0.0, end_s - start_s)
    rate = log(2.0) / half_life_s
    return max(0.0, decay(now_s - end_s, half_life_s) - decay(now_s - start_s, half_life_s)) / rate


def rate_of(kept: Amount) -> Spent:
    """What keeping this from others spends in a second. Declared, never measured."""
    return Spent(kept.cpu_milli / 1000, kept.memory_mib / 1024, kept.device_milli / 1000)
