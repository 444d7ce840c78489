"""What a pool is told and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.scheduling.api import Entry

INFINITE = float("inf")


class PoolStart(NamedTuple):
    """A decision: the job starts now. ``held`` is the set of its nodes where these have names."""

    job: int
    held: int = 0


class Decision(NamedTuple):
    """Who starts now, in order, and who must stop first to make room for them."""

    starts: list[PoolStart]
    evictions: Sequence[int] = ()
    #: Somebody is to start then even if nothing happens before.
    wake_s: float = INFINITE


class Pool(Protocol):
    """Equal processors behind one line. Jobs are told by number, once each."""

    def arrive(self, job: int, size: int, run_s: float, entry: Entry | None = None) -> None:
        """A job waits from now on. ``entry`` is what orderings but ``fifo`` look at."""

    def leave(self, job: int) -> None:
        """A running job is over."""

    def withdraw(self, job: int) -> None:
        """A waiting job waits no longer."""

    def expect(self, job: int, end_s: float) -> None:
        """A running job is now taken to end then."""

    def decide(self, now_s: float) -> Decision:
        """A pass."""
