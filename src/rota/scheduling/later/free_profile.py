"""The profile of one node: what will be free there from each moment to the next.

A step begins whenever an attempt leaves or a claim begins or ends. A step says how much more than
now is free from then on: the present itself is read from the node's room, so nothing that a pass
takes there makes a profile untrue. Amounts are plain sums. Devices are one integer, with a field
of bits for each (how many hold it, how much memory they take) and one for the node (how many
attempts are there, how many of them alone), so that fields of many steps are joined at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.place.node_room import DeviceRoom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.facts.node import Allocation, Device
    from rota.core.facts.resources import Request
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import NodeClass

INFINITE = float("inf")
#: The bits of a field: shared memory in MiB, how many hold a device alone, how many are on it.
#: In the field of the node: attempts there, and how many have the node to themselves.
FIELD = (1 << 64) - 1
MIB = (1 << 32) - 1
TAKEN_AT, COUNT_AT = 32, 48
COUNT = (1 << 16) - 1
ALONE_AT = 32
ALONE = COUNT << ALONE_AT
#: More than any job asks for.
NO_BOUND = 1 << 60
#: The most needs that are remembered.
NEEDS_MAX = 4096


class Need(NamedTuple):
    """What one task asks of the nodes of a class."""

    #: CPUs, memory and disk; where a node promises more than it has, also what is really there.
    amounts: tuple[int, ...]
    #: What must not be on the node: attempts that have it to themselves, any attempt, or nothing.
    bars: int = ALONE
    devices: int = 0
    #: (where its field begins, its memory, what a task takes of that or 0) of each that would do.
    places: tuple[tuple[int, int, int], ...] = ()
    shared: bool = False
    #: Whether a count is right; else it is the most that there can be.
    exact: bool = True


@lru_cache(maxsize=NEEDS_MAX)
def need_of(kind: NodeClass, request: Request, *, firm: bool, bars: int = ALONE) -> Need:
    amounts = amounts_of(request, firm=firm)
    if not request.device_count:
        return Need(amounts, bars)
    places = []
    for number, device in enumerate(kind.spec.devices):
        share = request.share_of(device.memory_mib) if request.shared else 0
        if DeviceRoom(device).matches(request) and (share > 0) == request.shared:
            places.append((64 * (number + 1), device.memory_mib, share))
    cut_up = any(device.parent >= 0 for device in kind.spec.devices)
    several = request.shared and request.device_count > 1
    exact = not (cut_up or several)
    return Need(amounts, bars, request.device_count, tuple(places), request.shared, exact)


def amounts_of(held: Request | Allocation, *, firm: bool) -> tuple[int, ...]:
    """Amounts in the order of a profile; ``firm`` ones count against what really exists as well."""
    if not firm:
        return held.cpu_milli, held.memory_mib, held.disk_mib
    return held.cpu_milli, held.memory_mib, held.disk_mib, held.cpu_milli, held.memory_mib


def busy_of(room: Room, *, devices: bool = True) -> int:
    """What is on a node and its devices now, as one integer."""
    packed = room.holders | room.alone << ALONE_AT
    if devices:
        at = 64
        for device in room.devices.values():
            taken, count = device.taken, device.taken + device.sharers + device.foreign_pids
            if count or device.foreign_mib:
                used = device.shared_mib + device.foreign_mib
                packed |= (used | taken << TAKEN_AT | count << COUNT_AT) << at
            at += 64
    return packed


class Profile:
    """What comes back, and what is claimed, by step; the first step is now."""

    __slots__ = ("_amounts", "_busy", "_places", "_starts_s", "claimed")

    def __init__(self, devices: Sequence[Device]) -> None:
        #: By device: where its field begins.
        self._places = {
            device.index: (64 * (number + 1), device) for number, device in enumerate(devices)
        }
        self._starts_s = [-INFINITE]
        self._amounts: tuple[list[int], ...] = ([0], [0], [0], [0], [0])
        self._busy = [0]
        #: How many claims there are: without any there is never less than before.
        self.claimed = 0

    def copy(self) -> Profile:
        twin = object.__new__(Profile)
        twin._places, twin.claimed = self._places, self.claimed
        twin._starts_s, twin._busy = self._starts_s.copy(), self._busy.copy()
        twin._amounts = tuple([steps.copy() for steps in self._amounts])
        return twin

    def __len__(self) -> int:
        return len(self._starts_s)

    def _busy_by(self, held: Allocation) -> int:
        packed = 1 | held.exclusive << ALONE_AT
        for index in held.devices:
            if index in self._places:
                at, device = self._places[index]
                used = held.share_of(device) if held.shared else 1 << TAKEN_AT
                packed += (used | 1 << COUNT_AT) << at
        return packed

    def append(self, at_s: float, held: Allocation, sign: int) -> None:
        """From then on this is free as well (1), or no longer; not before what came last."""
        starts, busy = self._starts_s, self._busy
        if at_s > starts[-1]:
            starts.append(at_s)
            busy.append(busy[-1])
            for steps in self._amounts:
                steps.append(steps[-1])
        busy[-1] -= sign * self._busy_by(held)
        for steps, amount in zip(self._amounts, amounts_of(held, firm=held.firm), strict=False):
            steps[-1] += sign * amount

    def claim(self, start_s: float, end_s: float, held: Allocation, sign: int) -> None:
        """A claim has a right to this between two moments (1), or no longer (-1)."""
        self.claimed += sign
        self.shift(start_s, end_s, held, -sign)

    def shift(self, start_s: float, end_s: float, held: Allocation, sign: int) -> None:
        """Between two moments this is free as well (1), or no longer (-1)."""
        first = self._step_at(start_s)
        last = len(self._starts_s) if end_s == INFINITE else self._step_at(end_s)
        for steps, amount in zip(self._amounts, amounts_of(held, firm=held.firm), strict=False):
            if amount:
                more = sign * amount
                steps[first:last] = [free + more for free in steps[first:last]]
        gone = sign * self._busy_by(held)
        self._busy[first:last] = [busy - gone for busy in self._busy[first:last]]

    def _step_at(self, at_s: float) -> int:
        """The number of the step that begins at a moment; made when there is none."""
        at = bisect_left(self._starts_s, at_s)
        if at == len(self._starts_s) or self._starts_s[at] != at_s:
            self._starts_s.insert(at, at_s)
            self._busy.insert(at, self._busy[at - 1])
            for steps in self._amounts:
                steps.insert(at, steps[at - 1])
        return at

    def _span(self, from_s: float, until_s: float) -> tuple[int, int]:
        """The steps between two moments, as far as they can have less than the first of them."""
        first = bisect_right(self._starts_s, from_s) - 1
        if not self.claimed:
            return first, first + 1
        return first, max(bisect_left(self._starts_s, until_s, first), first + 1)

    def look(
        self, room: Room, need: Need, most: int, from_s: float, until_s: float
    ) -> tuple[int, float]:
        """How many tasks fit all the time between two moments, and from when on one may."""
        first, last = self._span(from_s, until_s)
        starts, count, open_at = self._starts_s, most, first
        frees: tuple[int, ...] = (room.cpu_milli, room.memory_mib, room.disk_mib)
        if len(need.amounts) > len(frees):
            frees = (*frees, room.firm_cpu_milli, room.firm_memory_mib)
        for asked, free, steps in zip(need.amounts, frees, self._amounts, strict=False):
            least = free + (steps[first] if last == first + 1 else min(steps[first:last]))
            if least < asked:
                open_at = max(open_at, self._open_at(steps, asked - free, first, last))
            elif asked:
                count = min(count, least // asked)
        if open_at == first:
            if not (self.claimed or room.alone or need.bars == FIELD or need.devices):
                return count, from_s
            busy = busy_of(room, devices=need.devices > 0)
            count = min(count, self._takes(busy, need, first, last))
            if count:
                return count, from_s
            open_at = self._opens_at(busy, need, first, last)
        return 0, starts[open_at] if open_at < len(starts) else INFINITE

    def _open_at(self, steps: list[int], missing: int, first: int, last: int) -> int:
        """The first step that a task can begin with, by one amount.

        Without claims there is ever more; else the task cannot begin before the last step is over
        that has too little.
        """
        if not self.claimed:
            return bisect_left(steps, missing, first)
        at = last - 1
        while steps[at] >= missing:
            at -= 1
        return at + 1

    def _opens_at(self, busy: int, need: Need, first: int, last: int) -> int:
        """The same by devices: each step may have enough of them, but not all steps the same."""
        at = last - 1
        if self.claimed:
            while at > first and self._takes(busy, need, at, at + 1):
                at -= 1
            return at + 1
        while at < len(self._busy) and not self._takes(busy, need, at, at + 1):
            at += 1
        return at

    def next_s(self, at_s: float) -> float:
        at = bisect_right(self._starts_s, at_s)
        return self._starts_s[at] if at < len(self._starts_s) else INFINITE

    def _takes(self, busy: int, need: Need, first: int, last: int) -> int:
        """How many tasks the devices take all through some steps, and the node itself."""
        states = [busy + step for step in self._busy[first:last]]
        joined = reduce(or_, states)
        if joined & need.bars:
            return 0
        if not need.devices:
            return NO_BOUND
        if not need.shared:
            return sum([not joined >> at & FIELD for at, _, _ in need.places]) // need.devices
        found = 0
        for at, size, share in need.places:
            fields = [state >> at & FIELD for state in states]
            if not reduce(or_, fields) >> TAKEN_AT & COUNT:
                used = max([field & MIB for field in fields])
                found += max(0, size - used) // share
        return found // need.devices

    def window(self, room: Room, from_s: float, until_s: float) -> Room:
        """What is free all the time between two moments, as a room to choose from."""
        first, last = self._span(from_s, until_s)
        low = room.copy(pins=False)
        least = [min(steps[first:last]) for steps in self._amounts]
        low.cpu_milli += least[0]
        low.memory_mib += least[1]
        low.disk_mib += least[2]
        low.firm_cpu_milli += least[3]
        low.firm_memory_mib += least[4]
        busy = busy_of(room)
        states = [busy + step for step in self._busy[first:last]]
        low.holders = max([state & MIB for state in states])
        low.alone = max([state >> ALONE_AT & COUNT for state in states])
        at = 64
        for device in low.devices.values():
            fields = [state >> at & FIELD for state in states]
            device.taken = max([field >> TAKEN_AT & COUNT for field in fields])
            device.shared_mib = max([field & MIB for field in fields]) - device.foreign_mib
            sharers = [(field >> COUNT_AT) - (field >> TAKEN_AT & COUNT) for field in fields]
            device.sharers = max(sharers) - device.foreign_pids
            at += 64
        return low
