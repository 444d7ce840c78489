"""Preemption as a pass does it: who may look for victims, where, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.holdings import amount_of
from rota.core.derived.lanes import key_with, shape_of
from rota.core.facts.policy import PreemptMode
from rota.core.facts.resources import NOTHING
from rota.scheduling.api import Entry
from rota.scheduling.evict.lending import Lenders
from rota.scheduling.evict.search import Preemption
from rota.scheduling.order.lengths import run_s_of
from rota.scheduling.order.orderings import effective_priority
from rota.scheduling.place.gang import Placed

if TYPE_CHECKING:
    from rota.core.facts.job import Job
    from rota.scheduling.api import Eviction
    from rota.scheduling.evict.search import Takeover
    from rota.scheduling.order.heads import Head
    from rota.scheduling.passes import Pass


class Takeovers:
    """Made for each pass; costs nothing until a job finds no room and may take some."""

    def __init__(self, this: Pass) -> None:
        self._pass = this
        self._rules = this.policy.preempt
        self._search: Preemption | None = None
        #: The same among those who stand still instead of leaving.
        self._loans: Preemption | None = None
        #: Shapes and priorities that found no victims.
        self._vain: dict[tuple[int, str], float] = {}
        self._names: dict[int, list[str]] = {}

    def try_for(self, head: Head, entry: Entry) -> bool:
        """Evict the cheapest victims for a job that finds no room, and start it in their place."""
        if not self._rules.enabled:
            return False
        this = self._pass
        priority = effective_priority(entry, this.view)
        vain = (entry.key.shape, entry.key.queue)
        if priority <= self._vain.get(vain, -1.0) or self._searching().left <= 0:
            return False
        takeover = self._find(head, entry, priority)
        if takeover is None or not (takeover.after or takeover.borrows):
            self._vain[vain] = max(priority, self._vain.get(vain, -1.0))
            this.wake_at(self._searching().herd.ripe_s)
            return False
        for search in (self._search, self._loans):
            if search is not None:
                search.commit(takeover)
        placed = list(map(Placed, takeover.tasks, takeover.allocations))
        for _, allocation in placed:
            this.space.take(allocation.node, allocation)
        this.plan.evictions += takeover.evictions
        for eviction in takeover.evictions:
            if eviction.mode is not PreemptMode.SUSPEND:
                self._note_evicted(eviction)
        this.record(head, entry, placed, after=takeover.after, borrows=takeover.borrows)
        this.promises.fulfilled(entry.job)
        return True

    def _note_evicted(self, eviction: Eviction) -> None:
        """What a victim holds need not be reclaimed from its account again."""
        this = self._pass
        job = this.cluster.jobs[eviction.job]
        held = NOTHING
        for task in eviction.tasks or range(len(job.tasks)):
            attempt = job.tasks[task].current
            if attempt is not None and attempt.live:
                held = held.plus(amount_of(attempt.allocation))
        this.quotas.evict(job, held if eviction.tasks else None)

    def _find(self, head: Head, entry: Entry, priority: float) -> Takeover | None:
        """Who stands still loses nothing: those are asked first, where CPUs are all that lacks."""
        names = self._nodes_for(head, entry)
        reclaims = None if self._borrows(entry) else self._pass.quotas.reclaimable
        full, loans = self._searching(), self._loans
        if loans is not None and not entry.shape.placement.exclusive:
            takeover = loans.find(entry, priority, names, reclaims=reclaims)
            if takeover is not None:
                return takeover
        return full.find(entry, priority, names, reclaims=reclaims)

    def _borrows(self, entry: Entry) -> bool:
        """Only who keeps within his own limits may take back what was lent to others."""
        return self._pass.quotas.borrowing(entry.key, self._pass.scheduler.amount(entry.key.shape))

    def _searching(self) -> Preemption:
        if self._search is None:
            this, rule = self._pass, self._pass.rules.victims
            cluster, rooms = this.cluster, this.space.rooms
            self._search = Preemption(cluster, rooms, this.now_s, self._priority_of, rule)
            if self._rules.mode is PreemptMode.SUSPEND or cluster.stoppable:
                self._loans = Preemption(
                    cluster, rooms, this.now_s, self._priority_of, rule, Lenders
                )
        return self._search

    def _priority_of(self, job: Job) -> float:
        """What a running job is worth: its wait is over, so age does not count."""
        this = self._pass
        entry = Entry(
            job.id,
            key_with(0, job.spec),
            shape_of(job.spec),
            job.submitted_s,
            0.0,
            run_s_of(this.cluster, job.spec, job.spec.roles),
        )
        return effective_priority(entry, this.view)

    def _nodes_for(self, head: Head, entry: Entry) -> list[str]:
        """Where the job may run by everything but room. Claims of others are respected."""
        this = self._pass
        names = self._names.get(entry.key.shape)
        if names is None:
            shape, space = head.shape, this.space
            wants = space.wants(entry.key.shape, shape)
            names = self._names[entry.key.shape] = [
                name
                for name in sorted(space.rooms)
                if any(space.may_ever_fit(want, name) for want in wants)
                and not this.near.refuses(shape, name)
            ]
        claimed = this.space.claimed_from
        if not claimed:
            return names
        until_s = this.until_s(entry)
        own = this.promises.kept.get(entry.job)
        # What it was promised is its own, but for what somebody reserved.
        mine = {a.node for a in own.allocations} if own is not None else set()
        mine -= this.promises.reserved.keys()
        return [
            name for name in names if name in mine or until_s <= claimed.get(name, float("inf"))
        ]
