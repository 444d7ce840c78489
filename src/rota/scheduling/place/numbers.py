"""Numbers that stand for values inside an integer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

#: Values that nothing uses are dropped once there are this many more of them than used ones.
SPARE = 256

T = TypeVar("T")


class Numbers(Generic[T]):
    """A number for each value, from 0 on. No number is given out twice.

    So a number that is remembered elsewhere never means another value, and values that nothing
    uses any more can be dropped at any time.
    """

    __slots__ = ("_ids", "_limit", "_most", "_next", "_used", "of")

    def __init__(self, bits: int, used: Callable[[], set[int]]) -> None:
        """``used`` tells which numbers are in use, for when the others are dropped."""
        self.of: dict[int, T] = {}
        self._ids: dict[T, int] = {}
        self._used = used
        self._next = 0
        self._most = 1 << bits
        self._limit = SPARE

    def number(self, value: T) -> int:
        known = self._ids.get(value)
        if known is not None:
            return known
        if len(self.of) >= self._limit:
            self._drop()
        number = self._next
        if number >= self._most:
            raise OverflowError(f"all {number} numbers have been given out")
        self._next += 1
        self._ids[value], self.of[number] = number, value
        return number

    def _drop(self) -> None:
        used = self._used()
        self.of = {number: value for number, value in self.of.items() if number in used}
        self._ids = {value: number for number, value in self.of.items()}
        self._limit = 2 * len(self.of) + SPARE
