"""Jobs that are ready to start, in lanes: one lane per class of jobs that get the same answer.

Jobs of one lane ask for the same thing under the same caps, so when the first of them does not
fit, none does. A pass therefore looks at lanes, not at jobs: a hundred thousand equal jobs cost
it as much as one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.job import JobSpec, Role

#: (-priority, id): the order inside a lane and between lanes.
Place = tuple[int, int]

#: Dead entries in front of the head are dropped for good once there are this many.
SLACK = 512


class LaneKey(NamedTuple):
    """What jobs must have in common to share a lane."""

    roles: tuple[Role, ...]
    queue: str
    group: str
    #: The array, when it has a cap of its own; else 0.
    capped_array: int


def lane_key(spec: JobSpec, capped_array: int) -> LaneKey:
    return LaneKey(spec.roles, spec.queue, spec.group, capped_array)


class Lane:
    """Ready jobs (or whole arrays) of one class, in order."""

    __slots__ = ("_entries", "_head", "key", "members")

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        #: id -> its place. The truth; the sorted list may hold dead entries.
        self.members: dict[int, Place] = {}
        self._entries: list[Place] = []
        self._head = 0

    def __len__(self) -> int:
        return len(self.members)

    def add(self, place: Place) -> None:
        known = self.members.get(place[1])
        if known == place:
            return
        self.members[place[1]] = place
        entries = self._entries
        if not entries or entries[-1] < place:
            entries.append(place)
            return
        at = bisect_left(entries, place, self._head)
        if at == len(entries) or entries[at] != place:
            insort(entries, place, self._head)

    def remove(self, item: int) -> None:
        self.members.pop(item, None)
        entries, head = self._entries, self._head
        while head < len(entries) and not self._alive(entries[head]):
            head += 1
        self._head = head
        if head > SLACK and head * 2 > len(entries):
            del entries[:head]
            self._head = 0

    def walk(self) -> Iterator[Place]:
        """Members in order. Do not change the lane while walking."""
        for at in range(self._head, len(self._entries)):
            place = self._entries[at]
            if self._alive(place):
                yield place

    def _alive(self, place: Place) -> bool:
        return self.members.get(place[1]) == place


class Lanes:
    """All lanes, and which of them may have an answer other than last time's.

    ``stale`` holds the lanes that a pass found blocked; they stay out of passes until room or a
    cap is given back (``reopen``). A lane that gained a better head is looked at again.
    """

    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        self.where: dict[int, Lane] = {}
        self.fresh: dict[LaneKey, Lane] = {}

    def add(self, key: LaneKey, place: Place) -> None:
        old = self.where.get(place[1])
        if old is not None and (old.key != key or old.members[place[1]] != place):
            self.remove(place[1])
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = self.fresh[key] = Lane(key)
        lane.add(place)
        self.where[place[1]] = lane

    def remove(self, item: int) -> None:
        lane = self.where.pop(item, None)
        if lane is None:
            return
        lane.remove(item)
        if not lane.members:
            del self.lanes[lane.key]
            self.fresh.pop(lane.key, None)

    def block(self, lane: Lane) -> None:
        """A pass found that the head of this lane cannot start."""
        self.fresh.pop(lane.key, None)

    def reopen(self) -> None:
        """Something was given back: every lane is worth another look."""
        self.fresh = dict(self.lanes)
