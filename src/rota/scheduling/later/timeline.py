"""Free room over future time, on the nodes themselves rather than on sums.

What is known about the future: running attempts leave at the end of their time, and *claims*
come and go: promises to waiting jobs, reservations that somebody made, maintenance windows. From
these follow the two questions of a pass: what stays free on a node up to a moment (``window``),
and when and where a waiting job can start at the earliest (``earliest``).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from heapq import merge
from typing import TYPE_CHECKING

from rota.scheduling.later.occupancy import (
    INFINITE,
    OVERDUE_S,
    Asking,
    Claim,
    Leaving,
    Stays,
    planned_uid,
)
from rota.scheduling.later.start_search import Future

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rota.core.facts.node import Allocation
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.place.wants import Want

__all__ = ["OVERDUE_S", "Asking", "Claim", "Leaving", "Timeline", "planned_uid"]

#: More new ends than this are sorted in at once instead of one by one.
MANY = 1024
#: On a site of up to so many nodes each of them is searched by itself for a single task.
SMALL = 64
#: Up to so many ends are put in order at once instead of one by one as they are asked for.
SHORT = 1024
#: So many entries of those who left are carried along before they are cleared away.
SLACK = 64


class Timeline(Stays):
    """Who leaves when, and who has a claim on what from when."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        #: By class of node, in order of their ends; some have left already.
        self._order: dict[int, list[Leaving]] = {}
        #: Up to when the last start that was found is right, if nobody comes or goes.
        self.sure_until_s = -INFINITE
        #: When the ends were put in order.
        self._ends_s = 0.0

    def _ends(self, classes: Iterable[int]) -> Iterator[tuple[float, str]]:
        """(when, where) somebody leaves a node of these classes, soonest first; claims likewise."""
        self._sort_in()
        if self._ends_s != self.now_s:
            self._ends_of, self._ends_s = {}, self.now_s
        numbers = [number for number in classes if number in self._order]
        if not self._claim_ends and len(numbers) == 1:
            return self._ends_in(numbers[0])
        if sum(len(self._order[number]) for number in numbers) > SHORT:
            return merge(self._claim_ends, *map(self._ends_in, numbers))
        found = [*self._claim_ends]
        for number in numbers:
            ends = self._ends_of.get(number)
            if ends is None:
                ends = self._ends_of[number] = [*self._ends_in(number)]
            found += ends
        if len(numbers) > 1 or self._claim_ends:
            found.sort()
        return iter(found)

    def _ends_in(self, number: int) -> Iterator[tuple[float, str]]:
        order, class_of = self._order[number], self._space.class_of
        late = bisect_right(order, self.now_s, key=lambda item: item.end_s)
        overdue_s = self.now_s + OVERDUE_S
        overdue = sorted(item.node for item in order[:late] if self._is_here(item))
        at = 0
        for position in range(late, len(order)):
            item = order[position]
            while at < len(overdue) and overdue_s <= item.end_s:
                yield overdue_s, overdue[at]
                at += 1
            if self._is_here(item) and class_of[item.node].id == number:
                yield item.end_s, item.node
        yield from ((overdue_s, name) for name in overdue[at:])

    def _is_here(self, item: Leaving) -> bool:
        here = self._of_node.get(item.node)
        return here is not None and here.get(item.uid) is item and item.node in self._space.rooms

    def _sort_in(self) -> None:
        fresh, self._fresh = self._fresh, []
        class_of = self._space.class_of
        held = sum(map(len, self._order.values()))
        if len(fresh) > MANY or held > 2 * self._count + SLACK:
            self._order = {}
            for name, items in self._of_node.items():
                if name in class_of:
                    self._order.setdefault(class_of[name].id, []).extend(items.values())
            for order in self._order.values():
                order.sort(key=_by_end)
            return
        for item in fresh:
            if item.node in class_of:
                order = self._order.setdefault(class_of[item.node].id, [])
                insort(order, item, key=_by_end)

    def earliest(
        self,
        asking: Asking,
        until_s: float,
        wants: Sequence[Want],
        open_now: Iterable[str],
        refuses: Callable[[str], bool] | None,
    ) -> tuple[float, list[Allocation]] | None:
        """The first moment at which all tasks of a job find room, and which room that is.

        ``open_now`` are nodes that could take some of its tasks today; ``refuses`` says which
        must not be used. As time goes on, only nodes where something changes are looked at.
        """
        future = Future(self, self._space, asking)
        classes = self._space.classes_for(wants)
        self.sure_until_s = -INFINITE
        if len(self._space.rooms) <= SMALL and future.is_single:
            sure, soonest = self._soonest(future, until_s, classes, refuses)
            if sure:
                return soonest
        for name in open_now:
            future.look(name, self.now_s)
        rooms, class_of, shut_s = self._space.rooms, self._space.class_of, future.shut_s
        for at_s, name in self._ends(classes):
            if at_s > until_s:
                return None
            if name in shut_s and at_s < shut_s[name] and not future.suffices:
                continue
            if name not in rooms or (refuses is not None and refuses(name)):
                continue
            if class_of[name].id in classes:
                future.look(name, at_s)
                found = future.find(at_s) if future.suffices else None
                if found is not None:
                    return at_s, found
        return None

    def _soonest(
        self,
        future: Future,
        until_s: float,
        classes: set[int],
        refuses: Callable[[str], bool] | None,
    ) -> tuple[bool, tuple[float, list[Allocation]] | None]:
        """The same for a single task on a small site; False: it has to be found the long way."""
        names = [
            name
            for name, kind in self._space.class_of.items()
            if kind.id in classes and (refuses is None or not refuses(name))
        ]
        found = future.soonest(names, until_s)
        if found is None:
            return False, None
        at_s, name = found
        if not name:
            return True, None
        placed = future.place_at(name, at_s)
        if placed is None:
            return False, None
        self.sure_until_s = future.sure_until_s
        return True, (at_s, placed)


def _by_end(item: Leaving) -> tuple[float, str, str]:
    return item.end_s, item.node, item.uid
