"""A store from a URL or a path."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected, Unavailable
from rota.store.sql import SqlStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.store.driver import DatabaseDriver
    from rota.store.heads import Lookout

POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
_ALLOWED = "a path, sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME"


def open_store(url: str, *, wait_s: float | None = None) -> SqlStore:
    """Open (and make or upgrade, where needed) the database; a path means SQLite.

    ``wait_s``: how long to wait for another controller to stop leading; None: as usual.
    """
    driver = _driver(url, wait_s)
    try:
        return SqlStore(driver)
    except BaseException:
        driver.close()
        raise


def is_postgres(url: str) -> bool:
    """Whether several controllers can share it."""
    scheme, colon, _ = url.partition("://")
    return bool(colon) and scheme in POSTGRES


def open_frozen(url: str) -> SqlStore:
    """A PostgreSQL as of one moment, however long it is read: for one thread."""
    with missing_postgres():
        from rota.store.frozen import FrozenDriver
    return SqlStore(FrozenDriver(url.partition("://")[2]), upgrade=False)


def open_lookout(url: str) -> Lookout:
    """What a controller sees of the others that share a PostgreSQL."""
    with missing_postgres():
        from rota.store.heads import Lookout
    return Lookout(url.partition("://")[2])


def _driver(url: str, wait_s: float | None) -> DatabaseDriver:
    scheme, colon, rest = url.partition("://")
    if not url or (colon and not rest):
        raise Rejected.bad("database", url, _ALLOWED)
    if colon and scheme in POSTGRES:
        return _postgres(rest, wait_s)
    if colon and scheme not in ("sqlite", "sqlite+pysqlite"):
        raise Rejected.bad("database", url, _ALLOWED)
    from rota.store.sqlite import SqliteDriver

    # As SQLAlchemy reads it: three slashes and a path, so four for an absolute one.
    path = rest.removeprefix("/") if colon else url
    if not path or path == ":memory:":
        raise Rejected.bad("database", url, _ALLOWED)
    return SqliteDriver(path)


def _postgres(rest: str, wait_s: float | None) -> DatabaseDriver:
    with missing_postgres():
        from rota.store.postgres import LOCK_WAIT_S, PostgresDriver
    return PostgresDriver(rest, LOCK_WAIT_S if wait_s is None else wait_s)


@contextmanager
def missing_postgres() -> Iterator[None]:
    """Around the import of what needs a package that may not be there: says how to get it."""
    try:
        yield
    except ImportError as error:
        if error.name is None or not error.name.startswith("psycopg"):
            raise
        raise Unavailable("PostgreSQL needs psycopg: pip install 'rota[postgres]'") from error
