"""The cheapest set of victims that is enough, by branch and bound."""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.scheduling.evict.unit import Unit

    #: The amount of each kind that is needed.
    Amounts = tuple[float, ...]

INFINITE = float("inf")
#: Parts of a whole add up to a little less.
ROUNDED = 1e-9
#: The most sets that are looked at: all sets of ten units. Of more units the cheapest set that
#: was found by then is taken, and the first one takes them in order of their cost.
SETS_MAX = 1024


class CheapestSet:
    """Sets are built in the order of cost, and left when they cannot become the cheapest.

    ``fits`` says whether a set is enough, ``goes_with`` whether a unit may be added to a set (None:
    all go together). No set is enough whose ``gains`` do not make up for what is ``missing``.
    Units that cost nothing are in every set: the caller leaves out what is not needed.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        fits: Callable[[list[Unit]], bool],
        goes_with: Callable[[Unit, list[Unit]], bool] | None,
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
        self._rest: list[list[tuple[float, float]]] = []
        self._best: list[Unit] | None = None
        #: What the best set costs, and how many sets may still be looked at.
        self.below = INFINITE
        self.left = left

    def find(self, below: float = INFINITE) -> list[Unit] | None:
        """The cheapest set below this cost."""
        self.below = below
        free: list[Unit] = []
        missing, at = self._missing, 0
        while at < len(self._units) and not self._units[at].cost:
            if self._goes_with is None or self._goes_with(self._units[at], free):
                free.append(self._units[at])
                missing = tuple(map(sub, missing, self._gains[at]))
            at += 1
        self._bound(at, missing)
        self._visit(at, free, 0.0, missing)
        return self._best

    def _bound(self, first: int, missing: Amounts) -> None:
        """No unit gives more than what is missing."""
        rest = [(0.0, INFINITE)] * len(missing)
        for index in range(len(self._units) - 1, first - 1, -1):
            cost, gains = self._units[index].cost, self._gains[index]
            rest = [
                (have + gain, min(rate, cost / min(gain, lack))) if gain and lack > 0 else old
                for old, gain, lack in zip(rest, gains, missing, strict=True)
                for have, rate in (old,)
            ]
            self._rest.append(rest)
        self._rest += [[]] * first
        self._rest.reverse()

    def _visit(self, at: int, chosen: list[Unit], cost: float, missing: Amounts) -> None:
        if (not missing or max(missing) <= ROUNDED) and self._fits(chosen):
            self._best, self.below = chosen, cost
            return
        units, rests, all_gains, goes_with = self._units, self._rest, self._gains, self._goes_with
        for index in range(at, len(units)):
            unit = units[index]
            more = cost + unit.cost
            if more >= self.below or self.left <= 0:
                return
            for (have, rate), lack in zip(rests[index], missing, strict=True):
                if lack > ROUNDED and (have < lack - ROUNDED or cost + rate * lack >= self.below):
                    return
            self.left -= 1
            if goes_with is None or goes_with(unit, chosen):
                less = tuple(map(sub, missing, all_gains[index]))
                self._visit(index + 1, [*chosen, unit], more, less)
