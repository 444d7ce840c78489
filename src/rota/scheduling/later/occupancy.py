"""Who is on which node until when, and who has a claim on it from when.

Kept node by node: those who are there in the order of their ends, claims of promises and
reservations, and the *course* that follows from both. What was found out about a node stands until
something changes there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.later.free_profile import Course, Moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.core.derived.lanes import Shape
    from rota.core.facts.node import Allocation
    from rota.core.facts.tenant import Reservation
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import NodeClass

INFINITE = float("inf")
#: Who is still there after his time is taken to leave this much later.
OVERDUE_S = 60.0
#: Stands in the names of attempts that a pass has only planned so far.
SLASH = "/"
#: More claims than this are not taken out of a course one by one.
FEW = 2
#: A course with more steps than this per claim and attempt is made anew.
STEPS_MAX = 4


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

    def binds(self, job: int, user: str, project: str) -> bool:
        """Whether it stands in the way of this job: not if it was made for it."""
        if self.confines:
            return self.confines == job
        if self.reservation is not None:
            return not self.reservation.admits(user, project, job)
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
    #: How long it is taken to run, and how long it may; 0: it has no limit.
    run_s: float
    limit_s: float = 0.0


class Stays:
    """Comings and goings, node by node."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self.now_s = 0.0
        self._of_node: dict[str, dict[str, Leaving]] = {}
        self._kinds: dict[str, NodeClass | None] = {}
        self._count = 0
        #: Those who came since ends were last put in order.
        self._fresh: list[Leaving] = []
        self.claims: dict[str, list[Claim]] = {}
        self._promised: dict[int, dict[str, None]] = {}
        #: (when, where) claims end, in order.
        self._claim_ends: list[tuple[float, str]] = []
        #: Nodes that somebody has a claim on who is not only a waiting job.
        self._reserved: dict[str, None] = {}
        #: What was found out about single nodes, until something changes there.
        self._courses: dict[str, Course] = {}
        self._queues: dict[str, list[Leaving]] = {}
        self._windows: dict[tuple[object, ...], Room] = {}
        #: Ends by class of node, in order, as far as they were asked for.
        self._ends_of: dict[int, list[tuple[float, str]]] = {}
        #: Changes whenever somebody comes, goes, or leaves at another time.
        self.version = 0
        #: Somebody left, or a node came: plans may go earlier. Even who leaves on time counts:
        #: plans that moved before him left gaps that nobody was asked about.
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
            uid not in leaving and self._has_left(item, leaving) for uid, item in before.items()
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
        self._courses.pop(name, None)
        self._queues.pop(name, None)
        self._forget()

    def change_node(self, name: str, changed: dict[str, Leaving | None]) -> bool:
        """Single attempts came, went (None) or leave at another time; False: tell me all."""
        here = self._of_node.get(name)
        if here is None or self._kinds.get(name) is not self._space.class_of.get(name):
            return False
        for uid, item in changed.items():
            known = here.get(uid)
            if item is None:
                if known is not None:
                    self._remove(here, known, changed)
            elif known != item:
                if known is not None:
                    self._drop(known)
                self._count += known is None
                here[uid] = item
                self._fresh.append(item)
                self._enqueue(item)
        self._forget()
        return True

    def _has_left(self, gone: Leaving, there: Mapping[str, Leaving | None]) -> bool:
        """Whether he is gone, and not only there under another name.

        One that a pass had planned to start is there under the name of its attempt by now, unless
        it is over already.
        """
        job, slash, task = gone.uid.partition(SLASH)
        name = f"{job}.{task}."
        return not slash or not any(item and uid.startswith(name) for uid, item in there.items())

    def _remove(
        self, here: dict[str, Leaving], gone: Leaving, changed: Mapping[str, Leaving | None]
    ) -> None:
        if self._has_left(gone, changed):
            self.loosened = True
        del here[gone.uid]
        self._count -= 1
        self._drop(gone)

    def _drop(self, item: Leaving) -> None:
        queue = self._queues.get(item.node)
        if queue is not None:
            del queue[bisect_left(queue, item)]
            self._move_course(item, queue, 1)

    def _enqueue(self, item: Leaving) -> None:
        queue = self._queues.get(item.node)
        if queue is not None:
            insort(queue, item)
            self._move_course(item, queue, -1)

    def _move_course(self, item: Leaving, queue: list[Leaving], sign: int) -> None:
        """Up to his end, what somebody holds is free again (1), or no longer (-1)."""
        course = self._courses.get(item.node)
        if course is not None:
            course.shift(-INFINITE, item.end_s, item.allocation, sign)
            course.good_until_s = queue[0].end_s if queue else INFINITE
            self._shorten(item.node, course)

    def _forget(self) -> None:
        """Who is on some node is another question now."""
        self.version += 1
        self._windows.clear()
        self._ends_of.clear()

    def add(self, leaving: Leaving) -> None:
        """One more, placed by the pass that is under way."""
        here = self._of_node.get(leaving.node)
        if here is None:
            here = self._of_node[leaving.node] = {}
        here[leaving.uid] = leaving
        self._count += 1
        self._fresh.append(leaving)
        self._enqueue(leaving)
        self._forget()

    def end_s(self, name: str, uid: str) -> float:
        """When an attempt will be gone."""
        leaving = self._of_node.get(name, {}).get(uid)
        return self.leaves_s(leaving) if leaving is not None else self.now_s

    def claim(self, name: str, claim: Claim) -> None:
        self.claims.setdefault(name, []).append(claim)
        insort(self._claim_ends, (claim.end_s, name))
        if claim.job:
            self._promised.setdefault(claim.job, {})[name] = None
            self._shift_course(name, claim, -1)
        else:
            self._reserved[name] = None
            self._courses.pop(name, None)
        self._windows.clear()
        self._space.claim(name, claim.start_s)

    def unclaim(self) -> None:
        for name, claims in self.claims.items():
            if len(claims) > FEW or name in self._reserved:
                self._courses.pop(name, None)
                continue
            for claim in claims:
                self._shift_course(name, claim, 1)
        self.claims.clear()
        self._claim_ends.clear()
        self._promised.clear()
        self._reserved.clear()
        self._windows.clear()
        self._space.unclaim()

    def unclaim_job(self, job: int) -> None:
        """Take the promise to one waiting job back."""
        for name in self._promised.pop(job, ()):
            kept = []
            for claim in self.claims[name]:
                if claim.job != job:
                    kept.append(claim)
                    continue
                del self._claim_ends[bisect_left(self._claim_ends, (claim.end_s, name))]
                self._shift_course(name, claim, 1)
            self._space.set_claim(name, min((c.start_s for c in kept), default=INFINITE))
            if kept:
                self.claims[name] = kept
            else:
                del self.claims[name]
        self._windows.clear()

    def _shift_course(self, name: str, claim: Claim, sign: int) -> None:
        course = self._courses.get(name)
        if course is not None:
            course.shift(claim.start_s, claim.end_s, claim.allocation, sign)
            self._shorten(name, course)

    def _shorten(self, name: str, course: Course) -> None:
        """Steps stay behind when those who made them have gone."""
        here = len(self._of_node.get(name, ())) + len(self.claims.get(name, ())) + STEPS_MAX
        if len(course) > STEPS_MAX * here:
            del self._courses[name]

    def course(self, name: str, asking: Asking) -> Course | None:
        """The node in steps of plain amounts; None where it depends on who asks."""
        if name in self._reserved or name in self._promised.get(asking.job, ()):
            return None
        known = self._courses.get(name)
        room = self._space.rooms[name]
        if known is not None and known.is_of(room, self.now_s):
            return known
        queue = self._queue(name)
        moments = [Moment(self.leaves_s(item), 1, item.allocation) for item in queue]
        for claim in self.claims.get(name, ()):
            moments.append(Moment(claim.start_s, -1, claim.allocation))
            moments.append(Moment(claim.end_s, 1, claim.allocation))
        moments.sort(key=_by_moment)
        good_until_s = queue[0].end_s if queue else INFINITE
        course = Course(room, moments, good_until_s)
        if self.now_s < good_until_s:
            # Where somebody outstays his time, the next moment tells another story.
            self._courses[name] = course
        else:
            self._courses.pop(name, None)
        return course

    def _queue(self, name: str) -> list[Leaving]:
        """Who is on a node, in order of their ends."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = sorted(self._of_node.get(name, {}).values())
        return queue

    def stay_s(self, name: str, asking: Asking) -> float:
        """How long the job counts on a node: against reservations only its limit does."""
        return (asking.limit_s or INFINITE) if name in self._reserved else asking.run_s

    def window(self, name: str, from_s: float, until_s: float, asking: Asking) -> Room:
        """What is free on a node all the time between two moments, for this job."""
        claims = [
            claim
            for claim in self.claims.get(name, ())
            if claim.start_s < until_s and claim.binds(asking.job, asking.user, asking.project)
        ]
        return self.window_under(claims, name, from_s, until_s)

    def window_under(self, claims: list[Claim], name: str, from_s: float, until_s: float) -> Room:
        """The same if these were all claims there are.

        Who leaves later than the last claim begins makes no difference.
        """
        room = self._space.rooms[name].copy(pins=False)
        last_s = max([from_s, *(claim.start_s for claim in claims)])
        moments = self._leaving_by(name, last_s, until_s)
        for claim in claims:
            moments.append(Moment(claim.start_s, -1, claim.allocation))
            if claim.end_s <= last_s:
                moments.append(Moment(claim.end_s, 1, claim.allocation))
        if claims:
            moments.sort(key=_by_moment)
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

    def _leaving_by(self, name: str, last_s: float, until_s: float) -> list[Moment]:
        """Who will have left a node by a moment, and before another one."""
        found: list[Moment] = []
        late_s = self.now_s + OVERDUE_S
        for item in self._queue(name):
            if item.end_s > last_s:
                break
            end_s = item.end_s if item.end_s > self.now_s else late_s
            if end_s <= last_s and end_s < until_s:
                found.append(Moment(end_s, 1, item.allocation))
        return found

    def window_now(self, name: str, until_s: float, asking: Asking) -> Room:
        """The same from now on, to look at: it is remembered for whoever asks next."""
        room = self._space.rooms[name]
        binding = [
            id(claim)
            for claim in self.claims.get(name, ())
            if claim.start_s < until_s and claim.binds(asking.job, asking.user, asking.project)
        ]
        key = (name, self.now_s, self._space.shifts, room.holders, *binding)
        known = self._windows.get(key)
        if known is None:
            known = self._windows[key] = self.window(name, self.now_s, until_s, asking)
        return known

    def leaving(self, name: str) -> Iterable[Leaving]:
        """Who is on a node now."""
        return self._of_node.get(name, {}).values()

    def leaves_s(self, item: Leaving) -> float:
        """When somebody will be gone; whoever stays too long is taken to leave soon."""
        return item.end_s if item.end_s > self.now_s else self.now_s + OVERDUE_S


def planned_uid(job: int, task: int) -> str:
    """What an attempt is called until it is on record."""
    return f"{job}{SLASH}{task}"


def _by_moment(moment: Moment) -> tuple[float, int]:
    """At the same time goings come first."""
    return moment.at_s, -moment.sign
