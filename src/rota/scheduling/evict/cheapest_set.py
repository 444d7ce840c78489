"""The cheapest set of victims that is enough, by branch and bound."""

from __future__ import annotations

from operator import add, sub
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.scheduling.evict.unit import Unit

    #: So much of each kind that is needed.
    Amounts = tuple[int, ...]

INFINITE = float("inf")
#: So many sets are looked at: all that there are of ten units. Of more units the cheapest set that
#: was found by then is taken, and the first one takes them in order of their cost.
SETS_MAX = 1024


class CheapestSet:
    """Sets are built in the order of cost, and left when they cannot become the cheapest.

    ``fits`` says whether a set is enough, ``goes_with`` whether a unit may be added to a set. No
    set is enough whose ``gains`` do not make up for what is ``missing``.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        fits: Callable[[list[Unit]], bool],
        goes_with: Callable[[Unit, list[Unit]], bool],
        gains: Sequence[Amounts] = (),
        missing: Amounts = (),
        left: int = SETS_MAX,
    ) -> None:
        self._units = units
        self._fits = fits
        self._goes_with = goes_with
        self._gains = gains or [()] * len(units)
        self._missing = missing
        #: What all units from here on give together, and the least that one of a kind costs.
        self._rest = [(tuple([0] * len(missing)), tuple([INFINITE] * len(missing)))]
        for unit, gain in zip(reversed(units), reversed(self._gains), strict=True):
            sums, rates = self._rest[-1]
            self._rest.append((
                tuple(map(add, sums, gain)),
                tuple([min(rate, unit.cost / one) if one else rate
                       for rate, one in zip(rates, gain, strict=True)]),
            ))  # fmt: skip
        self._rest.reverse()
        self._best: list[Unit] | None = None
        #: What the best set costs, and how many sets may still be looked at.
        self.below = INFINITE
        self.left = left

    def find(self, below: float = INFINITE) -> list[Unit] | None:
        """The cheapest set below this cost."""
        self.below = below
        self._visit(0, [], 0.0, self._missing)
        return self._best

    def _visit(self, at: int, chosen: list[Unit], cost: float, missing: Amounts) -> None:
        if (not missing or max(missing) <= 0) and self._fits(chosen):
            self._best, self.below = chosen, cost
            return
        for index in range(at, len(self._units)):
            unit = self._units[index]
            if cost + unit.cost >= self.below or self.left <= 0:
                return
            for have, rate, lack in zip(*self._rest[index], missing, strict=True):
                if lack > 0 and (have < lack or cost + rate * lack >= self.below):
                    return
            self.left -= 1
            if self._goes_with(unit, chosen):
                less = tuple(map(sub, missing, self._gains[index]))
                self._visit(index + 1, [*chosen, unit], cost + unit.cost, less)
