"""What comes of a look at the first job of a lane: it starts, or the lane waits for one thing.

The thing that a lane waits for is a value. Passes file lanes by it and open them by it, and
``rota why`` prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter


class Started(NamedTuple):
    """The job starts; the lane goes on with its next one."""

    job: int


class Capped(NamedTuple):
    """A cap or a quota: for a place under one of these counters, or for a moment.

    Without either the lane waits for other rules: its queue starts no jobs.
    """

    counters: tuple[Counter, ...] = ()
    again_s: float = 0.0


class Barred(NamedTuple):
    """The hard limit on shares: the account has had too much of its own."""


class NoRoom(NamedTuple):
    """Room on a node that takes the shape."""


NO_ROOM = NoRoom()


class ClaimedRoom(NamedTuple):
    """Room that a promise to another job, or a reservation, has a claim on."""


class Vetoed(NamedTuple):
    """A neighbour, or the word of a plugged-in filter."""


class Behind(NamedTuple):
    """Its turn: the policy lets nothing pass the jobs in front of it."""


Wait = Capped | Barred | NoRoom | ClaimedRoom | Vetoed | Behind
#: Lanes that wait for one of these may be promised a start.
RoomWait = NoRoom | ClaimedRoom | Vetoed | Behind
Outcome = Started | Wait


_FOR_ROOM = (NoRoom, ClaimedRoom, Vetoed, Behind)


def is_for_room(outcome: Outcome) -> bool:
    """Whether a lane waits for room, now or in its turn; a promise may help it."""
    return isinstance(outcome, _FOR_ROOM)
