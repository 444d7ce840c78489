"""What live attempts have used so far, by account, without walking them.

Rates are added up by account and by the hour in which an attempt started, together
with the rates times the offset into it. Integers only, so that nothing drifts and the order in
which attempts come and go leaves no trace. The use up to now follows from a few sums, to within
a millionth for any half-life of a day or more.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from rota.core.derived.usage import Spent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.derived.lanes import Counter, LaneKey
    from rota.core.facts.job import JobSpec
    from rota.core.facts.resources import Amount

#: The width of a slot of starts.
SLOT_S = 3600

#: Sums of CPU, memory and device rates, then of the same times milliseconds into the slot.
Pace = list[int]


class Running:
    """Sums by ("user", name), ("project", name) and ("account", both)."""

    def __init__(self) -> None:
        self.of: dict[Counter, dict[int, Pace]] = {}

    def shift(self, spec: JobSpec | LaneKey, used: Amount, since_s: float, sign: int) -> None:
        """An amount is used since a moment (1), or is no longer (-1)."""
        user, project = spec.user, spec.project
        account = f"{user}\n{project}"
        counters = (("user", user), ("project", project), ("account", account))
        self.shift_of(counters, used, since_s, sign)

    def shift_of(
        self, counters: Iterable[Counter], used: Amount, since_s: float, sign: int
    ) -> None:
        """The same for these counters alone."""
        slot, rest_s = divmod(since_s, SLOT_S)
        offset = round(rest_s * 1000)
        rates = (used.cpu_milli, used.memory_mib, used.device_milli)
        for counter in counters:
            self._add(counter, int(slot), rates, offset, sign)

    def _add(
        self, counter: Counter, slot: int, rates: tuple[int, int, int], offset: int, sign: int
    ) -> None:
        slots = self.of.setdefault(counter, {})
        pace = slots.setdefault(slot, [0] * 6)
        for at, rate in enumerate(rates):
            if rate:
                pace[at] += sign * rate
                pace[at + 3] += sign * rate * offset
        if not any(pace):
            del slots[slot]
            if not slots:
                del self.of[counter]

    def decayed(self, counter: Counter, now_s: float, half_life_s: float) -> Spent:
        """Use up to now, each instant decayed by its own age."""
        rate = log(2.0) / half_life_s if half_life_s > 0 else 0.0
        cpu_s = gib_s = device_s = 0.0
        # Every pass asks this of every account: spelt out, as ``_add_slot`` and ``decay`` say it.
        for slot, pace in sorted(self.of.get(counter, {}).items()):
            cpu, memory, device, cpu_ms, memory_ms, device_ms = pace
            pivot_ms = cpu_ms / cpu if cpu else SLOT_S * 500.0
            age_s = now_s - (slot * SLOT_S + pivot_ms / 1000)
            left = 0.5 ** (age_s / half_life_s) if rate and age_s > 0 else 1.0
            length_s = max(0.0, 1.0 - left) / rate if rate else max(0.0, age_s)
            # A start later than the mean has used less, by what an instant of then weighs.
            late_s = left / 1000
            cpu_s += max(0.0, cpu * length_s - late_s * (cpu_ms - cpu * pivot_ms)) / 1000
            gib_s += max(0.0, memory * length_s - late_s * (memory_ms - memory * pivot_ms)) / 1024
            part_s = device * length_s - late_s * (device_ms - device * pivot_ms)
            device_s += max(0.0, part_s) / 1000
        return Spent(cpu_s, gib_s, device_s)

    def since(self, counter: Counter, now_s: float, start_s: float) -> Spent:
        """Use from a moment on up to now."""
        total = Spent()
        for slot, pace in sorted(self.of.get(counter, {}).items()):
            pivot_ms = _mean_start_ms(pace)
            pivot_s = slot * SLOT_S + pivot_ms / 1000
            if pivot_s <= start_s:
                _add_slot(total, pace, now_s - start_s, pivot_ms, 0.0)
            else:
                _add_slot(total, pace, max(0.0, now_s - pivot_s), pivot_ms, 1.0)
        return total


def _mean_start_ms(pace: Pace) -> float:
    """The mean start within the slot, weighted by CPUs, which all attempts have."""
    return pace[3] / pace[0] if pace[0] else SLOT_S * 500.0


def _add_slot(total: Spent, pace: Pace, length_s: float, pivot_ms: float, weight: float) -> None:
    """Add rate times length, corrected for starts before or after the pivot."""
    cpu, memory, device, cpu_ms, memory_ms, device_ms = pace
    late_s = weight / 1000
    total.cpu_s += max(0.0, cpu * length_s - late_s * (cpu_ms - cpu * pivot_ms)) / 1000
    gib_s = max(0.0, memory * length_s - late_s * (memory_ms - memory * pivot_ms)) / 1024
    total.memory_gib_s += gib_s
    part_s = max(0.0, device * length_s - late_s * (device_ms - device * pivot_ms)) / 1000
    total.device_s += part_s
