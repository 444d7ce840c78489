"""One store of each kind, which a test may close and open again."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from rota.store.api import Store
from rota.store.memory import MemoryDisk, MemoryStore
from rota.store.open import open_store
from rota.store.sql import SqlStore
from tests.support.machine import REPOSITORY


class Place:
    """Where a store keeps things: it stays when the store is closed."""

    def __init__(self, open_here: Callable[[], Store]) -> None:
        self._open_here = open_here
        self._opened: list[Store] = []

    def open(self) -> Store:
        self._opened.append(self._open_here())
        return self._opened[-1]

    def reopen(self) -> Store:
        """As after a restart: the old store is gone."""
        self.close()
        return self.open()

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


@pytest.fixture(scope="session")
def postgres_home(postgres_server) -> Iterator[str]:
    """One database for many tests: a new one for each would take most of their time."""
    with postgres_server.database() as url:
        yield url


def emptied(url: str) -> str:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return url


def place_on_disk(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    if kind == "sqlite":
        return Place(lambda: open_store(str(folder / "rota.db")))
    url = emptied(request.getfixturevalue("postgres_home"))
    return Place(lambda: open_store(url))


POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Any kind of store."""
    if request.param == "memory":
        disk = MemoryDisk(faulty=True)
        made = Place(lambda: MemoryStore(disk))
    else:
        made = place_on_disk(request.param, request, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", POSTGRES])
def sql_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Any kind of database."""
    made = place_on_disk(request.param, request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(str(tmp_path / "rota.db"))
    yield opened
    opened.close()


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """Runs a piece of Python in a process of its own and gives what it printed."""

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
