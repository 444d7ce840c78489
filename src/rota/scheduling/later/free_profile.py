"""The course of one node: what is free on it from each moment to the next, in plain amounts.

A step begins whenever somebody leaves or a claim begins or ends. What stays free between two
moments is the least of the steps between them, so a search for a start looks at a few numbers
instead of playing all comings and goings again. Devices are not followed here: which of them
are free matters, not how many.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.place.node_room import Room

INFINITE = float("inf")


class Moment(NamedTuple):
    """From then on this much is free again (1), or taken (-1)."""

    at_s: float
    sign: int
    allocation: Allocation


class Course:
    """Free amounts by step; the first step is now."""

    __slots__ = ("_cpu", "_disk", "_memory", "_starts_s", "good_until_s")

    def __init__(self, room: Room, moments: Iterable[Moment], good_until_s: float) -> None:
        """``moments`` in order of time; nobody outstays his time before ``good_until_s``."""
        self.good_until_s = good_until_s
        cpu, memory, disk = room.cpu_milli, room.memory_mib, room.disk_mib
        self._starts_s = [-INFINITE]
        self._cpu, self._memory, self._disk = [cpu], [memory], [disk]
        for at_s, sign, held in moments:
            cpu += sign * held.cpu_milli
            memory += sign * held.memory_mib
            disk += sign * held.disk_mib
            if at_s > self._starts_s[-1]:
                self._starts_s.append(at_s)
                self._cpu.append(cpu)
                self._memory.append(memory)
                self._disk.append(disk)
            else:
                self._cpu[-1], self._memory[-1], self._disk[-1] = cpu, memory, disk

    def is_of(self, room: Room, now_s: float) -> bool:
        """Whether it begins with what a room has now, and is right about all who are there."""
        return (
            self._cpu[0] == room.cpu_milli
            and self._memory[0] == room.memory_mib
            and self._disk[0] == room.disk_mib
            and now_s < self.good_until_s
        )

    def shift(self, start_s: float, end_s: float, held: Allocation, sign: int) -> None:
        """From one moment to another this much less (-1) or more (1) is free."""
        first, last = self._step_at(start_s), self._step_at(end_s)
        for amounts, amount in (
            (self._cpu, held.cpu_milli),
            (self._memory, held.memory_mib),
            (self._disk, held.disk_mib),
        ):
            if amount:
                more = sign * amount
                amounts[first:last] = [free + more for free in amounts[first:last]]

    def _step_at(self, at_s: float) -> int:
        """The number of the step that begins at a moment; made when there is none."""
        at = bisect_left(self._starts_s, at_s)
        if at == len(self._starts_s) or self._starts_s[at] != at_s:
            self._starts_s.insert(at, at_s)
            for amounts in (self._cpu, self._memory, self._disk):
                amounts.insert(at, amounts[at - 1])
        return at

    def __len__(self) -> int:
        return len(self._cpu)

    def look(self, request: Request, most: int, from_s: float, until_s: float) -> tuple[int, float]:
        """How many tasks fit all the time between two moments, and from when on one may.

        Whoever wants to stay as long cannot begin before the last step is over that has too
        little for him.
        """
        steps = self._starts_s
        first = bisect_right(steps, from_s) - 1
        last = max(bisect_left(steps, until_s, first), first + 1)
        open_s = from_s
        for asked, amounts in (
            (request.cpu_milli, self._cpu),
            (request.memory_mib, self._memory),
            (request.disk_mib, self._disk),
        ):
            if not asked:
                continue
            least = min(amounts[first:last])
            if least >= asked:
                most = min(most, least // asked)
                continue
            most, at = 0, last - 1
            while amounts[at] >= asked:
                at -= 1
            open_s = max(open_s, steps[at + 1] if at + 1 < len(steps) else INFINITE)
        return most, open_s
