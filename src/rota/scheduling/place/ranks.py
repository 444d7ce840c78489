"""Numbers that follow the order of names, so that of equal nodes the first by name is taken.

A name that comes later gets a number between its neighbours. Only when there is none left are
all of them given new ones.
"""

from __future__ import annotations

from bisect import bisect_left

#: Every number has this many bits at most.
RANK_BITS = 44
#: How far apart neighbours are at first, and where the first name stands: there is room for
#: millions on either side of it.
GAP = 1 << 18
MIDDLE = 1 << (RANK_BITS - 1)


class Ranks:
    """The number of each name that is known."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self._names: list[str] = []

    def add(self, name: str) -> bool:
        """Give a new name its number; whether all others got new ones as well."""
        at = bisect_left(self._names, name)
        self._names.insert(at, name)
        number = self._between(at)
        self.of[name] = number
        if number:
            return False
        first = MIDDLE - GAP * (len(self._names) // 2)
        self.of = {known: first + GAP * place for place, known in enumerate(self._names)}
        return True

    def remove(self, name: str) -> None:
        del self._names[bisect_left(self._names, name)], self.of[name]

    def _between(self, at: int) -> int:
        """A number for the name at this place; 0: its neighbours leave none."""
        names, last = self._names, len(self._names) - 1
        if not last:
            return MIDDLE
        if at == last:
            return self.of[names[at - 1]] + GAP
        above = self.of[names[at + 1]]
        if not at:
            return above - GAP
        below = self.of[names[at - 1]]
        return (below + above) // 2 if above - below > 1 else 0
