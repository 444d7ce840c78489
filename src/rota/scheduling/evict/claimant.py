"""The job that looks for room, and what entitles it to the room of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rota.core.facts.job import ServiceClass
from rota.scheduling.limits.quota import GivenBack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rota.core.facts.job import Job
    from rota.scheduling.api import Entry
    from rota.scheduling.evict.unit import Unit


class Lent(Protocol):
    """Knows what accounts hold beyond their own, and what of it may be reclaimed."""

    @property
    def turns(self) -> int:
        """Grows whenever an account begins to borrow or no longer does."""

    @property
    def moves(self) -> int:
        """Grows with whatever changes how much an account borrows."""

    def reclaimable(self, part: GivenBack) -> bool: ...

    def all_reclaimable(self, parts: Sequence[GivenBack], gone: Sequence[GivenBack]) -> bool: ...


class Claimant(NamedTuple):
    """A waiting job and its rights."""

    #: Its id where it holds something itself, which it must not take from itself; else 0.
    job: int
    priority: float
    gap: float
    best_effort: bool
    jobs: Mapping[int, Job]
    #: What was lent to others; None: no account may borrow.
    lent: Lent | None = None
    #: Its account would hold more than its own: it may evict by priority what was lent to others,
    #: and nothing else, for that could be reclaimed from it at once. An account within its own
    #: limits reclaims what was lent whatever the priority.
    borrows: bool = False
    #: The one job that a rule of the site lets it evict; 0: any.
    only: int = 0

    @classmethod
    def of(
        cls, entry: Entry, priority: float, gap: float, jobs: Mapping[int, Job], lent: Lent | None
    ) -> Claimant:
        own = jobs.get(entry.job)
        holds = own is not None and bool(own.live_attempts)
        best_effort = entry.shape.service is ServiceClass.BEST_EFFORT
        return cls(entry.job if holds else 0, priority, gap, best_effort, jobs, lent)

    @property
    def reclaims(self) -> bool:
        """Whether it may have what was lent to others whatever their priority."""
        return self.lent is not None and not self.borrows

    @property
    def turns(self) -> int:
        return self.lent.turns if self.lent is not None else -1

    @property
    def moves(self) -> int:
        return self.lent.moves if self.lent is not None else -1

    def is_above(self, priority: float) -> bool:
        """Whether its own priority is high enough above this one to evict its job."""
        return self.priority > priority and self.priority >= priority + self.gap

    def may_have(self, unit: Unit) -> bool:
        """Whether this unit by itself may be made to give way."""
        if not unit.job:
            return True
        if unit.job == self.job or (self.only and unit.job != self.only):
            return False
        outranked, lent = self._outranks(unit), self.lent
        if lent is None or (outranked and not self.borrows):
            return outranked
        return (outranked or not self.borrows) and lent.reclaimable(self._part(unit))

    def may_have_all(self, units: Iterable[Unit]) -> bool:
        """Whether these may give way together: no more is reclaimed than was lent."""
        if self.lent is None:
            return True
        known = [unit for unit in units if unit.job]
        by_right = [not self.borrows and self._outranks(unit) for unit in known]
        reclaimed = [self._part(u) for u, right in zip(known, by_right, strict=True) if not right]
        if not reclaimed:
            return True
        gone = [self._part(u) for u, right in zip(known, by_right, strict=True) if right]
        return self.lent.all_reclaimable(reclaimed, gone)

    def _outranks(self, unit: Unit) -> bool:
        if not unit.preemptible or (self.best_effort and not unit.best_effort):
            return False
        return (unit.best_effort and not self.best_effort) or self.is_above(unit.priority)

    def _part(self, unit: Unit) -> GivenBack:
        return GivenBack(self.jobs[unit.job], unit.amount, unit.task < 0)
