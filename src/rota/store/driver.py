"""What a store needs of a database: one writing connection, and reads from any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from rota.store.statements import Statement


class Probe(Protocol):
    """How to find out what became of a batch."""

    def committed(self) -> tuple[Statement, tuple[Any, ...]]:
        """A query, and the one row that it finds if and only if the batch was committed."""

    def kept(self) -> Statement:
        """A query that finds a row for ever after, unless the database has lost the batch."""


class DatabaseDriver(Protocol):
    """A database that is open. Statements have ``?`` for each value."""

    #: ``sqlite`` or ``postgresql``: which file of the schema is ours.
    dialect: str
    #: How messages name the database: never with a password.
    name: str
    #: Whether writing waits for a disk of this machine only, never for a network.
    local: bool
    #: Rows written since ``tidy`` last had nothing left to do; 0 where it has no work at all.
    backlog: int

    def lead(self) -> None:
        """From now on the writes are those of a new reign; no earlier one can write any more.

        Called once the tables are there. Raises ``errors.NotLeading`` where another one leads.
        """

    def prove(self) -> None:
        """Raises unless no other controller has led since ``lead``. In the thread that writes."""

    def write(self, statements: Sequence[Statement], probe: Probe | None = None) -> None:
        """One transaction, on disk when this returns.

        Whatever it raises, nothing was changed; only ``errors.OutcomeUnknown`` cannot say.
        ``probe`` lets a driver find out what became of a commit whose answer was lost.
        """

    def read(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows, as of the last commit. From any thread."""

    def tables(self) -> frozenset[str]:
        """The names of all tables, also of other programs."""

    def engine(self, *, reigns: bool = False) -> sa.Engine:
        """For migrations. ``reigns``: until the end of its transaction nobody else can ``lead``, so
        that nobody begins the same upgrade once more.
        """

    def tidy(self) -> None:
        """Work that can wait for an idle moment. In the thread that writes."""

    def close(self) -> None: ...
