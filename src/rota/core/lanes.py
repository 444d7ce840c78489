"""Jobs that are ready to start, in lanes: one lane per class of jobs that get the same answer.

Jobs of one lane ask for the same thing under the same caps, so when the first of them does not
fit, none does. A pass therefore looks at lanes, not at jobs: a hundred thousand equal jobs cost
it as much as one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.job import JobSpec, Role, ServiceClass
    from rota.core.placing import Placement
    from rota.core.resources import Request

#: (-priority, id): the order inside a lane and between lanes.
Place = tuple[int, int]

#: Dead entries in front of the head are dropped for good once there are this many.
SLACK = 512


class Shape(NamedTuple):
    """What jobs must have in common to fit in the same places."""

    roles: tuple[Role, ...]
    placement: Placement
    service: ServiceClass

    @property
    def requests(self) -> tuple[Request, ...]:
        """One request per task, in task order."""
        return tuple(role.request for role in self.roles for _ in range(role.count))


class LaneKey(NamedTuple):
    """What jobs must have in common to share a lane: the same answer, and their order by age."""

    #: The number of the shape in ``Lanes.shapes``.
    shape: int
    queue: str
    group: str
    #: The array, when it has a cap of its own; else 0.
    capped_array: int
    user: str
    project: str
    priority: int
    time_limit_s: int
    estimate_s: int
    deadline_s: float
    type: str


#: A counter that a cap or quota hangs on, such as ("queue", "default") or ("user", "alice").
Counter = tuple[str, str | int]


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

    ``fresh`` lanes are looked at by the next pass. One that is found blocked leaves it until the
    thing that it waits for is given back: room (``open_shape``, by the pass, which knows what
    fits where), a place under a cap (``open_counter``) or anything at all (``reopen``).
    """

    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        self.where: dict[int, Lane] = {}
        self.fresh: dict[LaneKey, Lane] = {}
        #: Shapes by number; a number is not used again.
        self.shapes: dict[int, Shape] = {}
        self.by_shape: dict[int, dict[LaneKey, Lane]] = {}
        self._numbers: dict[Shape, int] = {}
        self._next_shape = 1
        self._waiting_for: dict[Counter, dict[LaneKey, Lane]] = {}

    def key_of(self, spec: JobSpec, capped_array: int) -> LaneKey:
        return LaneKey(
            self._number(Shape(spec.roles, spec.placement, spec.service)),
            spec.queue,
            spec.group,
            capped_array,
            spec.user,
            spec.project,
            spec.priority,
            spec.time_limit_s,
            spec.estimate_s,
            spec.deadline_s,
            spec.type,
        )

    def _number(self, shape: Shape) -> int:
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = self._next_shape
            self._next_shape += 1
            self.shapes[number] = shape
        return number

    def add(self, key: LaneKey, place: Place) -> None:
        old = self.where.get(place[1])
        if old is not None and (old.key != key or old.members[place[1]] != place):
            self.remove(place[1])
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = self.fresh[key] = Lane(key)
            self.by_shape.setdefault(key.shape, {})[key] = lane
        lane.add(place)
        self.where[place[1]] = lane

    def remove(self, item: int) -> None:
        lane = self.where.pop(item, None)
        if lane is None:
            return
        lane.remove(item)
        if not lane.members:
            self._close(lane)

    def _close(self, lane: Lane) -> None:
        key = lane.key
        del self.lanes[key]
        self.fresh.pop(key, None)
        siblings = self.by_shape[key.shape]
        del siblings[key]
        if not siblings:
            del self.by_shape[key.shape]
            del self._numbers[self.shapes.pop(key.shape)]

    def block(self, lane: Lane, counters: Iterable[Counter] = ()) -> None:
        """A pass found that the head of this lane cannot start, for want of room or of these."""
        self.fresh.pop(lane.key, None)
        for counter in counters:
            self._waiting_for.setdefault(counter, {})[lane.key] = lane

    def open_shape(self, shape: int) -> None:
        """There may be room for this shape."""
        self.fresh.update(self.by_shape.get(shape, {}))

    def open_counter(self, counter: Counter) -> None:
        """Somebody gave back what is counted here."""
        waiting = self._waiting_for.pop(counter, None)
        if waiting:
            self.fresh.update((k, lane) for k, lane in waiting.items() if self.lanes.get(k) is lane)

    def reopen(self) -> None:
        """The rules changed: every lane is worth another look."""
        self.fresh = dict(self.lanes)
        self._waiting_for.clear()
