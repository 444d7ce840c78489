"""A whole database as one SQLite file, and back: for backups, and to move to another database.

One form for both kinds: what was taken from PostgreSQL can be put into SQLite and the other way
round.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.core.facts.errors import Rejected, Unavailable
from rota.store.forget.months import opening
from rota.store.migrations import HEAD, SCRIPTS
from rota.store.open import POSTGRES, missing_postgres, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

#: Rows that are carried at a time.
ROWS = 1000


def take(url: str, target: Path) -> None:
    """Everything in a database, as of one moment, into a new file. A controller may work in it."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
        scheme, _, rest = url.partition("://")
        if scheme in POSTGRES:
            with _reading(rest) as source:
                _refuse_other_schema(source, url)
                _make_tables(copy)
                _take_rows(source, copy)
            return
        path = Path(rest.removeprefix("/") if rest else url)
        if not path.is_file():
            raise Rejected(f"there is no database {path.absolute()}", field="database")
        try:
            with contextlib.closing(sqlite3.connect(path)) as source:
                source.execute("PRAGMA query_only = ON")
                source.backup(copy)
        except sqlite3.Error as error:
            raise Unavailable(f"cannot copy {path.absolute()}: {error}") from None


@contextlib.contextmanager
def _reading(address: str) -> Iterator[Connection[Any]]:
    """A connection that sees one moment, however long it reads."""
    with missing_postgres():
        import psycopg

        from rota.store.patience import plain_connection
        from rota.store.postgres import public_name
    name = public_name(f"postgresql://{address}")
    try:
        with plain_connection(f"postgresql://{address}", connect_timeout=10) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            yield connection
    except psycopg.Error as error:
        raise Unavailable(f"cannot copy {name}: {' '.join(str(error).split())}") from None


def _refuse_other_schema(source: Connection[Any], url: str) -> None:
    ((known,),) = source.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchall()
    found = source.execute("SELECT version_num FROM alembic_version").fetchall() if known else []
    if found != [(HEAD,)]:
        raise Rejected(
            f"{url.rpartition('@')[2]} has the schema {found[0][0] if found else 'of no Rota'}, "
            f"this one knows {HEAD}: start Rota on it once",
            field="database",
        )


def _make_tables(copy: sqlite3.Connection) -> None:
    copy.executescript((SCRIPTS / "schema_sqlite.sql").read_text())


def _tables(copy: sqlite3.Connection) -> dict[str, list[str]]:
    """The tables of a file and their columns."""
    text = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%'"
    names = [name for (name,) in copy.execute(f"{text} ESCAPE '!' ORDER BY name")]
    return {
        name: [row[1] for row in copy.execute(f'PRAGMA table_info("{name}")')] for name in names
    }


def _listed(columns: list[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _take_rows(source: Connection[Any], copy: sqlite3.Connection) -> None:
    copy.execute("BEGIN")
    for table, columns in _tables(copy).items():
        marks = ", ".join("?" for _ in columns)
        with source.cursor(f"copy_{table}") as rows:
            rows.execute(f'SELECT {_listed(columns)} FROM "{table}"'.encode())
            while found := rows.fetchmany(ROWS):
                copy.executemany(f'INSERT INTO "{table}" VALUES ({marks})', found)
    copy.execute("COMMIT")


def make_current(file: Path) -> None:
    """Bring a copy to the schema that this code knows; one of a newer Rota is refused."""
    open_store(str(file)).close()


def put(file: Path, url: str) -> None:
    """Everything of such a file into an empty database of PostgreSQL, in one transaction."""
    with missing_postgres():
        import psycopg

        from rota.store.patience import plain_connection
        from rota.store.postgres import PostgresDriver
    address = url.partition("://")[2]
    # It holds the lock of the controller that leads: none can begin to work there meanwhile.
    driver = PostgresDriver(address)
    try:
        if tables := driver.tables():
            raise Rejected(
                f"{driver.name} is not empty (it has the table {min(tables)}): "
                "restore into a new database",
                field="database",
            )
        with (
            contextlib.closing(sqlite3.connect(file)) as copy,
            plain_connection(f"postgresql://{address}") as target,
        ):
            target.execute((SCRIPTS / "schema_postgresql.sql").read_bytes())
            _put_months(copy, target)
            for table, columns in _tables(copy).items():
                _put_rows(copy, target, table, columns)
            last = "SELECT setval(pg_get_serial_sequence('audit', 'seq'), max(seq)) FROM audit"
            target.execute(last)
    except psycopg.Error as error:
        raise Unavailable(f"cannot write {driver.name}: {' '.join(str(error).split())}") from None
    finally:
        driver.close()


def _put_months(copy: sqlite3.Connection, target: Connection[Any]) -> None:
    """A first partition for all of the log: it goes once the newest of it is old."""
    ((newest_s,),) = copy.execute("SELECT max(at_s) FROM events").fetchall()
    for text, _ in opening([newest_s]) if newest_s is not None else ():
        target.execute(text.encode())


def _put_rows(
    copy: sqlite3.Connection, target: Connection[Any], table: str, columns: list[str]
) -> None:
    listed = _listed(columns)
    into = f'COPY "{table}" ({listed}) FROM STDIN'.encode()
    with target.cursor() as cursor, cursor.copy(into) as stream:
        for row in copy.execute(f'SELECT {listed} FROM "{table}"'):
            stream.write_row(row)
