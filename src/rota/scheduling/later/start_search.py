"""The rooms of a moment to come, as far as one job is concerned.

Most nodes are followed in outline: sums, and for each device who is on it. Only where that does
not say enough (claims, several kinds of devices, a node to itself) and once enough room has come
together, the nodes in question are worked out in full.
"""

from __future__ import annotations

from operator import ge
from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.scheduling.place.trial_rooms import count_in, place_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import Role
    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.later.free_profile import Course
    from rota.scheduling.later.timeline import Asking, Leaving, Timeline
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import NodeClass

INFINITE = float("inf")


class Outline:
    """A node in sums, moving forward in time as those on it leave."""

    __slots__ = ("_at", "_leaving", "busy", "cpu_milli", "disk_mib", "memory_mib", "used_mib")

    def __init__(self, room: Room, leaving: list[tuple[float, Leaving]]) -> None:
        self.cpu_milli = room.cpu_milli
        self.memory_mib = room.memory_mib
        self.disk_mib = room.disk_mib
        #: By device: how many are on it (more than can leave, if it cannot be used), and memory.
        self.busy = {
            index: device.taken + device.sharers + device.foreign_pids + (not device.device.usable)
            for index, device in room.devices.items()
        }
        self.used_mib = {
            index: device.shared_mib + device.foreign_mib if not device.taken else 1 << 40
            for index, device in room.devices.items()
        }
        self._leaving = leaving
        self._at = 0

    def move(self, at_s: float) -> None:
        """On to a later moment."""
        leaving = self._leaving
        while self._at < len(leaving) and leaving[self._at][0] <= at_s:
            self._let_go(leaving[self._at][1].allocation)
            self._at += 1

    def _let_go(self, held: Allocation) -> None:
        self.cpu_milli += held.cpu_milli
        self.memory_mib += held.memory_mib
        self.disk_mib += held.disk_mib
        for index in held.devices:
            if index in self.busy:
                self.busy[index] -= 1
                share = held.device_memory_mib if held.shared else 1 << 40
                self.used_mib[index] = max(0, self.used_mib[index] - share)

    def count(self, request: Request, most: int, kind: NodeClass) -> int:
        """How many tasks fit."""
        if request.cpu_milli:
            most = min(most, self.cpu_milli // request.cpu_milli)
        if request.memory_mib:
            most = min(most, self.memory_mib // request.memory_mib)
        if request.disk_mib:
            most = min(most, self.disk_mib // request.disk_mib)
        if most > 0 and request.device_count:
            most = min(most, self._places(request, kind) // request.device_count)
        return max(0, most)

    def _places(self, request: Request, kind: NodeClass) -> int:
        if not request.shared:
            return sum(not busy for busy in self.busy.values())
        share = kind.share(request)
        size = kind.total.device_mib
        if not share:
            return 0
        return sum(max(0, size - used) // share for used in self.used_mib.values())


class Future:
    """Follows nodes forward until the job fits."""

    def __init__(self, timeline: Timeline, space: Space, asking: Asking) -> None:
        self._timeline = timeline
        self._space = space
        self._asking = asking
        self._outlines: dict[str, Outline] = {}
        shape = asking.shape
        self._exact = (
            shape.placement.exclusive
            or shape.service is ServiceClass.GUARANTEED
            or any(role.request.device_milli for role in shape.roles)
        )
        #: How many tasks of each role fit where, and in all.
        self._counts: list[dict[str, int]] = [{} for _ in shape.roles]
        self._sums = [0] * len(shape.roles)
        self._most = [role.count for role in shape.roles]
        self._needs = [role.min_count or role.count for role in shape.roles]
        #: Amounts say it all: no role asks for a device.
        self._in_steps = not any(role.request.device_count for role in shape.roles)
        #: Nodes where nothing can start before a moment, whoever leaves.
        self.shut_s: dict[str, float] = {}
        self._courses: dict[str, Course | None] = {}
        #: Somebody may outstay his time from then on, and change what was found.
        self.sure_until_s = INFINITE
        #: Whether enough has come together, by what is known of single nodes.
        self.suffices = not any(self._needs)
        #: When each node was looked at last: for a later moment it may have less, never more.
        self._looked_s: dict[str, float] = {}

    def look(self, name: str, at_s: float) -> None:
        """See how many tasks a node takes from a moment on."""
        counts = self._count(name, at_s)
        self._looked_s[name] = at_s
        for number, count in enumerate(counts):
            known = self._counts[number]
            before = known.get(name, 0)
            if count != before:
                self._sums[number] += count - before
                known[name] = count
                self.suffices = all(map(ge, self._sums, self._needs))

    def _count(self, name: str, at_s: float) -> list[int]:
        """How many tasks of each role a node takes."""
        kind = self._space.class_of[name]
        roles = self._asking.shape.roles
        if self._exact or kind.mixed:
            room = self._room(name, at_s)
            return [count_in(room, self._asking.shape, role) for role in roles]
        course = self._course(name) if self._in_steps else None
        if course is None:
            outline = self._outline(name, at_s)
            return [outline.count(role.request, role.count, kind) for role in roles]
        until_s = at_s + self._asking.run_s
        looks = [course.look(role.request, role.count, at_s, until_s) for role in roles]
        if len(looks) == 1 and not looks[0][0]:
            self.shut_s[name] = looks[0][1]
        return [count for count, _ in looks]

    @property
    def is_single(self) -> bool:
        """Whether one task without devices is all there is to place, and amounts say it all."""
        return self._in_steps and not self._exact and self._is_plain() and self._most == [1]

    def soonest(self, names: Iterable[str], until_s: float) -> tuple[float, str] | None:
        """When and where a single task first fits, going from step to step on each node.

        ("", infinite): nowhere. None: this way cannot tell, as where it seems to fit now already.
        """
        request, run_s = self._asking.shape.roles[0].request, self._asking.run_s
        now_s = self._timeline.now_s
        best_s, best = until_s, ""
        for name in sorted(names):
            course = self._course(name)
            if course is None or self._space.class_of[name].mixed:
                return None
            self.sure_until_s = min(self.sure_until_s, course.good_until_s)
            count, at_s = course.look(request, 1, now_s, now_s + run_s)
            if count:
                return None
            while not count and (at_s < best_s or (at_s == best_s < INFINITE and not best)):
                count, open_s = course.look(request, 1, at_s, at_s + run_s)
                if count:
                    best_s, best = at_s, name
                at_s = open_s
        return (best_s, best) if best else (INFINITE, "")

    def _course(self, name: str) -> Course | None:
        if name not in self._courses:
            self._courses[name] = self._timeline.course(name, self._asking)
        return self._courses[name]

    def _outline(self, name: str, at_s: float) -> Outline:
        if name in self._timeline.claims:
            return Outline(self._room(name, at_s), [])
        outline = self._outlines.get(name)
        if outline is None:
            timeline = self._timeline
            leaving = [(timeline.leaves_s(item), item) for item in timeline.leaving(name)]
            leaving.sort(key=lambda pair: pair[0])
            outline = self._outlines[name] = Outline(self._space.rooms[name], leaving)
        outline.move(at_s)
        return outline

    def _room(self, name: str, at_s: float) -> Room:
        timeline, asking = self._timeline, self._asking
        return timeline.window(name, at_s, at_s + timeline.stay_s(name, asking), asking)

    def place_at(self, name: str, at_s: float) -> list[Allocation] | None:
        """Room for all tasks on one node from a moment on."""
        rooms = {name: self._room(name, at_s)}
        return place_in(rooms, self._asking.shape, self._space.class_of)

    def find(self, at_s: float) -> list[Allocation] | None:
        """Room for all tasks, where enough seems to have come together."""
        shape = self._asking.shape
        if self._timeline.claims and self._look_again(at_s) and not self.suffices:
            return None
        names = self._enough() if self._is_plain() else self._all()
        rooms = {name: self._room(name, at_s) for name in names}
        return place_in(rooms, shape, self._space.class_of)

    def _look_again(self, at_s: float) -> bool:
        """Claims may have come nearer since a node was looked at; whether there were such nodes."""
        stale = [
            name
            for name in self._timeline.claims
            if self._looked_s.get(name, at_s) < at_s
            and any(known.get(name) for known in self._counts)
        ]
        for name in stale:
            self.look(name, at_s)
        return bool(stale)

    def _is_plain(self) -> bool:
        placement = self._asking.shape.placement
        return len(self._counts) == 1 and not placement.topology and not placement.node_count

    def _enough(self) -> list[str]:
        """The fewest nodes that take all tasks of the only role."""
        role: Role = self._asking.shape.roles[0]
        left = role.min_count or role.count
        chosen: list[str] = []
        for name, count in sorted(self._counts[0].items(), key=lambda item: (-item[1], item[0])):
            if left <= 0:
                break
            chosen.append(name)
            left -= count
        return chosen

    def _all(self) -> list[str]:
        return [*dict.fromkeys(n for known in self._counts for n, count in known.items() if count)]
