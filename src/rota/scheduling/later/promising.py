"""Which jobs are promised a start in a pass: the rules of backfill.

One mechanism serves all kinds. The first job that finds no room gets a promise with EASY, every
job with conservative, where a promise once given is only ever exchanged for an earlier one.
Aggressive lets a bounded delay pass, deadline gives one to jobs with a deadline as well.
"""

from __future__ import annotations

from math import nextafter
from typing import TYPE_CHECKING

from rota.core.facts.policy import Backfill

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from rota.core.facts.policy import Policy
    from rota.scheduling.api import Entry, Promise
    from rota.scheduling.later.promises import Promises
    from rota.scheduling.later.timeline import Claim
    from rota.scheduling.place.node_checks import NodeChecks

#: Jobs that get a promise with conservative backfill, unless the policy names a number: planning
#: a whole deep queue anew with every job that ends early would take longer than the jobs.
MANY_PROMISES = 256
#: With more lanes than this waiting for room a site counts as large.
MANY_FULL = 2000
#: Jobs with a deadline that get a promise beside the first in line.
DEADLINES_MAX = 100
#: Jobs that could never start are passed over up to this many in one pass.
VAIN_MAX = 16
INFINITE = float("inf")


class Promising:
    """The promises of one pass."""

    def __init__(self, promises: Promises, checks: NodeChecks, policy: Policy) -> None:
        rules = policy.backfill
        self._promises = promises
        self._checks = checks
        self._kind = rules.kind
        #: Only a job that has waited too long is promised anything.
        self.only_overdue = rules.kind is Backfill.NONE
        self._rebuilds = rules.rebuild
        #: How many waiting jobs get a promise.
        self.depth = rules.depth
        if self.only_overdue:
            self.depth = int(policy.order.wait_max_s > 0)
        elif not rules.depth:
            self.depth = MANY_PROMISES if rules.kind is Backfill.CONSERVATIVE else 1
        #: How many with a deadline get one as well.
        self._deadlines = DEADLINES_MAX if rules.kind is Backfill.DEADLINE else 0
        self.made = 0
        #: A job was let past that may stay beyond the start of another: promises move with it.
        self.outstayed = False
        #: Searches that may still find no start at all.
        self._vain_left = max(self.depth, VAIN_MAX)
        #: Jobs with a promise that this pass has looked at.
        self._settled: dict[int, None] = {}
        #: The pass goes by promises that were worked out a moment ago.
        self._is_reused = False
        #: Something happened that may let promised jobs start earlier.
        self._loose = True
        #: Nodes where a claim that stood in this pass was withdrawn.
        self._let_go: dict[str, None] = {}
        #: The claims of the last pass, by node.
        self._before: dict[str, tuple[Claim, ...]] = {}

    def begin(self, waiting: int) -> None:
        """Reservations have their claims; of promises only the ones from before that stand.

        On a large site promises are not worked out anew with every job that ends: an old one can
        still be kept, and the new one would at best be earlier.
        """
        promises = self._promises
        timeline = promises.timeline
        self._before = self._claims()
        promises.claim_reservations()
        before, promises.kept = promises.kept, {}
        anew = self._rebuilds and promises.may_be_earlier
        recent = 0.0 <= timeline.now_s - promises.planned_s < 1.0
        goes_on = promises.is_cut and recent and self._kind is not Backfill.CONSERVATIVE
        self._is_reused = waiting > MANY_FULL and recent
        if (self._kind is Backfill.CONSERVATIVE and not anew) or self._is_reused or goes_on:
            for promise in before.values():
                if promises.still_holds(promise):
                    promises.keep(promise)
        if goes_on:
            # The starts of the pass that was cut must not move its promises to other jobs.
            self._settled = dict.fromkeys(promises.kept)
            self.made = len(promises.kept)
        self._loose = promises.may_be_earlier or len(promises.kept) < len(before)
        promises.loosened = timeline.loosened
        promises.forget_gone()

    def _claims(self) -> dict[str, tuple[Claim, ...]]:
        claims = self._promises.timeline.claims
        return {name: tuple(found) for name, found in claims.items()} if claims else {}

    def moved(self) -> list[str]:
        """Nodes with other claims than after the last pass."""
        before, now = self._before, self._claims()
        if before == now:
            return []
        return [name for name in {**before, **now} if before.get(name) != now.get(name)]

    def let_go(self) -> list[str]:
        """Nodes that were claimed in the course of this pass, and are not, or less, any more."""
        return [*self._let_go]

    @property
    def wants_more(self) -> bool:
        return (self.made < self.depth and self._vain_left > 0) or self.made < self._deadlines

    @property
    def _is_open(self) -> bool:
        return self.made < self.depth and self._vain_left > 0

    def make(self, entry: Entry, *, overdue: bool) -> bool:
        """Promise the job its earliest start, or keep what it was promised; False: no more."""
        promises = self._promises
        if not self._may_have_one(entry, overdue):
            return False
        if entry.key.reservation and promises.pledge(entry.job, entry.key.reservation):
            # Room is kept for it already.
            return False
        now_s = promises.timeline.now_s
        kept = promises.kept.get(entry.job)
        good = kept is not None and kept.start_s > now_s
        self.made += 1
        if good and self._stands:
            self._settled[entry.job] = None
            return True
        promises.planned_s = now_s
        if kept is not None:
            promises.withdraw(entry.job)
            if not good:
                self._drop_later()
        # Only an earlier start is of any use to a job that has one.
        before_s = nextafter(kept.start_s, 0.0) if kept is not None and good else INFINITE
        found = promises.earliest(entry, self._checks, before_s)
        if kept is not None and good:
            # A promise is only ever exchanged for an earlier one.
            earlier = found is not None and found.start_s < kept.start_s
            self._loose = self._loose or earlier
            found = found if earlier else kept
        if found is not None:
            promises.keep(found)
            self._settled[entry.job] = None
        if kept is not None and found is not kept:
            self._note_gone(kept, promises.timeline.claims if found is not None else ())
        if found is not None:
            return True
        # A job that can never start by what is known must not use up the promise of the next.
        self.made -= 1
        self._vain_left -= 1
        return False

    def _may_have_one(self, entry: Entry, overdue: bool) -> bool:
        if self.only_overdue:
            return self._is_open and overdue
        if self._is_open:
            return True
        return self.wants_more and bool(entry.key.deadline_s)

    @property
    def _stands(self) -> bool:
        """Whether nothing happened that could bring a promise forward."""
        return self._is_reused or (self._kind is Backfill.CONSERVATIVE and not self._loose)

    def _drop_later(self) -> None:
        """An attempt outstays its time, and the job that is due cannot start.

        Promises to jobs behind it must not stay ahead of it for that: they are made anew.
        """
        for job in [job for job in self._promises.kept if job not in self._settled]:
            self._withdraw(job)
        self._loose = True

    def _withdraw(self, job: int) -> None:
        self._note_gone(self._promises.withdraw(job), ())

    def _note_gone(self, promise: Promise, claimed: Container[str]) -> None:
        """A claim was withdrawn, and none stands in its place but on the nodes named."""
        nodes = [allocation.node for allocation in promise.allocations]
        self._let_go |= dict.fromkeys(node for node in nodes if node not in claimed)

    def take_back(self, names: Container[str], would_borrow: Callable[[int], bool]) -> None:
        """Jobs took over room on these nodes: it is not promised to jobs that would borrow it."""
        for promise in self._promises.all():
            lies_there = any(allocation.node in names for allocation in promise.allocations)
            if lies_there and would_borrow(promise.job):
                self._withdraw(promise.job)
                self._loose = True

    def started(self, entry: Entry, stay_s: float) -> None:
        """A job that may hold its room for so long needs no promise any more."""
        promises = self._promises
        self._settled[entry.job] = None
        kept = promises.fulfilled(entry.job)
        if kept is not None:
            self._loose = self._loose or kept.start_s > promises.timeline.now_s
        if stay_s > entry.run_s and promises.outlasts(entry.job, stay_s):
            self.outstayed = True

    def unsettled(self) -> list[Promise]:
        """The promises that stand, of jobs that this pass has neither started nor looked at.

        What was promised at the submit of a job stands as well once it is due.
        """
        promises = self._promises
        standing = [*promises.kept.values(), *promises.due_pledges()]
        return [promise for promise in standing if promise.job not in self._settled]

    def give_up(self, job: int) -> list[str]:
        """A promise that is due and cannot be kept is withdrawn; the nodes that it claimed."""
        return [allocation.node for allocation in self._promises.withdraw(job).allocations]
