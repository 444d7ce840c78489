"""A connection to PostgreSQL that does not wait for ever for a server that stands still.

Timeouts of the server do not help where the server itself is stopped, nor do those of TCP: its
machine goes on answering. So the wait itself has a bound. It counts silence, not work: an answer
of ten million rows may take as long as it comes in.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")

#: How often a wait looks at the clock.
LOOK_S = 0.1


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """Closes itself, with an ``OperationalError``, after ``silent_s`` without a word."""

    silent_s = 5.0
    #: Asked after so long a silence: raises unless the server still answers others. Without it
    #: nobody is asked, and the wait ends.
    ask: Callable[[], None] | None = None

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = LOOK_S, timeout: float | None = None
    ) -> T:
        return super().wait(self._patient(gen), interval=interval, timeout=timeout)

    def _patient(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        since_s = monotonic()
        try:
            wish = next(gen)
            while True:
                ready = yield wish
                if ready:
                    since_s = monotonic()
                elif monotonic() - since_s > self.silent_s:
                    self._give_up()
                    since_s = monotonic()
                wish = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _give_up(self) -> None:
        """Unless the server is only busy with what was asked."""
        try:
            if self.ask is None:
                raise psycopg.OperationalError(f"no answer for {self.silent_s:g} s")
            self.ask()
        except psycopg.Error:
            self.pgconn.finish()
            raise
