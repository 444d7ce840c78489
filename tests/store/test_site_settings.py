"""PostgreSQL as sites set it up for others, too: what is refused, and what must not harm."""

import contextlib
import threading

import psycopg
import pytest
import sqlalchemy as sa

from rota.core.facts.errors import RotaError, Unavailable
from rota.core.facts.states import JobState
from rota.store import copying, migrations
from rota.store.errors import NotLeading
from rota.store.heads import HeadRecord, Lookout
from rota.store.migrations import HEAD
from rota.store.open import open_store
from tests.journeys.box import until
from tests.store.builders import DAY_S, START_S, Log, job
from tests.store.conftest import emptied
from tests.support.pooler import pooling

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_home):
    return emptied(postgres_home)


@pytest.fixture
def own_url(postgres_server):
    """A database of its own, of which a test may change the settings."""
    with postgres_server.database() as url:
        yield url


def plain(url: str) -> str:
    return url.replace("+psycopg", "")


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def lookout(url: str) -> Lookout:
    return Lookout(url.partition("://")[2])


def test_a_schema_that_the_url_names_is_used_by_all_connections(own_url):
    with psycopg.connect(plain(own_url)) as connection:
        connection.execute("CREATE SCHEMA own")
    url = own_url + "?options=-csearch_path%3Down"
    store = open_store(url)
    store.commit(Log().submitted(job(1)))

    with contextlib.closing(lookout(url)) as seen:
        seen.say(HeadRecord("https://a", "1"))

        assert seen.epoch() == 1
        assert [head.url for head in seen.heads()] == ["https://a"]
    assert store.driver.read("SELECT to_regclass('own.jobs') IS NOT NULL") == [(True,)]
    assert store.driver.read("SELECT to_regclass('public.jobs') IS NULL") == [(True,)]
    store.close()


def test_no_timeout_of_the_site_ends_work_of_ours(own_url, postgres_server, tmp_path):
    migrations.upgrade(sa.create_engine(own_url), "007")
    held = psycopg.connect(plain(own_url))
    held.execute("LOCK TABLE jobs IN ACCESS SHARE MODE")
    for setting in (
        "statement_timeout = '30ms'",
        "lock_timeout = '30ms'",
        "idle_in_transaction_session_timeout = '30ms'",
        "default_transaction_isolation = 'serializable'",
    ):
        postgres_server.execute(f"ALTER DATABASE {name_of(own_url)} SET {setting}")
    # The migration waits for it for longer than the site would have it wait.
    threading.Timer(1.0, held.close).start()

    store = open_store(own_url)

    store.commit(Log().submitted(*(job(number) for number in range(1, 3000))))
    assert store.driver.read("SELECT 1 FROM pg_sleep(0.1)") == [(1,)]
    assert store.driver.read("SHOW transaction_isolation") == [("read committed",)]
    copying.take(own_url, tmp_path / "copy.db")
    store.close()


def test_a_database_of_another_encoding_is_refused_in_one_line(postgres_server):
    text = "CREATE DATABASE narrow TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
    postgres_server.execute(text)
    try:
        url = f"postgresql://rota@127.0.0.1:{postgres_server.port}/narrow"

        with pytest.raises(RotaError) as refused:
            open_store(url)
    finally:
        postgres_server.execute("DROP DATABASE narrow WITH (FORCE)")

    assert str(refused.value) == (f"{url} has the encoding LATIN1: make it with ENCODING 'UTF8'")


