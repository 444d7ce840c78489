"""A store that is only read, beside the controller that writes it: for replays and simulations.

Nothing is made, upgraded, locked or waited for. A reader sees what was committed when it asked.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

from rota.core.facts.errors import Rejected, Unavailable
from rota.store.migrations import HEAD
from rota.store.open import POSTGRES, missing_postgres
from rota.store.rows import FORMAT
from rota.store.sql import SqlStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from rota.store.driver import DatabaseDriver, Probe
    from rota.store.statements import Statement

#: The database of a state folder.
FILE = "rota.db"
BUSY_TIMEOUT_S = 5.0


def open_readonly(place: str) -> SqlStore:
    """A state folder, a database file, an archive, ``sqlite:///PATH`` or ``postgresql://…``, only
    to read."""
    from rota.store.archive.reading import is_archive, open_archive

    if is_archive(Path(place)):
        return open_archive(Path(place))
    scheme, colon, rest = place.partition("://")
    driver: DatabaseDriver
    if colon and scheme in POSTGRES:
        driver = _postgres(rest)
    elif colon and scheme not in ("sqlite", "sqlite+pysqlite"):
        raise Rejected.bad("history", place, "a state folder, an archive or a database")
    else:
        driver = SqliteReader(_file(rest.removeprefix("/") if colon else place))
    try:
        _refuse_strange(driver)
        return SqlStore(driver, upgrade=False)
    except BaseException:
        driver.close()
        raise


def _file(place: str) -> Path:
    path = Path(place).absolute()
    found = path / FILE if path.is_dir() else path
    if not found.is_file():
        where = f"no {FILE} in {path}" if path.is_dir() else f"no such file or folder: {path}"
        raise Rejected(
            f"history: {where}; give a state folder, an archive or the URL of a database",
            field="history",
            value=place,
        )
    return found


def _refuse_strange(driver: DatabaseDriver) -> None:
    version = ""
    if {"alembic_version", "events"} <= driver.tables():
        version = str(driver.read("SELECT version_num FROM alembic_version")[0][0])
    if not version:
        raise Rejected(f"{driver.name} is not a Rota database", field="history")
    if version != HEAD:
        raise Rejected(
            f"{driver.name} has the schema {version} of another Rota, this one reads {HEAD}:"
            " use the version that it was written with",
            field="history",
        )
    found = driver.read("SELECT value FROM meta WHERE key = 'format'")
    if found and int(found[0][0]) > FORMAT:
        raise Rejected(
            f"{driver.name} was written by a newer Rota (rows {found[0][0]}, this one reads"
            f" {FORMAT}): use that version",
            field="history",
        )


class SqliteReader:
    """A database file that another program may be writing. See ``driver.Driver``."""

    dialect = "sqlite"
    local = True
    backlog = 0

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        address = f"file:///{quote(self.name.lstrip('/'))}?mode=ro"
        # What nobody writes can also be read from a folder that we must not write to.
        still = not Path(f"{path}-wal").exists()
        try:
            try:
                self._connection = self._open(address)
            except sqlite3.OperationalError:
                if not still:
                    raise
                self._connection = self._open(f"{address}&immutable=1")
        except sqlite3.OperationalError as error:
            raise Unavailable(f"cannot read {self.name}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise Rejected(f"{self.name} is not a Rota database", field="history") from error

    def _open(self, address: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection

    def read(self, text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(text, values).fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"cannot read {self.name}: {error}") from error

    def tables(self) -> frozenset[str]:
        text = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%'"
        return frozenset(name for (name,) in self.read(f"{text} ESCAPE '!'"))

    def lead(self) -> None:
        _refuse_writing(self.name)

    def prove(self) -> None:
        _refuse_writing(self.name)

    def write(self, statements: Sequence[Statement], probe: Probe | None = None) -> None:
        _refuse_writing(self.name)

    def engine(self, *, reigns: bool = False) -> sa.Engine:
        _refuse_writing(self.name)

    def tidy(self) -> None:
        """Nothing: the writer tidies."""

    def close(self) -> None:
        self._connection.close()


def _refuse_writing(name: str) -> NoReturn:
    raise AssertionError(f"{name} was opened only to read")


def _postgres(rest: str) -> DatabaseDriver:
    with missing_postgres():
        from rota.store.postgres import PostgresDriver, public_name

    class PostgresReader(PostgresDriver):
        """Without the lock of the controller that leads."""

        def __init__(self, address: str) -> None:
            self._conninfo = f"postgresql://{address}"
            self.name = public_name(self._conninfo)
            self._readers = deque()
            self._closed = False
            self._native = {}

        def lead(self) -> None:
            _refuse_writing(self.name)

        def prove(self) -> None:
            _refuse_writing(self.name)

        def write(self, statements: Sequence[Statement], probe: Probe | None = None) -> None:
            _refuse_writing(self.name)

        def close(self) -> None:
            self._closed = True
            while self._readers:
                self._readers.pop().close()

    return PostgresReader(rest)
