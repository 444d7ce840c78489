"""The key of a waiting job: what a pass sorts by, and up to when it is right.

A key has two parts. The *own* part follows from the job, its queue and the time; it changes when
the job grows one step older or has waited too long, and the moment of the next step is known. The
other part follows from its account: what the account has had of its share, and whether it
borrows. That part is the same for all jobs of a *line* (``line_of``), and only grows while the
jobs of a pass start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rota.core.facts.policy import PreemptBy
from rota.scheduling.api import View
from rota.scheduling.order.orderings import (
    ALIKE,
    DUE,
    MULTIFACTOR,
    ORDERINGS,
    UNSHARED,
    order_key,
    passing_s,
)
from rota.scheduling.rules import Traits

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, LaneKey
    from rota.core.facts.policy import Policy
    from rota.core.facts.resources import Amount
    from rota.scheduling.api import Entry, Ordering
    from rota.scheduling.rules import Rules

Key = tuple[float, ...]
#: User and project; where keys depend on what is held, also the shape.
LineKey = tuple[str, str, int]

INFINITE = float("inf")
#: A key is worked out again a little before its step, so that rounding cannot hide it.
MARGIN_S = 0.001
#: More than the last digit of a moment is worth.
ROUNDING_S = 1e-6
#: The rules that look at how long a job has waited, in steps.
AGEING = frozenset({"priority", MULTIFACTOR})
#: The rules under which own keys change by steps, or not at all, as time goes by.
STEADY = frozenset(ORDERINGS[name] for name in ORDERINGS.keys() - {"wfp3", "unicef", "f1"})


class _NoShares:
    """The same for all accounts: what is left of a key is its own."""

    def ratio(self, user: str, project: str) -> float:
        return 0.0

    def version(self, user: str, project: str) -> int:
        return 0

    def worst(self, user: str, project: str) -> float:
        return 0.0


NO_SHARES = _NoShares()


def traits_of(primary: Ordering, secondary: Ordering, policy: Policy) -> Traits:
    """Whatever the order is, an older job may take room from jobs that were its equals."""
    rules = policy.order
    both = {primary, secondary}
    ages = rules.age_after_s > 0 and rules.age_factor > 1.0
    takes = policy.preempt.enabled and policy.preempt.by is PreemptBy.PRIORITY
    ages = ages and (takes or bool(AGEING & {rules.primary, rules.secondary}))
    return Traits(
        (primary in UNSHARED, secondary in UNSHARED),
        both <= STEADY,
        both <= ALIKE,
        rules.wait_max_s or INFINITE,
        rules.age_after_s if ages else INFINITE,
    )


class Borrowing(Protocol):
    """Knows which accounts hold more than their own."""

    @property
    def moves(self) -> int:
        """Grows with whatever changes how much an account borrows."""

    def borrowing(self, key: LaneKey, amount: Amount) -> bool: ...


class Keys:
    """Keys under the rules of one pass."""

    def __init__(
        self,
        cluster: Cluster,
        rules: Rules,
        view: View,
        quotas: Borrowing | None,
    ) -> None:
        """``quotas`` say whether a start would pass a soft limit; None: there is none."""
        self._queues = cluster.queues
        self.rules = rules
        self._view = view
        self.now_s = view.now_s
        #: Its version grows when a plugged-in ordering is switched off: then keys from before do
        #: not compare.
        self.watch = rules.watch
        self._own_view = View(view.now_s, view.policy, NO_SHARES, view.total)
        self._quotas = quotas
        self.traits = traits = rules.traits
        #: Own keys say it all: they stand while jobs start.
        self.is_fixed = quotas is None and all(traits.plain) and view.policy.share.soft_ratio <= 0.0
        #: Only one account has jobs that wait: what it has had decides nothing.
        self.may_be_alone = quotas is None and not self.is_fixed
        self.is_alone = False
        #: Jobs that may pass the first take turns in an order of their own.
        self.sorts_passing = view.policy.backfill.shortest
        self._same: dict[float, float] = {}
        self._lines: dict[LineKey, LineKey] = {}

    def line_of(self, lane: Lane) -> LineKey:
        """All lanes of a line differ in their own keys only."""
        if self.is_fixed:
            return ("", "", 0)
        user, project = lane.account
        line = (user, project, lane.key.shape if self._quotas is not None else 0)
        return self._lines.setdefault(line, line)

    def version(self, line: LineKey) -> int:
        """Changes whenever the part of a line's keys that is not their own may have."""
        if self.is_fixed or self.is_alone:
            return 0
        version = self._view.shares.version(line[0], line[1])
        # A start may make all jobs of a user or a project borrow, whichever account it is of.
        return version if self._quotas is None else version + self._quotas.moves

    def own(self, entry: Entry) -> Key:
        """All that does not depend on what the account has."""
        *rest, job = self._key(entry, self._own_view, borrows=False)
        # Equal parts of keys become the same object: heaps then compare them at a glance.
        return (*map(self._same.setdefault, rest, rest), job)

    def passing(self, entry: Entry) -> Key:
        """The key of a job among those that may pass the first; it stands while the job waits."""
        rules = self._view.policy.order
        if rules.primary == DUE:
            return (-float(self._rank(entry)), passing_s(entry, rules), float(entry.job))
        return (entry.run_s, float(entry.job))

    def next_own(self, key: Key, before: Entry, entry: Entry) -> Key:
        """The own key of the job behind one of the same lane."""
        behind = self._behind(entry)
        if self.traits.is_alike and not behind[0] and self._behind(before) == behind:
            return (*key[:-1], float(entry.job))
        return self.own(entry)

    def full(self, own: Key, entry: Entry, amount: Amount) -> Key:
        """All that counts now."""
        if self.is_fixed or self.is_alone:
            return own
        borrows = self._quotas is not None and self._quotas.borrowing(entry.key, amount)
        if self._view.policy.share.soft_ratio > 0.0:
            return self._key(entry, self._view, borrows=borrows)
        # Only the rules look at shares: the rest of the own key stands.
        patient, _, rank, own_primary, own_secondary, bonus, job = own
        rules, plain, view = self.rules, self.traits.plain, self._view
        primary = own_primary if plain[0] else rules.primary.key(entry, view)
        secondary = own_secondary if plain[1] else rules.secondary.key(entry, view)
        return (patient, float(borrows), rank, primary, secondary, bonus, job)

    def of(self, entry: Entry, amount: Amount) -> Key:
        """The whole key of a job, for explanations."""
        return self.full(self.own(entry), entry, amount)

    def _key(self, entry: Entry, view: View, *, borrows: bool) -> Key:
        """Jobs that waited too long first, the oldest before the others; then jobs that do not
        borrow; then queue, rules, bonus and id."""
        rules = self.rules
        return (
            entry.eligible_s if self.waited_too_long(entry) else INFINITE,
            float(borrows),
            *order_key(entry, view, rules.primary, rules.secondary, self._rank(entry)),
        )

    def _rank(self, entry: Entry) -> int:
        """The priority of its queue."""
        queue = self._queues.get(entry.key.queue)
        return queue.priority if queue is not None else 0

    def waited_too_long(self, entry: Entry) -> bool:
        """Whether a job has waited so long that it comes before all others."""
        return bool(entry.eligible_s) and self.now_s - entry.eligible_s > self.traits.too_long_s

    def _behind(self, entry: Entry) -> tuple[bool, float]:
        """Which steps of age a job has behind it."""
        waited_s = self.now_s - entry.eligible_s if entry.eligible_s else 0.0
        return waited_s > self.traits.too_long_s, waited_s // self.traits.older_s

    def next_step_s(self, eligible_s: float) -> float:
        """When a job that is ready since then grows one step older, or has waited too long.

        Up to then its own key stays as it is, but for orders that move with time itself.
        """
        steps = self.traits
        if not eligible_s:
            return INFINITE
        waited_s = max(self.now_s - eligible_s, 0.0)
        wait_s = steps.too_long_s if waited_s <= steps.too_long_s else INFINITE
        if steps.older_s < INFINITE:
            wait_s = min(wait_s, (waited_s // steps.older_s + 1) * steps.older_s)
        step_s = eligible_s + wait_s
        # Where a pass comes just before the step, the next moment to look lies just behind it.
        return step_s - MARGIN_S if step_s - MARGIN_S > self.now_s else step_s + ROUNDING_S


class ByLength(Keys):
    """Candidates for backfill by how long they are taken to run.

    Under the order ``due`` their wait, their priority and their queue count as well.
    """

    def line_of(self, lane: Lane) -> LineKey:
        return ("", "", 0)

    def version(self, line: LineKey) -> int:
        return 0

    def own(self, entry: Entry) -> Key:
        return self.passing(entry)

    def next_own(self, key: Key, before: Entry, entry: Entry) -> Key:
        return self.passing(entry)

    def full(self, own: Key, entry: Entry, amount: Amount) -> Key:
        return own
