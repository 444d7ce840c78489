"""Lanes that a pass found blocked, and what each one waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.outcomes import Barred, is_for_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.derived.lanes import Lane, LaneKey
    from rota.scheduling.outcomes import Wait
    from rota.scheduling.waits import Waits

#: How often an account that had too much of its share is looked at, at full steps of the clock:
#: the moment must not depend on when a pass happened to look.
SHARES_AGAIN_S = 60.0


class Blocked:
    """By the number of the lane, in the order in which they were found."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Lane, Wait]] = {}
        self._passed_over: set[int] = set()  # Of these the ones that did not take their turn.

    def __contains__(self, number: int) -> bool:
        return number in self._found

    def add(self, lane: Lane, wait: Wait) -> bool:
        """The first answer of a pass stays; whether this is one."""
        return self._found.setdefault(lane.number, found := (lane, wait)) is found

    def pass_over(self, lane: Lane, wait: Wait) -> bool:
        """The same for a lane whose answer is known without its turn."""
        if self.add(lane, wait):
            self._passed_over.add(lane.number)
            return True
        return False

    def call_back(self, number: int) -> None:
        """A lane that was passed over takes its turn after all."""
        if number in self._passed_over:
            self._passed_over.remove(number)
            del self._found[number]

    def unbar(self, kept_back_by: Callable[[LaneKey], Lane | None]) -> list[Lane]:
        """A start may be the last that accounts beyond their hard limit had to wait for."""
        barred = [lane for lane, wait in self._found.values() if isinstance(wait, Barred)]
        if not barred or kept_back_by(barred[0].key) is not None:
            return []
        for lane in barred:
            del self._found[lane.number]
        return barred

    def for_room(self) -> list[Lane]:
        return [lane for lane, wait in self._found.values() if is_for_room(wait)]

    def file(self, waits: Waits, now_s: float) -> tuple[list[Lane], list[Lane]]:
        """File each lane under what it waits for: those that wait for room, and the others."""
        for_room: list[Lane] = []
        others: list[Lane] = []
        for lane, wait in self._found.values():
            waits.file(lane, wait)
            (for_room if is_for_room(wait) else others).append(lane)
            if isinstance(wait, Barred):
                waits.open_at((now_s // SHARES_AGAIN_S + 1) * SHARES_AGAIN_S, lane.number)
        return for_room, others
