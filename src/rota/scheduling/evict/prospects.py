"""Shapes that no eviction helps, from pass to pass, and what may change that.

A search for victims is in vain while all nodes together, without everything that a job may evict,
take fewer of its tasks than it needs, whatever is claimed. This is counted by node: a node that
changes is counted anew, and a search is worth its while only when the sum is enough.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.job import ServiceClass
from rota.scheduling.evict.lending import suspends
from rota.scheduling.evict.node_units import TaskWish
from rota.scheduling.order.orderings import MULTIFACTOR

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Shape
    from rota.scheduling.evict.claimant import Claimant
    from rota.scheduling.place.node_room import Room

    #: A node as it would be for a claimant; None: the shape cannot have the node.
    Look = Callable[[str, Claimant], "Emptied | None"]

INFINITE = float("inf")


def asks_all(cluster: Cluster, *, lends: bool, told: bool) -> bool:
    """Whether victims may be found for a lane although none of its nodes changed.

    What may be reclaimed changes with what is held anywhere, and so does a priority that counts
    the share. ``told``: a rule of the site names the job that gives way.
    """
    return lends or told or suspends(cluster) or cluster.policy.order.primary == MULTIFACTOR


class Emptied(NamedTuple):
    """A node without everything that a claimant may evict."""

    room: Room
    #: A claimant of a priority below this may evict no more.
    top: float
    #: What tells whether the node was given to others since.
    state: tuple[int, ...]


def state_of(room: Room) -> tuple[int, ...]:
    """Tells rooms of one node apart that only shrink."""
    return (room.holders, room.cpu_milli, room.memory_mib)


class Prospect:
    """What all nodes would take of one shape, for jobs up to a priority."""

    __slots__ = ("_least_cpu", "_needs", "_shape", "_sums", "_takes", "claimant", "is_vain",
                 "top")  # fmt: skip

    def __init__(self, shape: Shape, claimant: Claimant) -> None:
        self._shape = shape
        #: Any job of the shape that asked has no higher priority than this claimant.
        self.claimant = claimant
        self.top = INFINITE
        self._needs = [shape.least_tasks(role) for role in shape.roles]
        self._sums = [0] * len(self._needs)
        self.is_vain = True
        self._least_cpu = min(role.request.cpu_milli for role in shape.roles)
        #: By node, and its state then.
        self._takes: dict[str, tuple[list[int], tuple[int, ...]]] = {}

    def covers(self, priority: float) -> bool:
        """Whether a job of this priority asks in vain; from now on it counts among those."""
        if self.is_vain and self.claimant.priority < priority < self.top:
            self.claimant = self.claimant._replace(priority=priority)
        return self.is_vain and priority <= self.claimant.priority

    def count(self, name: str, emptied: Emptied | None) -> None:
        """Count one node anew."""
        before = self._takes.pop(name, None)
        if before is not None:
            self._add(before[0], -1)
        if emptied is None:
            return
        self.top = min(self.top, emptied.top)
        takes = [_takes(self._shape, at, most, emptied.room) for at, most in enumerate(self._needs)]
        if any(takes):
            self._takes[name] = (takes, emptied.state)
            self._add(takes, 1)

    def _add(self, takes: list[int], sign: int) -> None:
        self._sums = [have + sign * more for have, more in zip(self._sums, takes, strict=True)]
        self.is_vain = any(map(int.__lt__, self._sums, self._needs))

    def is_hopeless(self, name: str, emptied: Emptied) -> bool:
        """Whether a node that was not counted takes nothing of the shape, at a glance."""
        room = emptied.room
        if name in self._takes or self._least_cpu <= room.cpu_milli:
            return False
        self.top = min(self.top, emptied.top)
        return True

    def renew(self, rooms: Mapping[str, Room], look: Look) -> None:
        """Count the nodes anew that were given to others."""
        for name, (_, state) in [*self._takes.items()]:
            if state_of(rooms[name]) != state:
                self.count(name, look(name, self.claimant))


def _takes(shape: Shape, role: int, most: int, room: Room) -> int:
    """How many tasks of a role a room takes at the most, up to what matters."""
    request = shape.roles[role].request
    if request.cpu_milli > room.cpu_milli or request.memory_mib > room.memory_mib:
        return 0
    firm = shape.service is ServiceClass.GUARANTEED
    if not TaskWish(request, firm, shape.placement.exclusive, False).fits(room):
        return 0
    pairs = [
        (room.cpu_milli, request.cpu_milli),
        (room.memory_mib, request.memory_mib),
        (room.disk_mib, request.disk_mib),
    ]
    if most > 1 and request.device_count and not request.shared:
        offers = sum([each.offers(request) for each in room.devices.values()])
        pairs.append((offers, request.device_count))
    return min([most, *(have // asked for have, asked in pairs if asked)])


class Prospects:
    """The shapes that were searched for in vain. A Scheduler keeps it."""

    def __init__(self) -> None:
        self._of: dict[int, Prospect] = {}
        #: Nodes that changed since they were last counted.
        self.pending: dict[str, None] = {}
        #: When jobs on a node will have run long enough to be evicted.
        self._ripe_s: dict[str, float] = {}
        self._moments: list[tuple[float, str]] = []

    def is_vain(self, number: int) -> bool:
        """Whether no job of a shape that asked by now can be helped."""
        known = self._of.get(number)
        return known is not None and known.is_vain

    def get(self, number: int) -> Prospect | None:
        return self._of.get(number)

    def note(
        self, number: int, shape: Shape, claimant: Claimant, names: Sequence[str], look: Look
    ) -> bool:
        """A search found nothing on these nodes; whether that is so for want of room alone."""
        known = self._of.get(number)
        if known is not None and known.claimant.priority > claimant.priority:
            claimant = known.claimant
        found = self._of[number] = Prospect(shape, claimant)
        for name in names:
            found.count(name, look(name, claimant))
        return found.is_vain

    def recount(
        self,
        names: Iterable[str],
        look: Look,
        suits: Callable[[int, str], bool],
        only: int | None = None,
    ) -> list[int]:
        """These nodes changed: the shapes (of all, or this one) that may be helped now."""
        found: list[int] = []
        every = [*names]
        looks: dict[tuple[float, bool], list[tuple[str, Emptied | None]]] = {}
        for number in self._of if only is None else (only,):
            prospect = self._of[number]
            was_vain, claimant = prospect.is_vain, prospect.claimant
            rights = (claimant.priority, claimant.best_effort)
            if rights not in looks:
                looks[rights] = [(name, look(name, claimant)) for name in every]
            for name, emptied in looks[rights]:
                if emptied is None or not prospect.is_hopeless(name, emptied):
                    prospect.count(name, emptied if emptied and suits(number, name) else None)
            if was_vain and not prospect.is_vain:
                found.append(number)
        return found

    def changed(self, names: Iterable[str]) -> None:
        """These nodes are to be counted anew."""
        if self._of:
            self.pending.update(dict.fromkeys(names))

    def ripens(self, name: str, at_s: float) -> None:
        """Jobs on this node may be evicted from then on."""
        if at_s < self._ripe_s.get(name, INFINITE):
            self._ripe_s[name] = at_s
            heappush(self._moments, (at_s, name))

    def ripens_first(self, name: str, at_s: float) -> None:
        """The same for a node that was just looked at: what was known of it before is void."""
        if self._ripe_s.get(name) != at_s:
            self._ripe_s.pop(name, None)
            if at_s < INFINITE:
                self.ripens(name, at_s)

    @property
    def next_s(self) -> float:
        moments = self._moments
        while moments and self._ripe_s.get(moments[0][1]) != moments[0][0]:
            heappop(moments)
        return moments[0][0] if moments and self._of else INFINITE

    def on_time(self, now_s: float) -> None:
        while self._moments and self._moments[0][0] <= now_s:
            at_s, name = heappop(self._moments)
            if self._ripe_s.get(name) == at_s:
                del self._ripe_s[name]
                self.pending[name] = None

    def forget(self) -> list[int]:
        """Nothing is known any more; of which shapes there was something."""
        numbers = [*self._of]
        self._of.clear()
        self.pending.clear()
        return numbers

    def keep(self, numbers: Container[int]) -> None:
        """Let go of shapes that no job has any more."""
        for number in [number for number in self._of if number not in numbers]:
            del self._of[number]
