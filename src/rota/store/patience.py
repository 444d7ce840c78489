"""A connection to PostgreSQL that does not wait for ever for a server that stands still.

Timeouts of the server do not help where the server itself is stopped, nor do those of TCP: its
machine goes on answering. So the wait itself has a bound. It counts silence, not work: an answer
of ten million rows may take as long as it comes in.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")

#: How often a wait looks at the clock.
LOOK_S = 0.1


#: What a site may have set for its other users, and would end work of ours in the middle. A lock is
#: waited for without end where nothing else is said. Only names that the server knows are set.
_OURS = (
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("transaction_timeout", "0"),
    ("default_transaction_isolation", "read committed"),
)
#: Names and values as we write them here, and words of nobody else.
_SETTLE = (
    "SELECT set_config(name, ours.setting, false) FROM (VALUES {}) AS ours (name, setting)"
    " JOIN pg_settings USING (name)"
)
ENCODING = "UTF8"


def settle(connection: psycopg.Connection[Any], statement_s: float = 0) -> None:
    """Our settings for a new connection that commits by itself. Not as options at its start: those
    may be in the URL already, and poolers refuse them. ``statement_s``: 0 is without end.
    """
    settings = (("statement_timeout", f"{statement_s:g}s"), *_OURS)
    wanted = ", ".join(f"('{name}', '{setting}')" for name, setting in settings)
    connection.execute(_SETTLE.format(wanted).encode())


def plain_connection(conninfo: str, **options: Any) -> psycopg.Connection[Any]:
    """For long work in one transaction: as others know a connection, with our settings."""
    connection = psycopg.connect(conninfo, autocommit=True, client_encoding=ENCODING, **options)
    settle(connection)
    connection.autocommit = False
    return connection


def refuse_encoding(connection: psycopg.Connection[Any], name: str) -> None:
    """Names of jobs and people may be in any language."""
    found = connection.info.parameter_status("server_encoding")
    if found not in (None, ENCODING):
        raise Rejected(
            f"{name} has the encoding {found}: make it with ENCODING '{ENCODING}'",
            field="database",
        )


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
