"""An upgrade that is killed, before each of its statements: the next start does it as a whole."""

import contextlib
import gzip
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable

import psycopg
import pytest
import sqlalchemy as sa

from rota.store import migrations
from rota.store.migrations import HEAD
from rota.store.open import open_store
from tests.store.test_upgrade import WRITTEN, check, fill_server

#: More than an upgrade from the first of them has statements.
STATEMENTS_MAX = 200
OLDEST = WRITTEN[0]


def killed_before(statement: int, url: str) -> bool:
    """Whether a process that upgrades got so far, and was killed there; else it came to its end."""
    child = os.fork()
    if child == 0:
        left = statement

        def count(*_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

        # Of all engines: there is one, and nothing else happens in this process.
        sa.event.listen(sa.Engine, "before_cursor_execute", count)
        sa.event.listen(sa.Engine, "commit", count)
        open_store(url)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def upgrade_again(url: str, version: Callable[[], str]) -> None:
    begun = version()
    with contextlib.closing(open_store(url)) as store:
        check(store)
    # All of it, or nothing.
    assert begun in (OLDEST.name[:3], HEAD)


def test_an_upgrade_of_a_file_that_is_killed_anywhere_is_done_by_the_next_start(tmp_path):
    old, copy = tmp_path / "old.db", tmp_path / "copy.db"
    with contextlib.closing(sqlite3.connect(old)) as database:
        database.executescript(gzip.decompress(OLDEST.read_bytes()).decode())

    def version() -> str:
        with contextlib.closing(sqlite3.connect(copy)) as database:
            return str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])

    for statement in range(1, STATEMENTS_MAX):
        for file in tmp_path.glob("copy.db*"):
            file.unlink()
        shutil.copy(old, copy)
        if not killed_before(statement, str(copy)):
            break
        upgrade_again(str(copy), version)

    assert 10 < statement < STATEMENTS_MAX - 1


@pytest.mark.postgres
def test_an_upgrade_of_a_server_that_is_killed_anywhere_is_done_by_the_next_start(
    postgres_server, tmp_path
):
    with postgres_server.database() as old:
        migrations.upgrade(sa.create_engine(old), OLDEST.name[:3])
        fill_server(OLDEST, old, tmp_path / "old.db")
        for statement in range(1, STATEMENTS_MAX):
            with postgres_server.database(old.rpartition("/")[2]) as copy:

                def version(url: str = copy) -> str:
                    with psycopg.connect(url.replace("+psycopg", "")) as database:
                        text = "SELECT version_num FROM alembic_version"
                        ((found,),) = database.execute(text).fetchall()
                        return str(found)

                if not killed_before(statement, copy):
                    break
                upgrade_again(copy, version)

    assert 10 < statement < STATEMENTS_MAX - 1
