"""Which attempt is on which node until when, and which claims a node has from when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.core.facts.job import ServiceClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Allocation
    from rota.core.facts.tenant import Reservation
    from rota.scheduling.later.free_profile import Profile

INFINITE = float("inf")
#: An attempt that is still there after its time is taken to leave this much later.
OVERDUE_S = 60.0
#: Stands in the names of attempts that a pass has only planned so far.
SLASH = "/"
#: The class of a node that takes no work.
NOWHERE = -1
#: A profile with more steps than this per claim and attempt is made anew: steps stay behind.
STEPS_MAX = 4
#: Up to this many shifts more than attempts a profile follows, instead of being made anew.
FEW = 2
#: More new ends than this are sorted in at once instead of one by one.
MANY = 1024
#: Up to this many ends of several classes are put in order at once instead of when asked for.
SHORT = 1024

#: When and where something is given back, and by which attempt: a ``Leaving``, or as it begins.
End = tuple[Any, ...]


class Claim(NamedTuple):
    """From when to when something else has a right to part of a node."""

    start_s: float
    end_s: float
    allocation: Allocation
    #: The waiting job that it is promised to; 0: a reservation.
    job: int = 0
    reservation: Reservation | None = None
    #: The job that has other devices to run on, and is kept from these; 0: none.
    confines: int = 0
    #: The node ends then; jobs without a limit may begin there all the same (``unlimited``).
    ends: bool = False
    unlimited: bool = False

    def binds(self, job: int, user: str, project: str) -> bool:
        """Whether it stands in the way of this job: not if it was made for it."""
        if self.confines:
            return self.confines == job
        if self.reservation is not None:
            return not self.reservation.admits(user, project, job)
        return self.job != job


class LeavingAttempt(NamedTuple):
    """An attempt that will be gone by then."""

    end_s: float
    node: str
    uid: str
    allocation: Allocation


class Asking(NamedTuple):
    """The job for which the future is looked at."""

    job: int
    user: str
    project: str
    shape: Shape
    run_s: float
    #: How long it may stay at most; 0: it has no limit.
    limit_s: float = 0.0
    #: It can save its work when it is asked to.
    saves: bool = False

    @property
    def is_firm(self) -> bool:
        return self.shape.service is ServiceClass.GUARANTEED

    def is_bound_by(self, claim: Claim) -> bool:
        if claim.ends:
            return bool(self.limit_s) or not (claim.unlimited or self.saves)
        return claim.binds(self.job, self.user, self.project)


class Shift(NamedTuple):
    """Between two moments more (1) or less (-1) is free on a node."""

    start_s: float
    end_s: float
    allocation: Allocation
    sign: int
    #: By how much that changes the number of claims.
    claims: int = 0


@dataclass(slots=True)
class Stay:
    """One node: the class that its ends are filed under, its attempts, and their profile."""

    number: int
    here: dict[str, LeavingAttempt] = field(default_factory=dict)
    #: The same in order of their ends, once that was asked for.
    queue: list[LeavingAttempt] | None = None
    #: As of when it was last asked for, and what came and went since.
    profile: Profile | None = None
    news: list[Shift] = field(default_factory=list)
    #: The profile as it is at a moment at which attempts outstay their time.
    late: Profile | None = None
    late_s: float = -INFINITE

    def in_order(self) -> list[LeavingAttempt]:
        if self.queue is None:
            self.queue = sorted(self.here.values())
        return self.queue

    def come(self, item: LeavingAttempt) -> None:
        self.here[item.uid] = item
        if self.queue is not None:
            insort(self.queue, item)
        self.late = None
        if self.profile is not None:
            self._note(Shift(item.end_s, INFINITE, item.allocation, 1))

    def go(self, item: LeavingAttempt) -> None:
        del self.here[item.uid]
        if self.queue is not None:
            del self.queue[bisect_left(self.queue, item)]
        self.late = None
        if self.profile is not None:
            self._note(Shift(item.end_s, INFINITE, item.allocation, -1))

    def claim(self, claim: Claim, sign: int) -> None:
        """There is one more claim that binds jobs in general (1), or one less (-1)."""
        self.late = None
        if self.profile is not None:
            self._note(Shift(claim.start_s, claim.end_s, claim.allocation, -sign, sign))

    def _note(self, shift: Shift) -> None:
        self.news.append(shift)
        if len(self.news) > FEW + len(self.here):
            # To make it anew is less work.
            self.profile = None
            self.news.clear()

    def up_to_date(self) -> Profile | None:
        """The profile with all that came and went; None: it has to be made."""
        profile = self.profile
        if profile is not None and self.news:
            for start_s, end_s, held, sign, claims in self.news:
                profile.shift(start_s, end_s, held, sign)
                profile.claimed += claims
            self.news.clear()
            if len(profile) > STEPS_MAX * (len(self.here) + profile.claimed + STEPS_MAX):
                self.profile = None
        return self.profile


class AttemptEnds:
    """When attempts leave, by class of node, soonest first."""

    def __init__(self) -> None:
        self._order: dict[int, list[End]] = {}
        #: Those that are not in order yet: these very objects, by their identity.
        self._fresh: dict[int, dict[int, LeavingAttempt]] = {}

    def add(self, number: int, item: LeavingAttempt) -> None:
        fresh = self._fresh.get(number)
        if fresh is None:
            fresh = self._fresh[number] = {}
        fresh[id(item)] = item

    def remove(self, number: int, item: LeavingAttempt) -> None:
        if self._fresh.get(number, {}).pop(id(item), None) is None:
            order = self._order[number]
            del order[bisect_left(order, item)]

    def _sort_in(self) -> None:
        for number, fresh in self._fresh.items():
            order = self._order.setdefault(number, [])
            if len(fresh) <= MANY:
                for item in fresh.values():
                    insort(order, item)
            else:
                order += fresh.values()
                order.sort()
        self._fresh.clear()

    def walk(self, numbers: Iterable[int], now_s: float, more: list[End]) -> Iterator[End]:
        """Everything that is given back on nodes of these classes, soonest first.

        ``more`` comes in between: it is in order as well.
        """
        self._sort_in()
        orders = [self._order[number] for number in numbers if self._order.get(number)]
        parts = [_on_time(order, now_s) for order in orders]
        if more:
            parts.append(iter(more))
        if len(parts) == 1:
            return parts[0]
        if sum(map(len, orders)) + len(more) > SHORT:
            return merge(*parts)
        return iter(sorted(chain.from_iterable(parts)))


def _on_time(order: list[End], now_s: float) -> Iterator[End]:
    """Ends in order, of attempts that outstay their time a while from now."""
    if order[0][0] > now_s:
        return iter(order)
    late = bisect_right(order, now_s, key=itemgetter(0))
    late_s = now_s + OVERDUE_S
    overdue = sorted((late_s, name, uid) for _, name, uid, _ in order[:late])
    return merge(overdue, islice(order, late, None))


def planned_uid(job: int, task: int) -> str:
    """What an attempt is called until it is on record."""
    return f"{job}{SLASH}{task}"
