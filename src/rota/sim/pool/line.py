"""Waiting jobs in order, so that jobs that fit are found without asking all.

The line is cut into blocks. Each knows its *front*: the fewest processors with the shortest time
that come together in one of its jobs. Where nobody on the front fits, nobody in the block does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Where a job stands (the lower, the earlier; no two are equal), its size, its time, its number.
Waiter = tuple[Any, int, float, int]

#: No job holds its room for longer than it was measured by.
NO_STAYS: Mapping[int, float] = MappingProxyType({})

#: Jobs of a block at most, before it is cut in two.
BLOCK_MAX = 64


class _Block:
    __slots__ = ("brief", "procs", "runs", "stale", "waiters")

    def __init__(self, waiters: list[Waiter], *, brief: bool = False) -> None:
        """``brief``: it is asked once or twice, so that its front is not worth the search."""
        self.waiters = waiters
        self.brief = brief
        #: The front: sizes that grow and times that shrink.
        self.procs: list[int] = []
        self.runs: list[float] = []
        self.stale = True

    def _find_front(self) -> None:
        self.stale = False
        procs: list[int] = []
        runs: list[float] = []
        for size, run_s in sorted([(waiter[1], waiter[2]) for waiter in self.waiters]):
            if not runs or run_s < runs[-1]:
                if procs and procs[-1] == size:
                    runs[-1] = run_s
                else:
                    procs.append(size)
                    runs.append(run_s)
        self.procs, self.runs = procs, runs

    def may_fit(self, free: int, now_s: float, until_s: float, spare: int) -> bool:
        """Whether anybody takes at most ``free``, and is gone in time or takes only spare ones."""
        if self.brief:
            return True
        if self.stale:
            self._find_front()
        procs = self.procs
        if procs[0] > free:
            return False
        return procs[0] <= spare or now_s + self.runs[bisect_right(procs, free) - 1] <= until_s


class PoolLine:
    """All who wait, first things first."""

    __slots__ = ("_blocks", "_count")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._count = 0

    @classmethod
    def of(cls, waiters: list[Waiter]) -> PoolLine:
        """A line that is made anew for each pass, of waiters in order. Nobody is added to it."""
        line = cls()
        line._blocks = [_Block(waiters, brief=True)] if waiters else []
        line._count = len(waiters)
        return line

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Waiter]:
        for block in self._blocks:
            yield from block.waiters

    @property
    def first(self) -> Waiter:
        return self._blocks[0].waiters[0]

    def add(self, waiter: Waiter) -> None:
        self._count += 1
        blocks = self._blocks
        if not blocks:
            blocks.append(_Block([waiter]))
            return
        block = blocks[-1]
        if waiter < block.waiters[0]:
            block = blocks[self._at(waiter)]
        waiters = block.waiters
        if waiters[-1] < waiter:
            if len(waiters) >= BLOCK_MAX and block is blocks[-1]:
                blocks.append(_Block([waiter]))
                return
            waiters.append(waiter)
        else:
            insort(waiters, waiter)
        block.stale = True
        if len(waiters) > BLOCK_MAX:
            self._split(block)

    def _at(self, waiter: Waiter) -> int:
        """The block that a waiter belongs to."""
        at = bisect_right(self._blocks, waiter[0], key=lambda block: block.waiters[0][0]) - 1
        return max(at, 0)

    def _split(self, block: _Block) -> None:
        at = self._blocks.index(block)
        half = len(block.waiters) // 2
        self._blocks.insert(at + 1, _Block(block.waiters[half:]))
        del block.waiters[half:]

    def remove(self, waiter: Waiter) -> None:
        at = self._at(waiter)
        block = self._blocks[at]
        waiters = block.waiters
        del waiters[0 if waiters[0] is waiter else bisect_left(waiters, waiter)]
        self._count -= 1
        if not waiters:
            del self._blocks[at]
        else:
            block.stale = True

    def choose(
        self,
        free: int,
        now_s: float,
        until_s: float,
        spare: int,
        but: int = -1,
        stays: Mapping[int, float] = NO_STAYS,
    ) -> list[Waiter]:
        """Who may start now, one after the other, in order; job ``but`` is not asked.

        ``stays``: how long some of them hold their room once they run, where that is longer.

        A job fits when as many processors are free, and it is either gone by ``until_s`` or
        takes only spare ones: those that nobody was promised. Its end is worked out as it will
        be when it runs: with fractions, a difference would be rounded in another way.
        """
        chosen: list[Waiter] = []
        for block in self._blocks:
            if not block.may_fit(free, now_s, until_s, spare):
                continue
            for waiter in block.waiters:
                size = waiter[1]
                if size > free or waiter[3] == but:
                    continue
                if now_s + waiter[2] > until_s:
                    if size > spare:
                        continue
                    spare -= size
                elif stays and now_s + stays.get(waiter[3], 0.0) > until_s:
                    spare -= size
                free -= size
                chosen.append(waiter)
            if not free:
                break
        return chosen
