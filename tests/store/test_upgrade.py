"""Databases as older versions wrote them are opened, and say what they said.

``written/NUMBER.sql.gz`` is the database of the long story of ``tests/unit/story.py``, played by
the last code that had the schema of that number, as ``sqlite3 .dump`` writes it. When a migration
is added, the file of the schema before it is made with the code before it.
"""

import contextlib
import gzip
import sqlite3
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from rota.controller.recover import recover
from rota.core.changes.compare import fold
from rota.core.changes.events import Recorded
from rota.store import migrations
from rota.store.api import JobFilter
from rota.store.copying import _put_months, _tables
from rota.store.open import open_store
from tests.store.conftest import emptied

#: The first schema in which a server has the log in partitions.
MONTHS = "008"
WRITTEN = sorted(Path(__file__).with_name("written").glob("*.sql.gz"))


@pytest.fixture(params=WRITTEN, ids=lambda path: path.name[:3])
def written(request, tmp_path):
    """The file of an older version, and its number."""
    path = tmp_path / "rota.db"
    with sqlite3.connect(path) as database:
        database.executescript(gzip.decompress(request.param.read_bytes()).decode())
    database.close()
    return path, request.param.name[:3]


def check(store) -> None:
    """The log and the rows lead to one state; nothing is lost, and work can go on."""
    loaded = recover(store.load())
    log = fold(store.all_events(), loaded.ids.cluster_id)
    jobs = store.list_jobs(JobFilter(), limit=1000)

    assert {job.id: job.state for job in log.jobs.values()} == {
        job.id: job.state for job in loaded.jobs.values()
    }
    assert log.count_states() == loaded.count_states()
    assert (log.ids.next, {*log.queues}) == (loaded.ids.next, {*loaded.queues})
    assert len(jobs) > 20
    assert all(store.blob(job.spec.environment) for job in jobs if job.spec.environment)
    # What is there may be in use by anything that is there.
    assert store.unused_blobs(1e18) == []


def put_on_pages(store) -> list[Recorded]:
    """What idle moments do to an old log. What it said before."""
    said = list(store.all_events())
    while store.pack(1e18):
        pass
    assert store.driver.read("SELECT count(*) FROM events")[0][0] < len(said)
    return said


def test_every_schema_before_this_one_has_its_file():
    numbers = [path.name[:3] for path in WRITTEN]

    assert numbers[-1] == f"{int(migrations.HEAD) - 1:03}"
    assert len(numbers) == len({*numbers}) >= 5


def test_a_file_of_an_older_version_is_opened_and_says_what_it_said(written):
    path, _ = written

    for _ in range(2):
        with contextlib.closing(open_store(str(path))) as store:
            check(store)
            said = put_on_pages(store)
            check(store)
            assert list(store.all_events()) == said


def fill_server(written: Path, url: str, path: Path) -> None:
    """With what a file says, by way of a database at ``path``; the tables are there."""
    with sqlite3.connect(path) as old, psycopg.connect(url.replace("+psycopg", "")) as new:
        if not path.stat().st_size:
            old.executescript(gzip.decompress(written.read_bytes()).decode())
        new.execute("DELETE FROM alembic_version; DELETE FROM meta")
        if written.name[:3] >= MONTHS:
            _put_months(old, new)
        for table, columns in _tables(old).items():
            names = ", ".join(f'"{name}"' for name in columns)
            marks = ", ".join(["%s"] * len(columns))
            found = old.execute(f'SELECT {names} FROM "{table}"').fetchall()
            new.cursor().executemany(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', found)
    old.close()


@pytest.mark.postgres
def test_a_server_of_an_older_version_is_opened_and_says_what_it_said(written, postgres_home):
    path, number = written
    url = emptied(postgres_home)
    migrations.upgrade(sa.create_engine(url), number)
    fill_server(path.with_name(number), url, path)

    with contextlib.closing(open_store(url)) as store:
        check(store)
        said = put_on_pages(store)
        check(store)
        assert list(store.all_events()) == said
