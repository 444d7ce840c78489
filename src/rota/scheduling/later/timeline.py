"""Free room over future time, node by node.

What is known about the future: running attempts leave at the end of their time, and *claims*
come and go: promises to waiting jobs, reservations, maintenance windows. Both make the *profile*
of a node. From it follow what stays free on the node up to a moment (``window``), and when and
where a waiting job can start at the earliest (``start_search``).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from rota.scheduling.later.free_profile import Profile, need_of
from rota.scheduling.later.occupancy import (
    INFINITE,
    NOWHERE,
    OVERDUE_S,
    SLASH,
    Asking,
    AttemptEnds,
    Claim,
    End,
    LeavingAttempt,
    Stay,
    planned_uid,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rota.core.facts.resources import Request
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.place.node_room import Room

__all__ = ["OVERDUE_S", "Asking", "Claim", "LeavingAttempt", "Timeline", "planned_uid"]


class Timeline:
    """Which attempt leaves when, and which claims there are from when."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.now_s = 0.0
        self._stays: dict[str, Stay] = {}
        self._ends = AttemptEnds()
        self.claims: dict[str, list[Claim]] = {}
        #: The claims of reservations among them, and the nodes that waiting jobs were promised.
        self.reserved: dict[str, list[Claim]] = {}
        self._promised: dict[int, dict[str, None]] = {}
        #: When and where claims end, in order.
        self._claim_ends: list[End] = []
        #: Grows when an attempt leaves or a node comes: plans may go earlier. Even leaving on time
        #: counts: plans that moved before that left gaps that no job was asked about.
        self.loosened = 1

    def _stay(self, name: str) -> Stay:
        stay = self._stays.get(name)
        if stay is None:
            stay = self._stays[name] = Stay(self._class(name))
        return stay

    def _class(self, name: str) -> int:
        kind = self.space.class_of.get(name)
        return kind.id if kind is not None else NOWHERE

    def set_node(self, name: str, leaving: dict[str, LeavingAttempt]) -> None:
        """All attempts that are on a node now."""
        number, stay = self._class(name), self._stays.get(name)
        if stay is None or stay.number != number:
            # Ends stand in order by class, and a profile follows the devices of one.
            self.loosened += 1
            if stay is not None:
                for item in stay.here.values():
                    self._ends.remove(stay.number, item)
            stay = self._stays[name] = Stay(number, leaving)
            for item in leaving.values():
                self._ends.add(number, item)
        else:
            self.change_node(name, {**dict.fromkeys(stay.here), **leaving})
        if not leaving and number == NOWHERE:
            del self._stays[name]

    def change_node(self, name: str, changed: dict[str, LeavingAttempt | None]) -> bool:
        """Single attempts came, went (None) or leave at another time; False: tell me all."""
        stay = self._stays.get(name)
        if stay is None or stay.number != self._class(name):
            return False
        for uid, item in changed.items():
            known = stay.here.get(uid)
            if known == item:
                continue
            if known is not None:
                if item is None and _has_left(known, changed):
                    self.loosened += 1
                stay.go(known)
                self._ends.remove(stay.number, known)
            if item is not None:
                stay.come(item)
                self._ends.add(stay.number, item)
        return True

    def add(self, leaving: LeavingAttempt) -> None:
        """One more, placed by the pass that is under way."""
        stay = self._stays.get(leaving.node) or self._stay(leaving.node)
        stay.come(leaving)
        self._ends.add(stay.number, leaving)

    def end_s(self, name: str, uid: str) -> float:
        stay = self._stays.get(name)
        item = stay.here.get(uid) if stay is not None else None
        if item is None:
            return self.now_s
        return item.end_s if item.end_s > self.now_s else self.now_s + OVERDUE_S

    def claim(self, name: str, claim: Claim) -> None:
        self.claims.setdefault(name, []).append(claim)
        if claim.end_s < INFINITE:
            insort(self._claim_ends, (claim.end_s, name, ""))
        if claim.job:
            self._promised.setdefault(claim.job, {})[name] = None
        else:
            self.reserved.setdefault(name, []).append(claim)
        if not claim.confines:
            self._stay(name).claim(claim, 1)
        self.space.claim(name, claim.start_s)

    def unclaim(self) -> None:
        """Nothing is claimed any more."""
        for name, claims in self.claims.items():
            stay = self._stay(name)
            for claim in claims:
                if not claim.confines:
                    stay.claim(claim, -1)
        self.claims.clear()
        self.reserved.clear()
        self._promised.clear()
        self._claim_ends.clear()
        self.space.unclaim()

    def unclaim_job(self, job: int) -> None:
        """Take the promise to one waiting job back."""
        for name in self._promised.pop(job, ()):
            kept = []
            for claim in self.claims[name]:
                if claim.job != job:
                    kept.append(claim)
                    continue
                del self._claim_ends[bisect_left(self._claim_ends, (claim.end_s, name, ""))]
                self._stay(name).claim(claim, -1)
            self.space.set_claim(name, min((c.start_s for c in kept), default=INFINITE))
            if kept:
                self.claims[name] = kept
            else:
                del self.claims[name]

    def ends(self, classes: Iterable[int]) -> Iterator[End]:
        """When and where attempts leave nodes of these classes and claims end, soonest first."""
        return self._ends.walk(classes, self.now_s, self._claim_ends)

    def is_bound(self, name: str, asking: Asking) -> bool:
        """Whether a reservation on this node stands in the way of this job."""
        return any(map(asking.is_bound_by, self.reserved.get(name, ())))

    def must_leave(self, name: str, asking: Asking) -> bool:
        """Whether one of others does: its own confines it to devices, and lets it stay."""
        return any(
            asking.is_bound_by(claim) for claim in self.reserved.get(name, ()) if not claim.confines
        )

    def until_s(self, name: str, from_s: float, asking: Asking) -> float:
        """When a job that starts on a node at a moment is taken to be gone from there.

        Jobs that wait can rely on its estimate; where a reservation begins only its limit counts.
        """
        if name in self.reserved and self.must_leave(name, asking):
            return from_s + asking.limit_s if asking.limit_s else INFINITE
        return from_s + asking.run_s

    def profile(self, name: str, asking: Asking) -> Profile:
        """What will be free on a node for this job. To look at: others are told the same."""
        stay = self._stays.get(name) or self._stay(name)
        profile = stay.up_to_date()
        if profile is None:
            profile = stay.profile = self._made(name, stay)
        if stay.queue and stay.queue[0].end_s <= self.now_s:
            profile = self._late(stay, profile)
        if name not in self.reserved and asking.job not in self._promised:
            return profile
        own = [
            claim
            for claim in self.reserved.get(name, ())
            if asking.is_bound_by(claim) == bool(claim.confines)
        ]
        if name in self._promised.get(asking.job, ()):
            own += [claim for claim in self.claims[name] if claim.job == asking.job]
        if own:
            profile = profile.copy()
            for claim in own:
                sign = 1 if claim.confines else -1
                profile.claim(claim.start_s, claim.end_s, claim.allocation, sign)
        return profile

    def _made(self, name: str, stay: Stay) -> Profile:
        """All comings and goings, and all claims that bind jobs in general."""
        moments = [(item.end_s, 1, item.allocation) for item in stay.in_order()]
        claims = [claim for claim in self.claims.get(name, ()) if not claim.confines]
        for claim in claims:
            moments.append((claim.start_s, -1, claim.allocation))
            if claim.end_s < INFINITE:
                moments.append((claim.end_s, 1, claim.allocation))
        if claims:
            moments.sort(key=lambda moment: moment[0])
        profile = Profile(self.space.class_of[name].spec.devices)
        for at_s, sign, allocation in moments:
            profile.append(at_s, allocation, sign)
        profile.claimed = len(claims)
        return profile

    def _late(self, stay: Stay, profile: Profile) -> Profile:
        """The same while attempts outstay their time: they are taken to leave soon."""
        if stay.late is None or stay.late_s != self.now_s:
            stay.late, stay.late_s = profile.copy(), self.now_s
            for item in stay.in_order():
                if item.end_s > self.now_s:
                    break
                stay.late.shift(item.end_s, self.now_s + OVERDUE_S, item.allocation, -1)
        return stay.late

    def lacks(self, name: str, until_s: float, asking: Asking, request: Request) -> bool:
        """Whether a node has too little for a task from now on, be the node its own or not."""
        kind, room = self.space.class_of[name], self.space.rooms[name]
        need = need_of(kind, request, firm=asking.is_firm, bars=0)
        return not self.profile(name, asking).look(room, need, 1, self.now_s, until_s)[0]

    def window(self, name: str, from_s: float, until_s: float, asking: Asking) -> Room:
        """What is free on a node all the time between two moments, for this job."""
        room = self.space.rooms[name]
        low = self.profile(name, asking).window(room, from_s, until_s)
        if low.cpus and name in self.claims:
            for claim in self.claims[name]:
                if claim.start_s < until_s and asking.is_bound_by(claim):
                    gone = set(claim.allocation.cpus)
                    low.cpus = [cpu for cpu in low.cpus if cpu not in gone]
        return low

    def window_under(
        self, claims: list[Claim], name: str, from_s: float, until_s: float, asking: Asking
    ) -> Room:
        """The same if these were the only claims that stand in the way of this job."""
        profile = self.profile(name, asking).copy()
        for claim in self.claims.get(name, ()):
            if claim not in claims and asking.is_bound_by(claim):
                profile.claim(claim.start_s, claim.end_s, claim.allocation, -1)
        return profile.window(self.space.rooms[name], from_s, until_s)


def _has_left(gone: LeavingAttempt, there: Mapping[str, LeavingAttempt | None]) -> bool:
    """Whether an attempt is gone, and not only there under another name.

    One that a pass had planned to start is there under the name of its attempt by now, unless it
    is over already.
    """
    job, slash, task = gone.uid.partition(SLASH)
    name = f"{job}.{task}."
    return not slash or not any(item and uid.startswith(name) for uid, item in there.items())
