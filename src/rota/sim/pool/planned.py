"""A pool that plans on a profile of the future: conservative backfill, and promises on nodes.

With conservative backfill everybody who waits has a slot. When somebody leaves early, slots are
brought forward one by one in the order of the line, each at best exchanged for an earlier one
(``rebuild``: all are given up and made anew). EASY is the same with a slot for the first only;
it is planned here where nodes have names, since a slot then binds the very nodes that it names.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill
from rota.sim.pool.api import INFINITE, PoolDecision, PoolStart
from rota.sim.pool.profile import FreeProfile, Pinned, Slot
from rota.sim.pool.ranking import Ranking

if TYPE_CHECKING:
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Entry
    from rota.sim.pool.line import Waiter

#: A job that takes no time at all is planned for this: a slot without length keeps nothing out.
NO_LENGTH_S = 1


class PlannedPool:
    """``total`` processors, numbered from 0 if ``pinned``."""

    def __init__(
        self, total: int, policy: Policy, *, pinned: bool = False, due_is_gone: bool = False
    ) -> None:
        self._total = total
        self._new_profile = Pinned if pinned else FreeProfile
        self._due_is_gone = due_is_gone
        self._policy = policy
        self._all_planned = policy.backfill.kind is Backfill.CONSERVATIVE
        self._ranking = Ranking(policy)
        self._profile = self._new_profile(total)
        self._slots: dict[int, Slot] = {}
        #: When slots begin; some of these are not any more.
        self._coming: list[tuple[float, int]] = []
        #: Until when a running job is taken to hold which processors.
        self._running: dict[int, tuple[float, int]] = {}
        self._gone: list[int] = []
        self._fresh: list[Waiter] = []
        #: Somebody left: slots may be brought forward.
        self._loose = False
        #: Somebody stays longer than planned, or the order is another one: slots do not hold.
        self._broken = False

    def arrive(
        self,
        job: int,
        size: int,
        run_s: float,
        entry: Entry | None = None,
        stay_s: float = 0.0,
    ) -> None:
        self._fresh.append(self._ranking.add(job, size, run_s or NO_LENGTH_S, entry))

    def withdraw(self, job: int) -> None:
        waiter = self._ranking.remove(job)
        self._fresh = [fresh for fresh in self._fresh if fresh is not waiter]
        if self._slots.pop(job, None) is not None:
            self._broken = True

    def leave(self, job: int) -> None:
        self._gone.append(job)

    def expect(self, job: int, end_s: float) -> None:
        if job in self._running:
            self._running[job] = (end_s, self._running[job][1])
            self._broken = True

    def slot_s(self, job: int) -> float:
        """When a waiting job is to start."""
        return self._slots[job].start_s

    def decide(self, now_s: float) -> PoolDecision:
        self._profile.advance(now_s)
        self._take_back(now_s)
        starts: list[PoolStart] = []
        self._ranking.begin(now_s)
        self._broken = self._broken or self._ranking.moving
        if self._broken:
            self._start_over(now_s)
        if self._all_planned:
            self._plan_all(now_s, starts)
        else:
            self._plan_first(now_s, starts)
        self._fresh.clear()
        self._loose = self._broken = False
        return PoolDecision(starts, wake_s=self._next_slot_s())

    def _take_back(self, now_s: float) -> None:
        """Jobs that left give back what they were to hold for longer."""
        for job in self._gone:
            end_s, held = self._running.pop(job)
            # Even who leaves on time may let others move: slots that moved before left gaps.
            self._loose = True
            if end_s > now_s and not self._broken:
                self._profile.give_back(now_s, end_s, held)
        self._gone.clear()

    def _start_over(self, now_s: float) -> None:
        """Only jobs that run are certain."""
        self._profile = self._new_profile(self._total, now_s)
        for end_s, held in self._running.values():
            if end_s > now_s:
                self._profile.take(now_s, end_s, held)
            elif not self._due_is_gone:
                # A job that outstays its time may go any moment, but holds its room until then.
                self._profile.take(now_s, now_s + 1, held)
        self._slots.clear()
        self._coming.clear()

    def _plan_all(self, now_s: float, starts: list[PoolStart]) -> None:
        if self._loose and self._policy.backfill.rebuild and not self._broken:
            self._start_over(now_s)
        if self._loose or self._broken:
            self._profile.join()
            waiting = [*self._ranking.line]
        else:
            waiting = sorted([*self._fresh, *self._due(now_s)])
        slots, moved, loose = self._slots, self._profile.moved, self._loose
        for waiter in waiting:
            slot = slots.get(waiter[3])
            if slot is None or not loose:
                self._plan(waiter, slot, now_s, starts)
            elif (other := moved(slot, waiter[2])) is not slot or other.start_s <= now_s:
                self._settle(waiter, other, now_s, starts)

    def _due(self, now_s: float) -> list[Waiter]:
        """Those whose slot begins by now."""
        coming, slots = self._coming, self._slots
        found: dict[int, Waiter] = {}
        while coming and coming[0][0] <= now_s:
            start_s, job = heappop(coming)
            if job in slots and slots[job].start_s == start_s:
                found[job] = self._ranking.waiter(job)
        return [*found.values()]

    def _next_slot_s(self) -> float:
        """When the next slot begins: those before it may have moved away and cause no event."""
        coming, slots = self._coming, self._slots
        while coming:
            start_s, job = coming[0]
            if job in slots and slots[job].start_s == start_s:
                return start_s
            heappop(coming)
        return INFINITE

    def _plan(
        self, waiter: Waiter, slot: Slot | None, now_s: float, starts: list[PoolStart]
    ) -> None:
        """Give a job the earliest slot if it has none; it starts if that is now."""
        _, size, run_s, _ = waiter
        if slot is None:
            slot = self._profile.earliest(size, run_s)
            assert slot is not None, "the last step has no end"
            self._profile.take(slot.start_s, slot.start_s + run_s, slot.held)
            self._settle(waiter, slot, now_s, starts)
        elif slot.start_s <= now_s:
            self._start(waiter, slot, now_s, starts)

    def _settle(self, waiter: Waiter, slot: Slot, now_s: float, starts: list[PoolStart]) -> None:
        """A job has this slot from now on; it starts if that is now."""
        if slot.start_s <= now_s:
            self._start(waiter, slot, now_s, starts)
        else:
            self._slots[waiter[3]] = slot
            heappush(self._coming, (slot.start_s, waiter[3]))

    def _plan_first(self, now_s: float, starts: list[PoolStart]) -> None:
        """The first gets a slot, with EASY; the others start if they fit beside it."""
        profile, rules = self._profile, self._policy.backfill
        promised: tuple[float, float, int] | None = None
        waiting = deque(self._ranking.line)
        while waiting:
            waiter = waiting.popleft()
            _, size, run_s, _ = waiter
            if promised is not None and not rules.spare and now_s + run_s > promised[0]:
                continue
            slot = profile.fits_now(size, run_s)
            if slot is not None:
                profile.take(now_s, now_s + run_s, slot.held)
                self._start(waiter, slot, now_s, starts)
            elif self._policy.order.strict:
                break
            elif promised is None and rules.kind is Backfill.EASY:
                slot = profile.earliest(size, run_s)
                assert slot is not None, "the last step has no end"
                promised = (slot.start_s, slot.start_s + run_s, slot.held)
                profile.take(*promised)
                if rules.shortest:
                    waiting = deque(sorted(waiting, key=lambda other: (other[2], other[3])))
        if promised is not None:
            profile.give_back(*promised)
        profile.join()

    def _start(self, waiter: Waiter, slot: Slot, now_s: float, starts: list[PoolStart]) -> None:
        _, _, run_s, job = waiter
        self._ranking.remove(job)
        self._slots.pop(job, None)
        self._running[job] = (now_s + run_s, slot.held)
        starts.append(PoolStart(job, slot.held if self._new_profile is Pinned else 0))
