"""Open lanes in the order of the policy, as a pass consumes them.

Fair share moves with every start: all lanes of an account fall back together. So lanes stand in
one *line* per account, ordered by their own keys, and lines are compared by the full keys of
their first lanes. A start costs two keys, however many lanes the account has.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from rota.scheduling.order.heads import Head
    from rota.scheduling.order.keys import Key, Keys, LineKey

#: An own key, the lane's number (two are never equal), and the lane.
Place = tuple["Key", int, Lane]


class AccountLanes:
    """The open lanes of one account, by own key."""

    __slots__ = ("head", "key", "lanes", "name", "version")

    def __init__(self, name: LineKey) -> None:
        self.name = name
        self.lanes: list[Place] = []
        #: The head of its first lane, its full key, and the version of shares that this is of.
        self.head: Head | None = None
        self.key: Key = ()
        self.version = -1


class FullLanes(NamedTuple):
    """Lanes that are known to wait for room, in one line per shape.

    A line whose shape is not among ``shapes`` any more is dropped as a whole, and its lanes are
    not among ``numbers`` any more: they wait for what they waited for.
    """

    lanes: Sequence[tuple[Key, Lane]]
    shapes: Container[int]
    numbers: set[int]


NONE_WAIT = FullLanes((), (), set())


class AccountQueues:
    """All lines, first things first."""

    def __init__(self, keys: Keys, opening: Callable[[Lane], Head | None]) -> None:
        """``opening`` gives the head of a lane."""
        self._keys = keys
        self._opening = opening
        #: Whether the answer for a lane is known, so that it need not take its turn.
        self.passes_over: Callable[[Lane], bool] | None = None
        self._lines: dict[LineKey, AccountLanes] = {}
        #: Some entries are stale: the one whose key is that of its line counts.
        self._heap: list[tuple[Key, LineKey, AccountLanes]] = []
        self._rules_version = keys.watch.version
        self._waiting = NONE_WAIT

    def fill(self, lanes: Iterable[tuple[Key, Lane]]) -> None:
        """Take many lanes in at once."""
        for own, lane in lanes:
            self._line(lane).lanes.append((own, lane.number, lane))
        for line in self._lines.values():
            heapify(line.lanes)
            self._settle(line)

    def push(self, own: Key, lane: Lane) -> None:
        """Take one lane in."""
        line = self._line(lane)
        heappush(line.lanes, (own, lane.number, lane))
        if line.lanes[0][2] is lane:
            self._settle(line)

    def _line(self, lane: Lane) -> AccountLanes:
        return self._named(self._keys.line_of(lane))

    def _named(self, name: LineKey) -> AccountLanes:
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = AccountLanes(name)
        return line

    def _settle(self, line: AccountLanes) -> None:
        """Bring the right lane to the front of a line, and the line to its place."""
        lanes, keys, passes_over = line.lanes, self._keys, self.passes_over
        while lanes:
            own, number, lane = lanes[0]
            known = passes_over is not None and passes_over(lane)
            head = None if known else self._opening(lane)
            if head is None:
                heappop(lanes)
                if known and self._waiting.lanes:
                    self._drop_full(line)
                continue
            if head.key != own:
                heapreplace(lanes, (head.key, number, lane))
                continue
            line.key = keys.full(own, head.entry, head.amount)
            line.version = keys.version(line.name)
            line.head = head
            heappush(self._heap, (line.key, line.name, line))
            return
        line.key = ()

    def _drop_full(self, line: AccountLanes) -> None:
        """Drop a line of lanes that wait, if no node has room for their shape."""
        user, _, shape = line.name
        _, shapes, numbers = self._waiting
        if shape and not user and shape not in shapes:
            numbers.difference_update([number for _, number, _ in line.lanes])
            line.lanes.clear()

    def first(self) -> Head | None:
        """The head that comes first now; it stays until ``replace`` or ``drop``."""
        if self._rules_version != self._keys.watch.version:
            self._start_over()
        heap, version, passes_over = self._heap, self._keys.version, self.passes_over
        while heap:
            key, name, line = heap[0]
            if key is line.key:
                known = passes_over is not None and passes_over(line.lanes[0][2])
                if not known and line.version == version(name):
                    return line.head
                heappop(heap)
                self._settle(line)
            else:
                heappop(heap)
        return None

    @property
    def first_key(self) -> Key:
        """The full key of what ``first`` gave."""
        return self._heap[0][0]

    def replace(self) -> None:
        """The first head went on to the next job of its lane."""
        line = heappop(self._heap)[2]
        _, number, lane = line.lanes[0]
        head = line.head
        assert head is not None
        heapreplace(line.lanes, (head.key, number, lane))
        self._settle(line)

    def drop(self) -> None:
        """The first head is done with."""
        line = heappop(self._heap)[2]
        heappop(line.lanes)
        self._settle(line)

    def remaining(self) -> list[Lane]:
        """The lanes that nobody came to."""
        return [lane for line in self._lines.values() for _, _, lane in line.lanes]

    def _start_over(self) -> None:
        """A plugged-in ordering was switched off: its keys do not compare with the other's."""
        self._rules_version = self._keys.watch.version
        found = [(lane, self._opening(lane)) for lane in self.remaining()]
        for _, head in found:
            if head is not None:
                head.key = self._keys.own(head.entry)
        self.sort_by(self._keys, [(head.key, lane) for lane, head in found if head is not None])

    def sort_by(
        self, keys: Keys, lanes: Iterable[tuple[Key, Lane]], waiting: FullLanes = NONE_WAIT
    ) -> None:
        """From now on these keys count, and these lanes are all."""
        self._keys = keys
        self._lines.clear()
        self._heap.clear()
        self._waiting = waiting
        for own, lane in waiting.lanes:
            line = self._named(("", "", lane.key.shape))
            line.lanes.append((own, lane.number, lane))
        self.fill(lanes)
