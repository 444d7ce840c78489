"""Free room over future time, on the nodes themselves rather than on sums.

What is known about the future: running attempts leave at the end of their time, and *claims*
come and go: promises to waiting jobs, reservations that somebody made, maintenance windows. From
these follow the two questions of a pass: what stays free on a node up to a moment (``window``),
and when and where a waiting job can start at the earliest (``earliest``).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.future import Future

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rota.core.lanes import Shape
    from rota.core.node import Allocation
    from rota.core.tenant import Reservation
    from rota.scheduling.nodeclass import NodeClass
    from rota.scheduling.room import Room
    from rota.scheduling.space import Space
    from rota.scheduling.wants import Want

INFINITE = float("inf")
#: More new ends than this are sorted in at once instead of one by one.
MANY = 1024
#: So many entries of those who left are carried along before they are cleared away.
SLACK = 64
#: Who is still there after his time is taken to leave this much later.
OVERDUE_S = 60.0
#: Who leaves within this of his time left when it was planned.
ON_TIME_S = 1.0


class Claim(NamedTuple):
    """From when to when something else has a right to part of a node."""

    start_s: float
    end_s: float
    allocation: Allocation
    #: The waiting job that it is promised to; 0: a reservation.
    job: int = 0
    reservation: Reservation | None = None

    def binds(self, job: int, user: str, project: str) -> bool:
        """Whether it stands in the way of this job: not if it was made for it."""
        if self.reservation is not None:
            return not self.reservation.admits(user, project)
        return self.job != job


class Leaving(NamedTuple):
    """An attempt that will be gone by then."""

    end_s: float
    uid: str
    node: str
    allocation: Allocation


class Asking(NamedTuple):
    """Whose future is looked at."""

    job: int
    user: str
    project: str
    shape: Shape
    run_s: float


class Timeline:
    """Who leaves when, and who has a claim on what from when."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.now_s = 0.0
        #: By class of node, in order of their ends; some have left already.
        self._order: dict[int, list[Leaving]] = {}
        self._fresh: list[Leaving] = []
        self._of_node: dict[str, dict[str, Leaving]] = {}
        self._kinds: dict[str, NodeClass | None] = {}
        self._count = 0
        self.claims: dict[str, list[Claim]] = {}
        self._promised: dict[int, dict[str, None]] = {}
        #: Somebody left before his time or long after it, or a node came: plans may go earlier.
        self.loosened = True

    def set_node(self, name: str, leaving: dict[str, Leaving]) -> None:
        """All attempts that are on a node now."""
        before = self._of_node.get(name, {})
        kind = self._space.class_of.get(name)
        if self._kinds.get(name) is not kind:
            # Ends stand in order by class: those of a node that changed its class move.
            before = {}
            self._kinds[name] = kind
            self.loosened = True
        elif any(
            uid not in leaving and "/" not in uid and not 0 <= self.now_s - item.end_s < ON_TIME_S
            for uid, item in before.items()
        ):
            self.loosened = True
        self._count += len(leaving) - len(self._of_node.get(name, {}))
        for uid, item in leaving.items():
            known = before.get(uid)
            if known == item:
                # The very object stands in the order already.
                leaving[uid] = known
            else:
                self._fresh.append(item)
        self._of_node[name] = leaving

    def add(self, leaving: Leaving) -> None:
        """One more, placed by the pass that is under way."""
        here = self._of_node.get(leaving.node)
        if here is None:
            here = self._of_node[leaving.node] = {}
        here[leaving.uid] = leaving
        self._count += 1
        self._fresh.append(leaving)

    def end_s(self, name: str, uid: str) -> float:
        """When an attempt will be gone."""
        leaving = self._of_node.get(name, {}).get(uid)
        return self.leaves_s(leaving) if leaving is not None else self.now_s

    def claim(self, name: str, claim: Claim) -> None:
        self.claims.setdefault(name, []).append(claim)
        if claim.job:
            self._promised.setdefault(claim.job, {})[name] = None
        self._space.claim(name, claim.start_s)

    def unclaim(self) -> None:
        self.claims.clear()
        self._promised.clear()
        self._space.unclaim()

    def unclaim_job(self, job: int) -> None:
        """Take the promise to one waiting job back."""
        for name in self._promised.pop(job, ()):
            kept = [claim for claim in self.claims[name] if claim.job != job]
            self._space.set_claim(name, min((c.start_s for c in kept), default=INFINITE))
            if kept:
                self.claims[name] = kept
            else:
                del self.claims[name]

    def window(self, name: str, from_s: float, until_s: float, asking: Asking) -> Room:
        """What is free on a node all the time between two moments, for this job."""
        room = self._space.rooms[name].copy(pins=False)
        moments = self._moments(name, until_s, asking)
        low: Room | None = None
        for at_s, sign, allocation in moments:
            if at_s > from_s and low is None:
                low = room.copy(pins=False)
            if sign > 0:
                room.give_back(allocation)
            else:
                room.take(allocation)
                if low is not None:
                    low.lower_to(room)
        return low if low is not None else room

    def _moments(
        self, name: str, until_s: float, asking: Asking
    ) -> list[tuple[float, int, Allocation]]:
        """Comings and goings on a node before a moment; at the same time goings come first."""
        found: list[tuple[float, int, Allocation]] = []
        for leaving in self._of_node.get(name, {}).values():
            end_s = self.leaves_s(leaving)
            if end_s < until_s:
                found.append((end_s, 1, leaving.allocation))
        for claim in self.claims.get(name, ()):
            binds = claim.binds(asking.job, asking.user, asking.project)
            if binds and claim.start_s < until_s:
                found.append((claim.start_s, -1, claim.allocation))
                if claim.end_s < until_s:
                    found.append((claim.end_s, 1, claim.allocation))
        found.sort(key=lambda moment: (moment[0], -moment[1]))
        return found

    def leaving(self, name: str) -> Iterable[Leaving]:
        """Who is on a node now."""
        return self._of_node.get(name, {}).values()

    def leaves_s(self, item: Leaving) -> float:
        """When somebody will be gone; whoever stays too long is taken to leave soon."""
        return item.end_s if item.end_s > self.now_s else self.now_s + OVERDUE_S

    def _ends(self, classes: Iterable[int]) -> Iterator[tuple[float, str]]:
        """(when, where) somebody leaves a node of these classes, soonest first; claims likewise."""
        self._sort_in()
        claimed = sorted(
            (claim.end_s, name) for name, claims in self.claims.items() for claim in claims
        )
        streams = [self._ends_in(number) for number in classes if number in self._order]
        return merge(claimed, *streams)

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
        for name in open_now:
            future.look(name, self.now_s)
        for at_s, name in self._ends(classes):
            if at_s > until_s:
                return None
            if name not in self._space.rooms or (refuses is not None and refuses(name)):
                continue
            if self._space.class_of[name].id in classes:
                future.look(name, at_s)
                found = future.find(at_s)
                if found is not None:
                    return at_s, found
        return None


def _by_end(item: Leaving) -> tuple[float, str, str]:
    return item.end_s, item.node, item.uid
