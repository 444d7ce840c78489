"""The order of lanes, kept from pass to pass.

Every lane that was looked at has a known own key; it is right as long as the same job stands in
front and no step of age lies between. Lanes that wait for room stand in lines, one per account,
each in the order of own keys. So a pass finds the first of thousands without asking all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.scheduling.api import Entry
    from rota.scheduling.order.heads import Head
    from rota.scheduling.order.keys import Key, Keys, LineKey

    #: The head of a lane, with its first job; None when it has none.
    Opening = Callable[[Lane], Head | None]
    #: The own key of a lane, its number (two are never equal), its shape.
    Place = tuple[Key, int, int]

INFINITE = float("inf")
#: The most steps of lanes that went on before they are cleared away.
SLACK = 64


class OwnKey(NamedTuple):
    """An own key as a place in a line, and what it is right for."""

    place: Place
    line: LineKey
    job: int
    eligible_s: float
    made_s: float
    #: Up to when the key is right, and when the job in front grows older.
    until_s: float
    step_s: float
    #: The key among the jobs that may pass the first, where these have an order of their own.
    passing: Key | None


class Standing:
    """Own keys of all lanes, and the lines of those that wait for room."""

    def __init__(self) -> None:
        self._known: dict[int, OwnKey] = {}
        self.lines: dict[LineKey, list[Place]] = {}
        #: Where the lanes in line stand.
        self._at: dict[int, OwnKey] = {}
        self._now_s = 0.0
        #: When the first jobs of lanes in lines grow older.
        self._steps: list[tuple[float, int]] = []

    def known_key(self, number: int, now_s: float, *, passing: bool = False) -> Key | None:
        """The own key of a lane, if the same job still stands in front of it; None: not known.

        ``passing``: the one among the lanes that may pass the first.

        Where another one does by now, the lane stands further back than this: the key serves to
        put it in order until it comes to the front and is opened.
        """
        known = self._known.get(number)
        if known is None or not known.made_s <= now_s < known.until_s:
            return None
        return known.passing if passing else known.place[0]

    def is_in_line(self, number: int) -> bool:
        """Whether a lane waits for room."""
        return number in self._at

    def key_of(self, entry: Entry, number: int, now_s: float) -> Key | None:
        """The own key of the job in front of a lane, if it is known."""
        known = self._known.get(number)
        if known is None or known.job != entry.job or known.eligible_s != entry.eligible_s:
            return None
        return known.place[0] if known.made_s <= now_s < known.until_s else None

    def note(self, keys: Keys, head: Head, key: Key) -> None:
        """This is the own key of the job in front of a lane."""
        lane, entry = head.lane, head.entry
        step_s = keys.next_step_s(entry.eligible_s)
        until_s = step_s if keys.traits.is_steady else -INFINITE
        line, now_s, number = keys.line_of(lane), keys.now_s, lane.number
        passing = keys.passing(entry) if keys.sorts_passing else None
        place = (key, number, lane.key.shape)
        self._known[number] = OwnKey(
            place, line, entry.job, entry.eligible_s, now_s, until_s, step_s, passing
        )
        if number in self._at:
            self.put([lane])

    def put(self, lanes: list[Lane]) -> None:
        """These lanes wait for room: they stand in line with the keys that were noted last."""
        fresh: dict[LineKey, list[Place]] = {}
        for lane in lanes:
            number = lane.number
            known, at = self._known[number], self._at.get(number)
            if known is at:
                continue
            self.take(number)
            self._at[number] = known
            fresh.setdefault(known.line, []).append(known.place)
            if known.step_s < INFINITE and (at is None or at.step_s != known.step_s):
                heappush(self._steps, (known.step_s, number))
        for line, places in fresh.items():
            known_places = self.lines.setdefault(line, [])
            if len(places) == 1:
                insort(known_places, places[0])
            else:
                known_places += places
                known_places.sort()
        if len(self._steps) > 2 * len(self._at) + SLACK:
            self._steps = [(at.step_s, n) for n, at in self._at.items()]
            heapify(self._steps)

    def take(self, number: int) -> None:
        """The lane does not wait for room any more, or is gone."""
        at = self._at.pop(number, None)
        if at is None:
            return
        line = at.line
        lanes = self.lines[line]
        del lanes[bisect_left(lanes, at.place)]
        if not lanes:
            del self.lines[line]

    def grow_older(self, keys: Keys, lanes: dict[int, Lane], opening: Opening) -> list[int]:
        """Bring the keys of lanes in line up to date that changed by the passing of time."""
        if keys.now_s < self._now_s:
            # The clock was set back: jobs are younger than they were.
            self.sort_anew(keys, lanes, opening)
        self._now_s = keys.now_s
        due, older = [], []
        while self._steps and self._steps[0][0] <= keys.now_s:
            due.append(heappop(self._steps))
        for step_s, number in due:
            if not self._stands(step_s, number):
                continue
            lane = lanes.get(number)
            head = opening(lane) if lane is not None else None
            if lane is None or head is None:
                self.take(number)
                continue
            self.note(keys, head, keys.own(head.entry))
            older.append(number)
        return older

    def forget(self, number: int) -> None:
        """The lane is gone."""
        self.take(number)
        self._known.pop(number, None)

    @property
    def next_step_s(self) -> float:
        """When the first job of a lane that waits for room grows older next; infinite: never."""
        steps = self._steps
        while steps and not self._stands(*steps[0]):
            heappop(steps)
        return steps[0][0] if steps else INFINITE

    def _stands(self, step_s: float, number: int) -> bool:
        """Whether the lane still stands in line with a job in front that grows older then."""
        return number in self._at and self._at[number].step_s == step_s

    def start_over(self) -> None:
        """The rules are others: no key is right, and no lane is known to wait."""
        for table in (self._known, self.lines, self._at):
            table.clear()
        self._steps.clear()

    def sort_anew(self, keys: Keys, lanes: dict[int, Lane], opening: Opening) -> None:
        """Keys move with time itself: every lane in line gets its key of this moment."""
        for number in [*self._at]:
            lane = lanes.get(number)
            head = opening(lane) if lane is not None else None
            if head is None:
                self.take(number)
            else:
                self.note(keys, head, keys.own(head.entry))

    @property
    def accounts(self) -> set[tuple[str, str]]:
        return {line[:2] for line in self.lines}


class Walk:
    """Lanes that wait for room, in the order of their full keys, as one pass comes to them."""

    def __init__(
        self,
        cluster: Cluster,
        standing: Standing,
        keys: Keys,
        opening: Opening,
        is_open: Container[int],
        shapes: Collection[int] | None = None,
    ) -> None:
        """``is_open``: the numbers of lanes that take their turn anyway.

        Where shapes are given, only their lanes take part, as long as a shape is among them.
        """
        self._shapes = shapes
        self._cluster = cluster
        self._open = is_open
        self._standing = standing
        self._keys = keys
        self._opening = opening
        #: Whether the answer for a lane is known, so that it need not take its turn.
        self.passes_over: Callable[[Lane], bool] | None = None
        #: Full key, line, the version of shares that it was made with, place, head.
        self._heap: list[tuple[Key, LineKey, int, Place, Head]] = []
        if not keys.traits.is_steady:
            standing.sort_anew(keys, cluster.lanes.by_number, opening)
        for line in [*standing.lines]:
            self._push(line, None)

    def _push(self, line: LineKey, behind: Place | None) -> None:
        """The next lane of a line, from the first or from behind a place on."""
        keys, standing, shapes = self._keys, self._standing, self._shapes
        places = standing.lines.get(line, [])
        at = bisect_right(places, behind) if behind is not None else 0
        while at < len(places):
            place = places[at]
            at += 1
            if shapes is not None and place[2] not in shapes:
                continue
            head = self._head(place[1])
            if head is None:
                continue
            if head.key > place[0]:
                # Another job has come to the front: the lane stands further back now.
                standing.note(keys, head, head.key)
                places, at = standing.lines.get(line, []), at - 1
                continue
            full = keys.full(head.key, head.entry, head.amount)
            heappush(self._heap, (full, line, keys.version(line), place, head))
            return

    def _head(self, number: int) -> Head | None:
        """The head of a lane that may take its turn here; None: it has none to take."""
        lane = self._cluster.lanes.by_number.get(number)
        if lane is None or number in self._open:
            return None
        return None if self._is_known(lane) else self._opening(lane)

    def _is_known(self, lane: Lane) -> bool:
        return self.passes_over is not None and self.passes_over(lane)

    def first(self) -> tuple[Key, Head] | None:
        """The lane that comes first now, and its full key."""
        heap, keys = self._heap, self._keys
        while heap:
            full, line, version, place, head = heap[0]
            if head.lane.number in self._open or self._is_known(head.lane):
                # It was opened in the course of the pass, and takes its turn with the others.
                self.pop()
                continue
            now = keys.version(line)
            if version == now:
                return full, head
            full = keys.full(head.key, head.entry, head.amount)
            heapreplace(heap, (full, line, now, place, head))
        return None

    def pop(self) -> None:
        """The first lane was dealt with, or is with others."""
        _, line, _, place, _ = heappop(self._heap)
        self._push(line, place)
