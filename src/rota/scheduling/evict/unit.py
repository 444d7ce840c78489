"""What can be evicted only as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.resources import NOTHING, Amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.node import Allocation


#: No eviction is free, whatever a rule says: who leaves anyway is always preferred.
COST_MIN = 1e-9


class Unit(NamedTuple):
    """Something that can be evicted only as a whole: a job, a spare task of an elastic one.

    A unit without a ``job`` is an attempt that leaves anyway.
    """

    job: int
    cost: float
    priority: float
    best_effort: bool
    preemptible: bool
    #: Uid and what is held, in task order.
    held: tuple[tuple[str, Allocation], ...] = ()
    #: What its account holds by it.
    amount: Amount = NOTHING
    #: The one task of a unit that shrinks its job; -1: all of it.
    task: int = -1
    #: Its role, and how many tasks that can spare.
    role: int = 0
    spare: int = 0
    #: It stands still and lends the CPUs that it holds; all else it keeps.
    lends: bool = False

    @property
    def order(self) -> tuple[float, float, int, int]:
        """Cheap ones first; among equals the lower priority, the younger job, the last task."""
        return (self.cost, self.priority, -self.job, -self.task)


def fits_in_set(unit: Unit, chosen: Iterable[Unit]) -> bool:
    """Whether a unit goes with others: a job is evicted or shrunk, and not below its least size."""
    if not unit.job:
        return unit not in chosen
    peers = [other for other in chosen if other.job == unit.job]
    if not peers:
        return True
    if unit.task < 0 or any(other.task < 0 or other.task == unit.task for other in peers):
        return False
    return sum(other.role == unit.role for other in peers) < unit.spare
