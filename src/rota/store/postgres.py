"""PostgreSQL: one writing connection, which also holds the lock of the controller that leads."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from rota.core.facts.errors import Rejected, Unavailable
from rota.store.errors import Contradiction, Forgotten, NotLeading, OutcomeUnknown
from rota.store.patience import (
    ENCODING,
    PatientConnection,
    plain_connection,
    refuse_encoding,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from rota.store.driver import Probe
    from rota.store.statements import Statement

log = logging.getLogger(__name__)

#: "rota" in ASCII. The holder of this lock is the one controller that writes.
LEADER_LOCK = 0x726F7461
#: How long a controller that starts waits for the lock, and one that has lost its connection.
LOCK_WAIT_S, LOCK_AGAIN_S = 5, 2
CONNECT_TIMEOUT_S = 3
#: A write may wait so long for a word of the server; a read then asks whether it is still there.
SILENT_S = 4.0
#: What the server itself ends: a statement of a write, and one of a read.
WRITE_S, READ_S = 8, 300
#: How long a commit waits for a server that went away before it gives up.
RECONNECT_S = 7.0
RETRY_S = 0.2
#: A machine that is gone is noticed, and a connection that nobody uses is not forgotten.
TCP_TIMEOUT_MS, KEEPALIVE_IDLE_S, KEEPALIVE_S = 8000, 10, 3
#: Fails unless no other controller has led since this one took over; holds the next one off until
#: the commit is done.
FENCE = (
    b"SELECT 1 / count(*) FROM"
    b" (SELECT 1 FROM meta WHERE key = 'epoch' AND value = $1 FOR SHARE) AS mine"
)
LOCK = b"SELECT pg_backend_pid() FROM (SELECT pg_advisory_lock($1)) AS taken"
HOLD = FENCE.decode().replace("$1", "%s")
TAKE_OVER = (
    b"INSERT INTO meta (key, value) VALUES ('epoch', '1') ON CONFLICT (key)"
    b" DO UPDATE SET value = (meta.value::bigint + 1)::text RETURNING value"
)
#: No reign: nothing can be written before the next one.
OVER = "over"
STATEMENTS_PREPARED = 200


class PostgresDriver:
    """A database on a server. See ``driver.Driver``."""

    dialect = "postgresql"
    local = False
    backlog = 0

    def __init__(self, address: str, wait_s: float = LOCK_WAIT_S) -> None:
        """``address`` is what follows ``postgresql://`` in the URL.

        ``wait_s``: how long to wait for another controller to stop leading.
        """
        self._conninfo = f"postgresql://{address}"
        self.name = public_name(self._conninfo)
        self._readers: deque[PatientConnection] = deque()
        self._closed = False
        #: Our statements in PostgreSQL's own notation: psycopg's takes it 5 us per value to read.
        self._native: dict[str, bytes] = {}
        #: The number of this reign; empty until the tables are there.
        self._epoch = ""
        #: The last batch of this reign that is certainly on record.
        self._last: Probe | None = None
        try:
            self._writer = self._lead(wait_s)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def lead(self) -> None:
        self._last = None
        for again in (True, False):
            connection = self._connected()
            try:
                ((self._epoch,),) = connection.execute(TAKE_OVER).fetchall()
            except psycopg.Error as error:
                if not (connection.closed and again):
                    raise self._refused(error) from error
            else:
                return

    def prove(self) -> None:
        """Asked over the very connection that holds the lock, or over one that got it again."""
        for again in (True, False):
            connection = self._connected()
            try:
                connection.execute(FENCE, (self._epoch,))
            except psycopg.Error as error:
                if not (connection.closed and again):
                    raise self._refused(error) from error
            else:
                return

    def write(self, statements: Sequence[Statement], probe: Probe | None = None) -> None:
        deadline_s = time.monotonic() + RECONNECT_S
        for again in (True, False):
            connection = self._connected()
            try:
                self._transact(connection, statements)
            except psycopg.OperationalError as error:
                if not connection.closed or probe is None:
                    raise self._translated(error) from error
                if self._happened(probe, error, deadline_s):
                    self._last = probe
                    return
                # It is not there: the server was gone before it heard of it.
                if not again:
                    raise self._translated(error) from error
            except psycopg.Error as error:
                raise self._refused(error) from error
            else:
                self._last = probe or self._last
                return

    def _transact(self, connection: PatientConnection, statements: Sequence[Statement]) -> None:
        try:
            # One round trip for everything; the COMMIT is skipped when anything fails.
            with connection.pipeline():
                cursor = connection.cursor()
                cursor.execute(b"BEGIN")
                if self._epoch:
                    cursor.execute(FENCE, (self._epoch,))
                for text, values in statements:
                    cursor.execute(self._translate(text), values)
                cursor.execute(b"COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise

    def read(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        native = self._translate(text)
        try:
            try:
                return self._read_once(self._readers.pop(), native, values)
            except (IndexError, psycopg.OperationalError):
                # None to spare, or the server was restarted since this connection was made.
                return self._read_once(self._connect(), native, values)
        except psycopg.Error as error:
            raise self._translated(error) from error

    def _read_once(
        self, connection: PatientConnection, native: bytes, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        try:
            return connection.cursor(binary=True).execute(native, values).fetchall()
        finally:
            if self._closed or connection.closed:
                connection.close()
            else:
                self._readers.append(connection)

    def tables(self) -> frozenset[str]:
        text = "SELECT tablename FROM pg_tables WHERE schemaname = ANY (current_schemas(false))"
        return frozenset(name for (name,) in self.read(text))

    def engine(self, *, reigns: bool = False) -> sa.Engine:
        import sqlalchemy as sa

        engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=lambda: plain_connection(self._conninfo),
            poolclass=sa.NullPool,
        )
        sa.event.listen(engine, "handle_error", self._raise_translated)
        if reigns:
            sa.event.listen(
                engine, "begin", lambda connection: connection.exec_driver_sql(HOLD, (self._epoch,))
            )
        return engine

    def _raise_translated(self, context: sa.ExceptionContext) -> None:
        error = context.original_exception
        if isinstance(error, psycopg.Error) and (found := self._translated(error)) is not error:
            raise found from error

    def tidy(self) -> None:
        """Nothing: the server tidies by itself."""

    def close(self) -> None:
        self._closed = True
        while self._readers:
            self._readers.pop().close()
        self._writer.close()

    def _connect(self, statement_s: int = READ_S) -> PatientConnection:
        connection = PatientConnection.connect(
            self._conninfo,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="rota",
            client_encoding=ENCODING,
            cursor_factory=psycopg.RawCursor,
            tcp_user_timeout=TCP_TIMEOUT_MS,
            keepalives_idle=KEEPALIVE_IDLE_S,
            keepalives_interval=KEEPALIVE_S,
            keepalives_count=KEEPALIVE_S,
        )
        connection.silent_s = SILENT_S
        connection.ask = self._ask
        connection.prepared_max = STATEMENTS_PREPARED
        # Left alone, psycopg sends the smallest type that holds a number, and a statement would
        # be prepared again for each mix of sizes.
        connection.adapters.register_dumper(int, Int8Dumper)
        try:
            refuse_encoding(connection, self.name)
            settle(connection, statement_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self) -> None:
        """Whether the server takes in anybody at all."""
        psycopg.connect(self._conninfo, connect_timeout=CONNECT_TIMEOUT_S).close()

    def _connected(self) -> PatientConnection:
        if self._writer.closed:
            try:
                self._writer = self._lead(LOCK_AGAIN_S)
                self._refuse_loss()
            except psycopg.Error as error:
                raise self._translated(error) from error
        return self._writer

    def _refuse_loss(self) -> None:
        """After a new connection: a server that took the place of another one may know less. Its
        log has no gap, so the last batch stands for all."""
        if self._last is None:
            return
        text, values = self._last.kept()
        if not self._writer.execute(self._translate(text), values).fetchall():
            self._epoch = OVER
            raise Forgotten(f"{self.name} has lost what it had confirmed: the state is read anew")

    def _lead(self, wait_s: float) -> PatientConnection:
        """A connection that holds the lock. What an earlier one was doing has ended by then."""
        connection = self._connect(WRITE_S)
        try:
            connection.execute("SET synchronous_commit = on")
            connection.execute(f"SET lock_timeout = {round(wait_s * 1000)}".encode())
            (found,) = connection.execute(LOCK, (LEADER_LOCK,)).fetchall()
            if found[0] != connection.info.backend_pid:
                self._refuse_shared(found[0])
        except BaseException:
            connection.close()
            raise
        connection.ask = None
        return connection

    def _refuse_shared(self, pid: int) -> None:
        """Behind a pooler: where the server's connections go from client to client between two
        transactions, a lock that one of them holds keeps nobody out.
        """
        with contextlib.closing(self._connect(WRITE_S)) as other:
            other.execute("BEGIN")
            found = other.execute("SELECT pg_backend_pid()").fetchall()
            other.execute("ROLLBACK")
        if found == [(pid,)]:
            raise Rejected(
                f"{self.name} is behind a pooler that lends each connection for one transaction:"
                " name the server itself, or a pooler in session mode",
                field="database",
            )

    def _happened(self, probe: Probe, error: psycopg.Error, deadline_s: float) -> bool:
        """Whether a commit took place whose answer was lost."""
        (text, values), expected = probe.committed()
        while True:
            try:
                self._writer = self._lead(LOCK_AGAIN_S)
                found = self._writer.execute(self._translate(text), values).fetchall()
                if found != [expected]:
                    self._refuse_loss()
                return found == [expected]
            except psycopg.OperationalError as again:
                if time.monotonic() > deadline_s:
                    raise OutcomeUnknown(
                        f"{self.name} went away during a commit: {_line(error)}"
                    ) from again
                time.sleep(RETRY_S)

    def _roll_back(self, connection: PatientConnection) -> None:
        try:
            if not connection.closed:
                connection.execute("ROLLBACK")
        except psycopg.Error as error:
            log.warning("rollback of %s: %s", self.name, error)

    def _translate(self, text: str) -> bytes:
        native = self._native.get(text)
        if native is None:
            marks = count(1)
            native = re.sub(r"\?", lambda _: f"${next(marks)}", text).encode()
            if len(self._native) < STATEMENTS_PREPARED:
                self._native[text] = native
        return native

    def _refused(self, error: psycopg.Error) -> Exception:
        """Why nothing was written. After a failover the next try may find the new server."""
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self._writer.close()
        return self._translated(error)

    def _translated(self, error: psycopg.Error) -> Exception:
        """The error as one line for people; our own mistakes stay what they are."""
        if isinstance(error, errors.DiskFull):
            return Unavailable(f"the disk that holds {self.name} is full: nothing was changed")
        if isinstance(error, errors.LockNotAvailable):
            return NotLeading(f"another controller leads on {self.name}")
        if isinstance(error, errors.DivisionByZero):
            return NotLeading(
                f"another controller has led on {self.name} meanwhile: nothing was changed"
            )
        if isinstance(error, (errors.InvalidCatalogName, errors.InvalidAuthorizationSpecification)):
            return Rejected(f"{self.name}: {_line(error)}", field="database")
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return Unavailable(f"{self.name} takes no changes: it is a replica, or set read-only")
        if isinstance(error, errors.InsufficientPrivilege):
            return Unavailable(
                f"cannot use {self.name}: {_line(error)}; make its user the owner of the database"
            )
        if isinstance(error, psycopg.IntegrityError):
            return Contradiction(_line(error))
        # An InternalError is the server's: a page that it cannot read, say.
        if isinstance(error, (psycopg.OperationalError, psycopg.InternalError)):
            return Unavailable(f"cannot use {self.name}: {_line(error)}")
        return error


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def public_name(conninfo: str) -> str:
    """The address without its password."""
    try:
        parts = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise Rejected(f"database: not a valid URL: {_line(error)}", field="database") from error
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}"
