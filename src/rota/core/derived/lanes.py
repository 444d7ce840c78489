"""Jobs that are ready to start, in lanes: one lane per class of jobs that get the same answer.

Jobs of one lane ask for the same thing under the same caps, so when the first of them does not
fit, none does. A pass therefore looks at lanes, not at jobs: a hundred thousand equal jobs cost
it as much as one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rota.core.derived.log import Log
from rota.core.facts.features import needs_of
from rota.core.facts.placing import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.facts.features import Feature
    from rota.core.facts.job import JobSpec, Role, ServiceClass
    from rota.core.facts.placing import Placement
    from rota.core.facts.resources import Request

#: (-priority, id): the order inside a lane and between lanes.
Place = tuple[int, int]

#: Dead entries are dropped for good once there are this many more of them than living ones.
SLACK = 512
#: Shapes without a lane that keep their numbers.
IDLE_MAX = 256


class Shape(NamedTuple):
    """What jobs must have in common to fit in the same places."""

    roles: tuple[Role, ...]
    placement: Placement
    service: ServiceClass
    #: Its own labels, where it says something about neighbours: it may be one of those meant.
    labels: tuple[tuple[str, str], ...] = ()
    #: Its user, where some node starts the jobs of one user only.
    user: str = ""
    #: What it needs that not every engine has.
    needs: tuple[Feature, ...] = ()
    #: A service: best on nodes where little else is.
    spread: bool = False

    @property
    def task_count(self) -> int:
        return sum([role.count for role in self.roles])

    @property
    def requests(self) -> tuple[Request, ...]:
        """One request per task, in task order."""
        return tuple(role.request for role in self.roles for _ in range(role.count))

    def least_tasks(self, role: Role) -> int:
        """With how many tasks of a role a job starts at the least; spread ones start together."""
        return role.count if self.placement.node_count else role.min_count or role.count


def shape_of(
    spec: JobSpec, partial: float = 1.0, *, personal: bool = False, clustered: bool = False
) -> Shape:
    """``partial``: a gang that says nothing itself starts with this share of its tasks.

    ``personal``: whether there are nodes for which it matters whose job it is. ``clustered``:
    whether there are several clusters, so that the tasks of a job must stay in one.
    """
    placement = spec.placement
    if clustered and not placement.topology and spec.task_count > 1:
        placement = replace(placement, topology=CLUSTER)
    labels = tuple(sorted(spec.labels.items())) if placement.affinities else ()
    roles = spec.roles
    if partial < 1.0:
        roles = tuple(
            role if role.count == 1 or role.min_count else _least(role, partial) for role in roles
        )
    user = spec.user if personal else ""
    return Shape(roles, placement, spec.service, labels, user, needs_of(spec), spec.is_service)


def _least(role: Role, partial: float) -> Role:
    return replace(role, min_count=max(1, ceil(role.count * partial)))


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
    predicted_s: int = 0
    #: Of a job that devices are kept for: nobody else gets the same answer.
    reservation: int = 0
    #: It can save its work when it is asked to: it may begin where it cannot stay.
    saves: bool = False
    vdc: str = ""
    licenses: tuple[tuple[str, int], ...] = ()


def key_with(shape: int, spec: JobSpec, capped_array: int = 0) -> LaneKey:
    """The key of a job whose shape has this number; 0 for one that waits in no lane."""
    return LaneKey(
        shape,
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
        spec.predicted_s,
        spec.reservation,
        bool(spec.checkpoint_signal or spec.save_signal or spec.warn_signal),
        spec.placement.vdc,
        spec.licenses,
    )


#: A counter that a cap or quota hangs on, such as ("queue", "default") or ("user", "alice").
Counter = tuple[str, str | int]


class Lane:
    """Ready jobs (or whole arrays) of one class, in order."""

    __slots__ = ("_entries", "_head", "account", "key", "members", "number")

    def __init__(self, key: LaneKey, number: int = 0) -> None:
        self.key = key
        #: User and project.
        self.account = (key.user, key.project)
        #: Stands for the lane where a whole key would be long-winded; not used again.
        self.number = number
        #: id -> its place. The truth; the sorted list may hold dead entries.
        self.members: dict[int, Place] = {}
        self._entries: list[Place] = []
        self._head = 0

    @property
    def first(self) -> int:
        """The job or array that stands in front; 0 when there is none."""
        if self._head < len(self._entries):
            place = self._entries[self._head]
            if self.members.get(place[1]) == place:
                return place[1]
        return next(self.walk(), (0, 0))[1]

    def __len__(self) -> int:
        return len(self.members)

    def add(self, place: Place) -> bool:
        """Take a member in; whether it stands in front of members that were there before."""
        known = self.members.get(place[1])
        if known == place:
            return False
        self.members[place[1]] = place
        entries = self._entries
        if not entries or entries[-1] < place:
            entries.append(place)
            return False
        at = bisect_left(entries, place, self._head)
        if at == len(entries) or entries[at] != place:
            insort(entries, place, self._head)
        return True

    def remove(self, item: int) -> None:
        place = self.members.pop(item, None)
        entries, head = self._entries, self._head
        if entries and entries[-1] == place:
            # Elements stand behind their array for a moment each, on their way to a node.
            entries.pop()
        while head < len(entries) and not self._alive(entries[head]):
            head += 1
        self._head = head
        if len(entries) > SLACK + 2 * len(self.members):
            self._entries = [place for place in entries[head:] if self._alive(place)]
            self._head = 0

    def walk(self) -> Iterator[Place]:
        """Members in order. Do not change the lane while walking."""
        entries, at = self._entries, self._head
        while at < len(entries):
            place = entries[at]
            at += 1
            if self._alive(place):
                yield place

    def twin(self) -> Lane:
        """The same members; changing one leaves the other as it is."""
        twin = Lane(self.key, self.number)
        twin.members = self.members.copy()
        twin._entries = self._entries[self._head :]
        return twin

    def _alive(self, place: Place) -> bool:
        return self.members.get(place[1]) == place


class Lanes:
    """All lanes, and which of them changed: a new lane, or one with another job in front.

    What is given back under a cap is told by its counter. Schedulers read both logs and change
    nothing here.
    """

    def __init__(self) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        self.where: dict[int, Lane] = {}
        #: By the lane's number, as all that follow.
        self.by_number: dict[int, Lane] = {}
        #: Shapes by number, some of them without a lane; a number is not used again.
        self.shapes: dict[int, Shape] = {}
        self.by_shape: dict[int, dict[int, Lane]] = {}
        self._numbers: dict[Shape, int] = {}
        #: Shapes without a lane, the one that is idle for the longest first.
        self._idle: dict[int, None] = {}
        #: The rule of the policy for gangs; see ``shape_of``.
        self.partial = 1.0
        #: Whether some node starts the jobs of one user only, and whether there are clusters.
        self.personal = self.clustered = False
        self._next_shape = 1
        self._next_lane = 1
        #: Numbers of lanes that are new, have a new job in front, or are closed.
        self.changed: Log[int] = Log()
        #: Counters under which a place was given back.
        self.given_back: Log[Counter] = Log()

    def twin(self) -> Lanes:
        """A copy to try things on, with the same numbers."""
        twin = Lanes()
        twin.lanes = {key: lane.twin() for key, lane in self.lanes.items()}
        twin.by_number = {lane.number: lane for lane in twin.lanes.values()}
        copies = twin.by_number
        twin.where = {item: copies[lane.number] for item, lane in self.where.items()}
        twin.shapes = self.shapes.copy()
        twin.by_shape = {
            shape: {number: copies[number] for number in lanes}
            for shape, lanes in self.by_shape.items()
        }
        twin._numbers, twin._idle = self._numbers.copy(), self._idle.copy()
        twin._next_shape, twin._next_lane = self._next_shape, self._next_lane
        twin.partial, twin.personal = self.partial, self.personal
        twin.clustered = self.clustered
        return twin

    def key_of(self, spec: JobSpec, capped_array: int) -> LaneKey:
        return key_with(self._number(self.shape_of(spec)), spec, capped_array)

    def shape_of(self, spec: JobSpec) -> Shape:
        """The shape with which a job stands in a lane here."""
        return shape_of(spec, self.partial, personal=self.personal, clustered=self.clustered)

    def _number(self, shape: Shape) -> int:
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = self._next_shape
            self._next_shape += 1
            self.shapes[number] = shape
            self._rest(number)
        return number

    def _rest(self, number: int) -> None:
        """The shape has no lane. Its number is kept for a while: most shapes come again."""
        self._idle[number] = None
        if len(self._idle) > IDLE_MAX:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._numbers[self.shapes.pop(oldest)]

    def add(self, key: LaneKey, place: Place) -> None:
        lane = self.lanes.get(key)
        if lane is None:
            number = self._next_lane
            self._next_lane += 1
            lane = self.lanes[key] = Lane(key, number)
            self.by_number[number] = lane
            self.changed.add(number)
            self.by_shape.setdefault(key.shape, {})[number] = lane
            self._idle.pop(key.shape, None)
        # Only now, so that the shape keeps its number when the lane that it leaves is closed.
        old = self.where.get(place[1])
        if old is not None and old is not lane:
            self.remove(place[1])
        self.where[place[1]] = lane
        if lane.add(place):
            # What was said to the job behind may not hold for this one.
            self.changed.add(lane.number)

    def remove(self, item: int) -> None:
        lane = self.where.pop(item, None)
        if lane is None:
            return
        lane.remove(item)
        if not lane.members:
            self._close(lane)

    def _close(self, lane: Lane) -> None:
        key = lane.key
        del self.lanes[key], self.by_number[lane.number]
        self.changed.add(lane.number)
        siblings = self.by_shape[key.shape]
        del siblings[lane.number]
        if not siblings:
            del self.by_shape[key.shape]
            self._rest(key.shape)
