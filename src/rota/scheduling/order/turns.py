"""Whose turn it is: open lanes, and where that matters the ones that are known to be blocked.

A lane that is known to wait for room need not be asked again. It still takes its turn where
somebody has to be promised a start, or where nothing may pass the first job that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.order.account_queues import AccountQueues
from rota.scheduling.order.heads import Head, entry_in
from rota.scheduling.order.standing import Walk
from rota.scheduling.outcomes import Barred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, LaneKey
    from rota.core.facts.resources import Amount
    from rota.scheduling.api import Entry
    from rota.scheduling.order.keys import Key, Keys
    from rota.scheduling.order.standing import Standing
    from rota.scheduling.outcomes import Wait


INFINITE = float("inf")


class Turns:
    """The lanes of one pass, each in its turn."""

    def __init__(
        self,
        cluster: Cluster,
        standing: Standing,
        keys: Keys,
        amount: Callable[[int], Amount],
    ) -> None:
        self._cluster = cluster
        self._standing = standing
        self.keys = self._usual = keys
        self._amount = amount
        self._amounts: dict[int, Amount] = {}
        self._heads: dict[int, Head] = {}
        self._queues = AccountQueues(keys, self.opening)
        #: Lanes that were opened before or in this pass.
        self._numbers: set[int] = set()
        #: Shapes whose lanes that wait for room take their turn as well.
        self._shapes: set[int] = set()
        self._passes_over: Callable[[Lane], bool] | None = None
        self._opened: Walk | None = None
        self._blocked: Walk | None = None

    def begin(self, numbers: Iterable[int], shapes: Iterable[int]) -> None:
        """These lanes are open, and the ones of these shapes that wait for room."""
        self._shapes.update(shapes)
        lanes = self._cluster.lanes.by_number
        found = [lane for number in numbers if (lane := lanes.get(number)) is not None]
        self._numbers = {lane.number for lane in found}
        accounts = {lane.account for lane in found} | self._standing.accounts
        self.keys.is_alone = len(accounts) <= 1 and self.keys.may_be_alone
        self._queues.fill(
            [(key, lane) for lane in found if (key := self.own_key(lane)) is not None]
        )

    def own_key(self, lane: Lane) -> Key | None:
        """The own key of a lane; None when it has no job left."""
        known = self._standing.known_key(lane.number, self.keys.now_s)
        if known is not None:
            return known
        head = self.opening(lane)
        return head.key if head is not None else None

    def opening(self, lane: Lane) -> Head | None:
        """The head of a lane, at the job that the pass has come to; None when it has no job."""
        head = self._heads.get(lane.number)
        if head is None:
            head = self._heads[lane.number] = self.head(lane)
            entry = self._advance(head)
            if entry is not None:
                head.key = self._standing.key_of(entry, lane.number, self._usual.now_s)
                if head.key is None:
                    head.key = self._usual.own(entry)
                    self._standing.note(self._usual, head, head.key)
        return head if head.entry is not None else None

    def head(self, lane: Lane) -> Head:
        shape = lane.key.shape
        amount = self._amounts.get(shape)
        if amount is None:
            amount = self._amounts[shape] = self._amount(shape)
        return Head(self._cluster, lane, amount)

    def head_of(self, job: int) -> Head | None:
        """A waiting job as if it stood in front of its lane."""
        cluster = self._cluster
        array = cluster.array_of(job)
        lane = cluster.lanes.where.get(array.id if array is not None else job)
        if lane is None:
            return None
        head = self.head(lane)
        head.array = array.id if array is not None else 0
        head.entry = entry_in(cluster, lane, head.array or job)._replace(job=job)
        return head

    def _advance(self, head: Head) -> Entry | None:
        return head.advance(self._cluster)

    def first(self, *, blocked: bool, overdue: bool = False) -> Head | None:
        """The head whose turn it is. ``blocked``: lanes that wait for room take theirs too.

        ``overdue``: of these only the ones whose first job has waited too long.
        """
        head = self._queues.first()
        if self.keys is not self._usual:
            return head
        if self._shapes and (overdue or not blocked):
            if self._opened is None:
                self._opened = self._walk(self._shapes)
                self._opened.passes_over = self._passes_over
            head = self._earlier(head, self._opened)
        if blocked:
            if self._blocked is None:
                self._blocked = self._walk(None)
            head = self._earlier(head, self._blocked, overdue=overdue)
        return head

    def _walk(self, shapes: set[int] | None) -> Walk:
        standing, keys = self._standing, self.keys
        return Walk(self._cluster, standing, keys, self.opening, self._numbers, shapes)

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
        self._shapes.update(shapes)
        self._opened = None

    def close(self, shape: int) -> None:
        """What the lanes of a shape wait for is known: no more of them take their turn."""
        self._shapes.discard(shape)

    def add(self, lane: Lane) -> None:
        """A lane is opened in the middle of the pass."""
        self._numbers.add(lane.number)
        head = self.opening(lane)
        if head is not None and head.entry is not None:
            if self.keys is not self._usual:
                head.key = self.keys.own(head.entry)
            assert head.key is not None
            self._queues.push(head.key, lane)

    def open_barred(
        self,
        blocked: dict[int, tuple[Lane, Wait]],
        kept_back_by: Callable[[LaneKey], Lane | None],
    ) -> None:
        """A start may be the last that accounts beyond their hard limit had to wait for."""
        barred = [lane for lane, wait in blocked.values() if isinstance(wait, Barred)]
        if barred and kept_back_by(barred[0].key) is None:
            for lane in barred:
                del blocked[lane.number]
                self.add(lane)

    @property
    def first_key(self) -> Key:
        """The full key of the head whose turn it is."""
        return self._queues.first_key

    def add_behind(self, lane: Lane, key: Key) -> None:
        """Open a lane in the middle of the pass, if it comes after this key."""
        head = None if lane.number in self._numbers else self.opening(lane)
        if head is None or head.entry is None or head.key is None:
            return
        if self.keys.full(head.key, head.entry, head.amount) > key:
            self.add(lane)

    def go_on(self, head: Head) -> bool:
        """The first head goes on to the next job of its lane; False: there is none."""
        key, before = head.key, head.entry
        assert key is not None
        assert before is not None
        entry = self._advance(head)
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
        opened = self._walk(self._shapes)
        while (waiting := opened.first()) is not None:
            opened.pop()
            self.add(waiting[1].lane)
        self.keys = keys
        self._queues.sort_by(keys)

    def note(self, head: Head) -> None:
        """The lane is blocked at this job: remember its place among the ones that wait."""
        assert head.entry is not None
        own = head.key if self.keys is self._usual else None
        self._standing.note(
            self._usual, head, own if own is not None else self._usual.own(head.entry)
        )

    def remaining(self) -> list[Lane]:
        """Open lanes whose turn did not come."""
        return self._queues.remaining()
