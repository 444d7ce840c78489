"""What each blocked lane waits for, and which lanes an event opens.

A pass files every lane that it finds blocked under one value. A node that changes, a place that
is given back, a claim that moves or a moment that comes opens the lanes that are filed under it.
Opening one lane too many costs a look and changes no decision.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeVar

from rota.scheduling.outcomes import NO_ROOM, Barred, Capped, ClaimedRoom, Vetoed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from rota.core.derived.lanes import Counter, Lane, Lanes
    from rota.scheduling.outcomes import Wait

K = TypeVar("K", bound="Hashable")

INFINITE = float("inf")


class _Files(dict[K, dict[int, None]]):
    """Lanes by what they are filed under."""

    def put(self, key: K, number: int) -> None:
        self.setdefault(key, {})[number] = None

    def drop(self, key: K, number: int) -> None:
        under = self.get(key)
        if under is not None and under.pop(number, 0) is None and not under:
            del self[key]


class Waits:
    """Which lanes are open, and what each one was last found to wait for.

    An open lane stays filed until it is found to wait for something else: most lanes that are
    opened find the same answer.
    """

    def __init__(self) -> None:
        #: Lanes that are worth a look, by number, in the order of their coming.
        self.open: dict[int, None] = {}
        #: Shapes whose lanes are worth a look, as far as they wait for room: for these nodes, or
        #: (None) for whatever reason.
        self.open_shapes: dict[int, frozenset[str] | None] = {}
        #: Shapes that no node has room for, whatever is claimed.
        self.full: set[int] = set()
        self._of: dict[int, tuple[Lane, Wait]] = {}
        #: Lanes that wait for room of any kind, and of these the ones that a claim keeps out.
        self._by_shape: _Files[int] = _Files()
        self._claimed: _Files[int] = _Files()
        self._by_counter: _Files[Counter] = _Files()
        #: Lanes that any node may help, and lanes that anything at all may help.
        self._refused: dict[int, None] = {}
        self._barred: dict[int, None] = {}
        #: When time alone may help a lane, or (number 0) all that wait for room.
        self._moment_of: dict[int, float] = {}
        self._moments: list[tuple[float, int]] = []
        #: Shapes that might take the room of others on nodes that are claimed.
        self.kept_off: set[int] = set()
        #: The last pass left off at a job that nothing may pass.
        self.is_cut = False

    def of(self, number: int) -> Wait | None:
        """What a lane was last found to wait for; None: it was never looked at."""
        known = self._of.get(number)
        return known[1] if known is not None else None

    def again_s(self, number: int) -> float:
        """When time alone opens a lane; 0: it does not."""
        return self._moment_of.get(number, 0.0)

    def file(self, lane: Lane, wait: Wait) -> None:
        """The lane was found blocked."""
        number, shape = lane.number, lane.key.shape
        self.open.pop(number, None)
        before = self.of(number)
        if type(before) is type(wait) and before == wait:
            return
        self._take_out(number)
        self._of[number] = (lane, wait)
        if isinstance(wait, Capped):
            for counter in wait.counters:
                self._by_counter.put(counter, number)
            if wait.again_s:
                self.open_at(wait.again_s, number)
        elif isinstance(wait, Barred):
            self._barred[number] = None
        else:
            self._by_shape.put(shape, number)
            if isinstance(wait, ClaimedRoom | Vetoed):
                self._claimed.put(shape, number)
            if isinstance(wait, Vetoed):
                self._refused[number] = None

    def no_room(self, shape: int) -> None:
        """No node has room for a shape: that is what its lanes wait for, not for claims."""
        self.full.add(shape)
        for number in [*self._claimed.get(shape, ())]:
            self._claimed.drop(shape, number)
            self._refused.pop(number, None)
            self._of[number] = (self._of[number][0], NO_ROOM)

    def leave(self, number: int) -> None:
        """The lane has no job left to start."""
        self._take_out(number)
        self.open.pop(number, None)
        self._moment_of.pop(number, None)

    @property
    def has_claimed(self) -> bool:
        """Whether a claim keeps a lane out, of free room or of that of others."""
        return bool(self._claimed or self.kept_off)

    @property
    def shapes(self) -> list[int]:
        """The shapes of lanes that wait for room."""
        return [*self._by_shape]

    @property
    def count(self) -> int:
        """How many lanes wait."""
        return len(self._of)

    def _take_out(self, number: int) -> None:
        known = self._of.pop(number, None)
        if known is None:
            return
        lane, wait = known
        if isinstance(wait, Capped):
            for counter in wait.counters:
                self._by_counter.drop(counter, number)
        elif isinstance(wait, Barred):
            del self._barred[number]
        else:
            self._by_shape.drop(lane.key.shape, number)
            self._claimed.drop(lane.key.shape, number)
            self._refused.pop(number, None)

    def wake(self, numbers: Iterable[int]) -> None:
        """These lanes are worth another look."""
        self.open.update(dict.fromkeys(numbers))

    def open_at(self, at_s: float, number: int = 0) -> None:
        """Time alone may help this lane, or (0) all that wait for room."""
        if at_s < self._moment_of.get(number, INFINITE):
            self._moment_of[number] = at_s
            heappush(self._moments, (at_s, number))

    @property
    def next_s(self) -> float:
        """The next moment at which time alone may help; infinite: there is none."""
        return self._moments[0][0] if self._moments else INFINITE

    def on_time(self, now_s: float) -> None:
        """Open what was to be looked at by now.

        Shares move with time and with all that is held: lanes that a hard limit on them keeps
        back are looked at whenever a pass is made. So are the lanes behind a job that nothing may
        pass: another one may stand in front by now.
        """
        if self._barred:
            self.wake([*self._barred])
        if self.is_cut:
            self.open_all()
        while self._moments and self._moments[0][0] <= now_s:
            at_s, number = heappop(self._moments)
            if self._moment_of.get(number) != at_s:
                continue
            del self._moment_of[number]
            if number in self._of:
                self.wake([number])
            elif not number:
                self.open_all()

    def open_all(self) -> None:
        """Open all lanes that wait for room."""
        self.open_shapes.update(dict.fromkeys(self._by_shape))

    def on_nodes(
        self,
        names: frozenset[str] | None,
        may_fit: Callable[[int], bool],
        may_take: Callable[[int], bool] | None,
    ) -> None:
        """Nodes changed: open the lanes of every shape that they may help, and the particular.

        A shape may have room there now or, where jobs give way, with the room of others. If it
        had none before, it can only have some on nodes with these names (None: on any).
        """
        full, opened = self.full, self.open_shapes
        known = self.shapes
        fitting = {shape for shape in known if may_fit(shape)}
        # What is known of a shape that no lane waits for is let go.
        self.full = {shape for shape in known if shape in full and shape not in fitting}
        for shape in known:
            before = frozenset[str]() if shape in full else opened.get(shape)
            if shape in fitting and names is not None and before is not None:
                opened[shape] = names | before
            elif shape in fitting or (may_take is not None and may_take(shape)):
                opened[shape] = None
        self.wake([*self._refused])

    def for_room(self, may_help: Callable[[int], bool]) -> list[int]:
        """The lanes that wait for room of a shape that may be helped."""
        found = [under for shape, under in self._by_shape.items() if may_help(shape)]
        return [number for under in found for number in under]

    def on_claims(
        self, may_fit: Callable[[int], bool], may_take: Callable[[int], bool]
    ) -> list[int]:
        """Claims on nodes changed: open the shapes that they may have kept out, and name them."""
        self.kept_off.intersection_update(self._by_shape)
        shapes = [shape for shape in self._claimed if may_fit(shape)]
        shapes += [shape for shape in sorted(self.kept_off) if may_take(shape)]
        self.open_shapes.update(dict.fromkeys(shapes))
        return shapes

    def on_neighbours(self, lanes: Lanes) -> bool:
        """Jobs started: open the lanes that need one of them beside; whether there are any."""
        if not self._refused:
            return False
        lonely = [
            number
            for number in self._refused
            if lanes.shapes[self._of[number][0].key.shape].placement.needs_neighbours
        ]
        self.wake(lonely)
        return bool(lonely)

    def on_counters(self, counters: Iterable[Counter]) -> None:
        """Places under these counters were given back."""
        for counter in dict.fromkeys(counters):
            self.open.update(self._by_counter.get(counter, {}))

    def start_over(self, lanes: Lanes) -> None:
        """Nothing is known: every lane is worth a look."""
        for number in [*self._of]:
            self._take_out(number)
        self.full.clear()
        self._moment_of.clear()
        self._moments.clear()
        self.is_cut = False
        self.kept_off.clear()
        self.open_shapes.clear()
        self.open = dict.fromkeys(lanes.by_number)