def test_what_a_client_is_set_to_does_not_change_what_is_read(url, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    store = open_store(url)

    store.commit(Log().submitted(job(1, user="Jürgen \N{SNAKE}")))

    assert store.driver.read("SELECT user_id FROM jobs") == [("Jürgen \N{SNAKE}",)]
    store.close()


def test_how_a_server_sorts_words_changes_nothing(postgres_server):
    # As Thai is sorted, and as all languages were by the libraries of ten years ago.
    postgres_server.execute(
        "CREATE DATABASE sorted TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
        " LOCALE_PROVIDER icu ICU_LOCALE 'en-u-ka-shifted'"
    )
    url = f"postgresql://rota@127.0.0.1:{postgres_server.port}/sorted"
    try:
        store = open_store(url)
        done = [job(number, JobState.COMPLETED, at_s=START_S) for number in range(1, 5000)]
        store.commit(Log().submitted(*done))
        while store.pack(START_S + DAY_S):
            pass
        assert store.seal_outcomes() == 1
        assert store.seal_outcomes() == 0
        store.close()

        again = open_store(url)

        assert again.job(7).spec == done[6].spec
        assert [number for number, _ in again.load().pages] == [0]
        again.close()
    finally:
        postgres_server.execute("DROP DATABASE sorted WITH (FORCE)")


def test_a_server_that_takes_no_changes_is_named_and_asked_again(own_url, postgres_server):
    store = open_store(own_url)
    log = Log()
    store.commit(log.submitted(job(1)))
    read_only = f"ALTER DATABASE {name_of(own_url)} SET default_transaction_read_only"
    postgres_server.execute(f"{read_only} = on")
    postgres_server.terminate(own_url)

    for change in (lambda: store.commit(log.submitted(job(2))), store.prove, store.lead):
        with pytest.raises(
            Unavailable, match="takes no changes: it is a replica, or set read-only"
        ):
            change()
    assert store.job(1).id == 1

    postgres_server.execute(f"{read_only} = off")
    store.prove()
    store.commit(Log(first=2).submitted(job(2)))
    assert store.job(2).id == 2
    store.close()


def test_a_user_that_may_not_make_tables_is_told_what_to_do(own_url, postgres_server):
    postgres_server.execute("CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(Unavailable) as refused:
            open_store(own_url.replace("rota@", "guest@"))
    finally:
        postgres_server.execute("DROP ROLE guest")

    assert "permission denied for schema public" in str(refused.value)
    assert str(refused.value).endswith("make its user the owner of the database")


def test_no_slot_for_a_connection_is_told_in_one_line(own_url, postgres_server):
    store = open_store(own_url)
    postgres_server.execute(f"ALTER DATABASE {name_of(own_url)} CONNECTION LIMIT 0")
    postgres_server.execute("CREATE ROLE plain LOGIN")
    try:
        with pytest.raises(Unavailable, match="too many connections") as refused:
            open_store(own_url.replace("rota@", "plain@"))
    finally:
        postgres_server.execute("DROP ROLE plain")
        store.close()

    assert "\n" not in str(refused.value)


def test_a_pooler_that_lends_connections_for_a_transaction_is_refused(url, postgres_server):
    with pooling(postgres_server.port) as port:
        behind = plain(url).replace(f":{postgres_server.port}/", f":{port}/")

        with pytest.raises(RotaError, match="behind a pooler that lends each connection"):
            open_store(behind)


def test_a_migration_that_goes_on_is_not_begun_once_more(url):
    migrations.upgrade(sa.create_engine(url), "007")
    held, outcome = psycopg.connect(plain(url)), list[str]()
    held.execute("LOCK TABLE jobs IN ACCESS SHARE MODE")

    def migrate() -> None:
        try:
            open_store(url, wait_s=30).close()
            outcome.append("leads")
        except NotLeading:
            outcome.append("gives way")

    first = threading.Thread(target=migrate)
    first.start()
    with contextlib.closing(lookout(url)) as others, contextlib.closing(held):
        until(lambda: _waits(url), "the migration to wait")
        # It says nothing for a long time, and is taken for one that hangs.
        assert others.depose()
        for _ in range(2):
            with pytest.raises(NotLeading):
                open_store(url, wait_s=0.2)
    first.join()

    assert outcome == ["leads"]
    store = open_store(url)
    assert store.driver.read("SELECT version_num FROM alembic_version") == [(HEAD,)]
    store.close()


def _waits(url: str) -> bool:
    """Whether somebody waits for a lock on a table."""
    text = "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted"
    with psycopg.connect(plain(url)) as connection:
        ((count,),) = connection.execute(text).fetchall()
    return bool(count)
