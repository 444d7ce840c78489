"""Whose turn it is: open lanes, and where that matters the ones that are known to be blocked.

A lane that is known to wait for room need not be asked again. It still takes its turn where
somebody has to be promised a start, or where nothing may pass the first job that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.order.account_queues import AccountQueues, FullLanes
from rota.scheduling.order.standing import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.scheduling.order.heads import Head, Heads
    from rota.scheduling.order.keys import Key, Keys
    from rota.scheduling.order.standing import Standing


INFINITE = float("inf")


class Turns:
    """The lanes of one pass, each in its turn."""

    def __init__(
        self,
        cluster: Cluster,
        standing: Standing,
        keys: Keys,
        heads: Heads,
    ) -> None:
        self._cluster = cluster
        self._standing = standing
        self.keys = self._usual = keys
        self._heads, self._opening = heads, heads.opening
        self._queues = AccountQueues(keys, heads.opening)
        #: Lanes that were opened before or in this pass.
        self.numbers: set[int] = set()
        #: Shapes whose lanes that wait for room take their turn as well.
        self.shapes: set[int] = set()
        self._passes_over: Callable[[Lane], bool] | None = None
        self._opened: Walk | None = None
        self._blocked: Walk | None = None
        #: The lanes that are left take turns in another order.
        self.is_resorted = False

    def begin(self, numbers: Iterable[int], shapes: Iterable[int]) -> None:
        """These lanes are open, and the ones of these shapes that wait for room."""
        self.shapes.update(shapes)
        lanes = self._cluster.lanes.by_number
        found = [lane for number in numbers if (lane := lanes.get(number)) is not None]
        self.numbers = {lane.number for lane in found}
        keys, standing = self.keys, self._standing
        if keys.may_be_alone:
            accounts = {lane.account for lane in found}
            keys.is_alone = len(accounts) <= 1 and len(accounts | standing.accounts) <= 1
        self._queues.fill(self._keyed(found))

    def first(self, *, blocked: bool, overdue: bool = False) -> Head | None:
        """The head whose turn it is. ``blocked``: lanes that wait for room take theirs too.

        ``overdue``: of these only the ones whose first job has waited too long.
        """
        head = self._queues.first()
        if self.is_resorted:
            return head
        if self.shapes and (overdue or not blocked):
            if self._opened is None:
                self._opened = self._walk(self.shapes)
                self._opened.passes_over = self._passes_over
            head = self._earlier(head, self._opened)
        if blocked and self._standing.lines:
            if self._blocked is None:
                self._blocked = self._walk(None)
            head = self._earlier(head, self._blocked, overdue=overdue)
        return head

    def _walk(self, shapes: set[int] | None) -> Walk:
        standing, keys = self._standing, self.keys
        return Walk(self._cluster, standing, keys, self._opening, self.numbers, shapes)

    def _earlier(self, head: Head | None, walk: Walk, *, overdue: bool = False) -> Head | None:
        """The head whose turn it is, or the lane that stands before it in a walk."""
        waiting = walk.first()
        if waiting is None or (overdue and waiting[0][0] == INFINITE):
            return head
        if head is not None and self._queues.first_key <= waiting[0]:
            return head
        walk.pop()
        self.add(waiting[1].lane)
        return self._queues.first()

    def open(self, shapes: Iterable[int]) -> None:
        """The lanes of these shapes that wait for room take their turn, too."""
        self.shapes.update(shapes)
        self._opened = None

    def add(self, lane: Lane) -> None:
        """A lane is opened in the middle of the pass."""
        self.numbers.add(lane.number)
        head = self._opening(lane)
        if head is not None:
            self._queues.push(head.key, lane)

    @property
    def first_key(self) -> Key:
        """The full key of the head whose turn it is."""
        return self._queues.first_key

    def add_behind(self, lane: Lane, key: Key) -> None:
        """Open a lane in the middle of the pass, if it comes after this key."""
        head = None if lane.number in self.numbers else self._opening(lane)
        if head is not None and self.keys.full(head.key, head.entry, head.amount) > key:
            self.add(lane)

    def go_on(self, head: Head) -> bool:
        """The first head goes on to the next job of its lane; False: there is none."""
        key, before = head.key, head.entry
        entry = head.advance(self._cluster)
        if entry is None:
            self._queues.drop()
            return False
        head.key = self.keys.next_own(key, before, entry)
        self._queues.replace()
        return True

    def drop(self) -> None:
        """The first head is done with."""
        self._queues.drop()

    def pass_over(self, known: Callable[[Lane], bool]) -> None:
        """From now on lanes whose answer is known do not take their turn."""
        self._queues.passes_over = self._passes_over = known
        self._opened = None

    def sort_by(self, keys: Keys) -> None:
        """The lanes that are left take turns in another order."""
        self.keys, self.is_resorted = keys, True
        self._heads.sort_by(keys)
        opened = [*self._waiting()]
        self.numbers.update([lane.number for lane in opened])
        self._queues.sort_by(
            keys,
            self._keyed(self._queues.remaining()),
            FullLanes(self._keyed(opened), self.shapes, self.numbers),
        )

    def _keyed(self, lanes: Iterable[Lane]) -> list[tuple[Key, Lane]]:
        own, passing = self._heads.own_key, self.is_resorted
        keyed = [(own(lane, passing=passing), lane) for lane in lanes]
        return [(key, lane) for key, lane in keyed if key is not None]

    def _waiting(self) -> Iterator[Lane]:
        """The lanes of open shapes that wait for room and have no turn yet."""
        by_shape, is_in_line = self._cluster.lanes.by_shape, self._standing.is_in_line
        for shape in sorted(self.shapes):
            for number, lane in by_shape.get(shape, {}).items():
                if number not in self.numbers and is_in_line(number):
                    yield lane

    def note(self, head: Head) -> None:
        """The lane is blocked at this job: remember its place among the ones that wait."""
        own = self._usual.own(head.entry) if self.is_resorted else head.key
        self._standing.note(self._usual, head, own)

    def remaining(self) -> list[Lane]:
        """Open lanes whose turn did not come."""
        return self._queues.remaining()
