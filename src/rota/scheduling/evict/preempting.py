"""Preemption as a pass does it: who may look for victims, where, and what follows from it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rota.core.derived.lanes import key_with, shape_of
from rota.core.facts.policy import PreemptMode
from rota.scheduling.api import Entry
from rota.scheduling.evict.lending import Lenders
from rota.scheduling.evict.search import Preemption
from rota.scheduling.limits.quota import Part
from rota.scheduling.order.orderings import effective_priority
from rota.scheduling.place.gang import Placed

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.loans import Loan
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Plan, View
    from rota.scheduling.evict.claimant import Claimant
    from rota.scheduling.evict.search import Takeover
    from rota.scheduling.later.promises import Promises
    from rota.scheduling.limits.quota import Quotas
    from rota.scheduling.order.heads import Head
    from rota.scheduling.place.node_checks import NodeChecks
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.rules import Rules

#: When a pass has evicted as many jobs as it may, the next claimants are looked at so much later.
POSTPONED_S = 5.0


class Host(Protocol):
    """What preemption needs of the pass that it is part of."""

    cluster: Cluster
    rules: Rules
    view: View
    quotas: Quotas
    checks: NodeChecks
    plan: Plan

    @property
    def policy(self) -> Policy: ...

    @property
    def now_s(self) -> float: ...

    @property
    def space(self) -> Space: ...

    @property
    def promises(self) -> Promises: ...

    def wake_at(self, at_s: float) -> None: ...

    def record(
        self,
        head: Head,
        entry: Entry,
        placed: list[Placed],
        *,
        after: tuple[str, ...],
        borrows: tuple[tuple[Loan, ...], ...],
    ) -> None: ...


class Miss(NamedTuple):
    """A search that found no victims, and all that its answer depends on beside the shape."""

    claimant: Claimant
    #: Tells what could be reclaimed then; -1: nothing, by right.
    moves: int
    names: list[str]
    barred: frozenset[str]
    #: How many takeovers this pass had decided: each leaves room that others may wait for.
    takeovers: int

    def covers(self, other: Miss) -> bool:
        """Whether a claimant that may do no more than this one would search in vain, too."""
        return (
            self.claimant.priority >= other.claimant.priority
            and (self.moves, self.takeovers) == (other.moves, other.takeovers)
            and self.barred <= other.barred
            and self.names == other.names
        )


class Takeovers:
    """Made for each pass; costs nothing until a job finds no room and may take some."""

    def __init__(self, this: Host) -> None:
        self._pass = this
        self._rules = this.policy.preempt
        #: Jobs that this pass has evicted, and how many searches led to that.
        self._evicted = self._made = 0
        self._search: Preemption | None = None
        #: The same among jobs that stand still instead of leaving.
        self._loans: Preemption | None = None
        #: The last search in vain for each shape.
        self._misses: dict[int, Miss] = {}
        self._names: dict[int, list[str]] = {}
        self._all_names: list[str] = []

    def try_for(self, head: Head, entry: Entry) -> bool:
        """Evict the cheapest victims for a job that finds no room, and start it in their place.

        It may have as many as it needs, or a large gang could never evict anybody. A pass that
        has evicted enough leaves the next claimants to a later one.
        """
        if not self._rules.enabled:
            return False
        this = self._pass
        if self._evicted >= self._rules.max_per_pass:
            this.wake_at(this.now_s + POSTPONED_S)
            return False
        takeover = self._find(head, entry)
        if takeover is None:
            this.wake_at(self._searching().candidates.ripe_s)
            return False
        self._commit(takeover)
        placed = list(map(Placed, takeover.tasks, takeover.allocations))
        this.plan.evictions += takeover.evictions
        this.record(head, entry, placed, after=takeover.after, borrows=takeover.borrows)
        return True

    def _commit(self, takeover: Takeover) -> None:
        """From here on victims leave or lend, and nobody else is given the same room."""
        this = self._pass
        self._evicted += len(takeover.evictions)
        self._made += 1
        for search in (self._search, self._loans):
            if search is not None:
                search.commit(takeover)
        for allocation in takeover.allocations:
            this.space.take(allocation.node, allocation)
        for unit in takeover.units:
            if unit.job and not unit.lends:
                this.quotas.evict(Part(this.cluster.jobs[unit.job], unit.amount, unit.task < 0))

    def _find(self, head: Head, entry: Entry) -> Takeover | None:
        """A job that stands still loses nothing: such jobs come first where only CPUs lack."""
        this, full = self._pass, self._searching()
        names, barred = self._open_to(head, entry), self._claimed(entry)
        # Only an account within its own limits may reclaim what was lent to others.
        reclaims = this.quotas.lends and not this.quotas.borrowing(entry.key, head.amount)
        priority = effective_priority(entry, this.view)
        claimant = full.claimant(entry, priority, this.quotas if reclaims else None)
        asked = Miss(claimant, claimant.moves, names, barred, self._made)
        known = self._misses.get(entry.key.shape)
        if known is not None and known.covers(asked):
            return None
        takeover = None
        if self._loans is not None and not entry.shape.placement.exclusive:
            takeover = self._loans.find(entry, claimant, names, barred)
        if takeover is None:
            takeover = full.find(entry, claimant, names, barred)
        if (
            takeover is None
            or not (takeover.after or takeover.borrows)
            or this.checks.is_over_quota(entry, takeover.allocations)
        ):
            self._misses[entry.key.shape] = asked
            return None
        return takeover

    def _searching(self) -> Preemption:
        if self._search is None:
            this, rule = self._pass, self._pass.rules.victims
            cluster, rooms = this.cluster, this.space.rooms
            make = partial(
                Preemption, cluster, rooms, this.now_s, self._priority_of, rule,
                lends=this.quotas.lends,
            )  # fmt: skip
            self._search = make()
            if self._rules.mode is PreemptMode.SUSPEND or cluster.live.stoppable:
                self._loans = make(Lenders)
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
            0.0,
        )
        return effective_priority(entry, this.view)

    def _claimed(self, entry: Entry) -> frozenset[str]:
        """The nodes that others have a claim on before the job would be gone."""
        this, key = self._pass, entry.key
        until_s = this.promises.until_s(entry)
        kept = this.promises.kept.get(entry.job)
        mine = {allocation.node for allocation in kept.allocations} if kept is not None else ()
        # Promises to others do not count where it was promised room itself.
        return frozenset(
            name
            for name, claims in this.promises.timeline.claims.items()
            for claim in claims
            if claim.start_s < until_s
            and (claim.reservation is not None or name not in mine)
            and claim.binds(entry.job, key.user, key.project)
        )

    def _open_to(self, head: Head, entry: Entry) -> list[str]:
        """Where neither the kind of a node nor a neighbour is in the way."""
        this, shape = self._pass, head.shape
        names = self._names.get(entry.key.shape)
        if names is None:
            space = this.space
            self._all_names = self._all_names or sorted(space.rooms)
            classes = space.classes_for(space.wants(entry.key.shape, shape))
            names = [
                name
                for name in self._all_names
                if space.class_of[name].id in classes and not this.checks.refuses(shape, name)
            ]
            if not this.checks.hinders(shape):
                # Neighbours come with every start, and filters of others see how much is free.
                self._names[entry.key.shape] = names
        if shape.placement.exclusive:
            # Which nodes may be had alone depends on the quotas of the account that asks.
            return [name for name in names if this.checks.short_of_node(entry, name) is None]
        return names
