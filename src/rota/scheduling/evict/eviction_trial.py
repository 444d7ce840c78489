"""Rooms as they would be without some victims: copies, so that trying changes nothing."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.scheduling.evict.node_units import TaskWish
from rota.scheduling.place.trial_rooms import count_in, place_among

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.evict.unit import Unit
    from rota.scheduling.place.node_room import Room


class Trial:
    """One attempt at placing a job, on copies of the rooms that it changes."""

    def __init__(
        self,
        rooms: Mapping[str, Room],
        pins: Callable[[str], Iterable[int]],
        shape: Shape,
        units: Iterable[Unit] = (),
    ) -> None:
        """``pins``: CPUs of a node that are promised although an attempt that leaves holds them."""
        self._copies: dict[str, Room] = {}
        self._rooms = rooms
        self._pins = pins
        self._shape = shape
        self._firm = shape.service is ServiceClass.GUARANTEED
        #: Nodes that something was given back on, and nodes that tasks were put on.
        self.freed: dict[str, None] = {}
        self.used: dict[str, None] = {}
        #: Nodes before this one have no room left for a request.
        self._full_before: dict[Request, int] = {}
        self.evict(units)

    def evict(self, units: Iterable[Unit]) -> None:
        """Give back everything that these units hold."""
        unpinned: dict[str, None] = {}
        for _, allocation in [pair for unit in units for pair in unit.held]:
            name = allocation.node
            if name in self._rooms:
                self._own(name).give_back(allocation)
                self.freed[name] = None
                unpinned.update(dict.fromkeys([name] if allocation.cpus else ()))
        for name in unpinned:
            # CPUs are no counters: those that another job was promised stay with it.
            if promised := set(self._pins(name)):
                room = self._copies[name]
                room.cpus = [cpu for cpu in room.cpus if cpu not in promised]

    def _own(self, name: str) -> Room:
        if name not in self._copies:
            self._copies[name] = self._rooms[name].copy()
        return self._copies[name]

    def room(self, name: str) -> Room:
        return self._copies.get(name) or self._rooms[name]

    def wish(self, name: str, request: Request) -> TaskWish:
        """What one task asks of a node."""
        alone = self._shape.placement.exclusive
        return TaskWish(request, self._firm, alone, alone and name in self.used)

    def put(self, name: str, request: Request) -> Allocation:
        """Place one task on a node that has room for it."""
        room, exclusive = self._own(name), self._shape.placement.exclusive
        allocation = room.choose(request, firm=self._firm, exclusive=exclusive)
        room.take(allocation)
        self.used[name] = None
        return allocation

    def free_for(self, request: Request, names: Sequence[str], also: Iterable[str]) -> str | None:
        """A node with room for one task: one of ``also``, else the first of ``names``.

        A node that has no room for a request does not get any in this trial by itself.
        """
        for name in also:
            if self.wish(name, request).fits(self.room(name)):
                return name
        at, least = self._full_before.get(request, 0), request.cpu_milli
        while at < len(names) and (
            (room := self.room(names[at])).cpu_milli < least
            or not self.wish(names[at], request).fits(room)
        ):
            at += 1
        self._full_before[request] = at
        return names[at] if at < len(names) else None

    def needed(self, name: str, request: Request, units: Sequence[Unit]) -> list[Unit]:
        """Units that make room for one task on a node, without those that it fits beside.

        The last are asked first.
        """
        room, wish = self.room(name), self.wish(name, request)
        kept: list[Unit] = []
        here = [[held for _, held in unit.held if held.node == name] for unit in units]
        for allocation in chain.from_iterable(here):
            room.shift(allocation, -1)
        for unit, given in zip(reversed(units), reversed(here), strict=True):
            for allocation in given:
                room.shift(allocation, 1)
            if not wish.fits(room):
                kept.append(unit)
                for allocation in given:
                    room.shift(allocation, -1)
        for _, allocation in [pair for unit in kept for pair in unit.held]:
            if allocation.node == name:
                room.shift(allocation, 1)
        return kept[::-1]

    def most(self, name: str) -> int:
        """How many tasks of the first role fit on a node by themselves."""
        return count_in(self.room(name), self._shape, self._shape.roles[0])

    def place(self, names: Sequence[str]) -> Sequence[Allocation] | None:
        """Room for all tasks that the job cannot do without, or None."""
        rooms = {name: self.room(name) for name in names}
        return place_among(rooms, self._shape, names)


class NodeWithout:
    """A node of a trial without some units or others: whether one task fits there.

    One set after the other is asked about, most of them alike: what they have in common stays
    given back. Tell ``fill`` at the end.
    """

    def __init__(self, trial: Trial, name: str, request: Request) -> None:
        self._name = name
        # Single CPUs do not decide whether it fits, and moving them costs most.
        self._room = trial.room(name)
        self._wish = trial.wish(name, request)
        self._gone: Sequence[Unit] = ()

    def fits_without(self, units: Sequence[Unit]) -> bool:
        """Whether the task fits when these are gone."""
        self._empty(units)
        return self._wish.fits(self._room)

    def fill(self) -> None:
        """Nobody is gone any more."""
        self._empty(())

    def _empty(self, units: Sequence[Unit]) -> None:
        gone, same = self._gone, 0
        while same < len(gone) and same < len(units) and gone[same] is units[same]:
            same += 1
        name, shift, self._gone = self._name, self._room.shift, units
        for some, sign in ((gone[same:], 1), (units[same:], -1)):
            for unit in some:
                for _, held in unit.held:
                    if held.node == name:
                        shift(held, sign)


def least_tasks(shape: Shape) -> Iterator[tuple[int, Request]]:
    """The tasks that a job cannot do without, and what each of them asks for."""
    first = 0
    for role in shape.roles:
        for task in range(first, first + shape.least_tasks(role)):
            yield task, role.request
        first += role.count
