"""PostgreSQL: one controller leads, and a server that goes away is not the end."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rota.core.facts.errors import RotaError, Unavailable
from rota.store import postgres
from rota.store.api import Batch
from rota.store.errors import Contradiction, NotLeading, OutcomeUnknown
from rota.store.open import open_store
from tests.store.builders import Log, job
from tests.store.conftest import emptied


@pytest.fixture
def postgres_url(postgres_home):
    return emptied(postgres_home)


@pytest.fixture
def store(postgres_url):
    opened = open_store(postgres_url)
    yield opened
    opened.close()


def ids(store) -> list[int]:
    return [one.id for one in store.load().jobs]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_usual_spelling_of_the_url_is_understood(postgres_url, scheme):
    url = scheme + "://" + postgres_url.partition("://")[2]

    store = open_store(url)
    store.close()

    assert store.name == "postgresql://" + postgres_url.partition("://")[2]


def test_a_second_controller_is_told_that_another_one_leads(postgres_url, store, monkeypatch):
    monkeypatch.setattr(postgres, "LOCK_WAIT_S", 0.05)

    with pytest.raises(Unavailable, match="another controller leads"):
        open_store(postgres_url)


def test_the_next_controller_leads_once_the_first_has_gone(postgres_url):
    first = open_store(postgres_url)
    first.commit(Log().submitted(job(1)))
    first.close()

    second = open_store(postgres_url)

    assert ids(second) == [1]
    second.close()


def test_a_commit_after_the_connection_was_cut_succeeds_on_a_new_one(
    postgres_url, postgres_server, store
):
    log = Log()
    store.commit(log.submitted(job(1)))
    postgres_server.terminate(postgres_url)

    store.commit(log.submitted(job(2)))
    store.commit(log.submitted(job(3)))

    assert ids(store) == [1, 2, 3]


def test_leadership_outlives_a_connection_that_nobody_else_took_the_place_of(
    postgres_url, postgres_server, store
):
    store.prove()
    postgres_server.terminate(postgres_url)

    store.prove()

    assert ids(store) == []


def test_a_controller_that_was_deposed_can_neither_prove_nor_write(postgres_url, postgres_server):
    first = open_store(postgres_url)
    first.commit(Log().submitted(job(1)))
    # It stands still while its connection is cut and another one comes and goes.
    postgres_server.terminate(postgres_url)
    second = open_store(postgres_url)
    with pytest.raises(NotLeading, match="another controller leads"):
        first.prove()
    second.close()

    with pytest.raises(NotLeading, match="another controller has led"):
        first.prove()
    with pytest.raises(NotLeading, match="nothing was changed"):
        first.set_bookmark("notices", "7")
    assert first.bookmark("notices") == ""

    first.lead()
    first.prove()
    first.set_bookmark("notices", "7")
    assert first.bookmark("notices") == "7"
    first.close()


def within_s(seconds, call) -> str:
    """What a call is refused with, which must not take longer."""
    begun_s = time.monotonic()
    with pytest.raises(Unavailable) as refused:
        call()
    assert time.monotonic() - begun_s < seconds
    return str(refused.value)


def test_a_server_that_stands_still_costs_a_bounded_time(postgres_server, store):
    log = Log()
    store.commit(log.submitted(job(1)))
    store.count_states()

    with postgres_server.frozen():
        reading = within_s(12, store.count_states)
        writing = within_s(14, lambda: store.commit(log.submitted(job(2))))
        proving = within_s(12, store.prove)

    assert "cannot use postgresql://" in reading
    assert "went away during a commit" in writing
    assert "cannot use postgresql://" in proving
    again = open_again(store)
    assert ids(again) in ([1], [1, 2])


def open_again(store):
    """As the host does it once the server is back: the old connection may end only now."""
    deadline_s = time.monotonic() + 20
    while True:
        try:
            store.lead()
            return store
        except Unavailable:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


def test_a_read_that_takes_longer_than_the_silence_is_not_cut_off(store, monkeypatch):
    monkeypatch.setattr(postgres, "SILENT_S", 0.2)

    (found,) = store.driver.read("SELECT 7 FROM pg_sleep(1)")

    assert found == (7,)


def test_reads_share_a_pool_of_connections(store):
    everybody = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'rota'"
    )
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: store.count_states(), range(100)))
    (after_many,) = store.driver.read(everybody)[0]

    for _ in range(50):
        store.count_states()

    assert 2 <= after_many <= 5
    assert store.driver.read(everybody) == [(after_many,)]


def test_a_read_after_the_connection_was_cut_succeeds(postgres_url, postgres_server, store):
    store.commit(Log().submitted(job(1)))
    assert ids(store) == [1]

    postgres_server.terminate(postgres_url)

    assert ids(store) == [1]


class LosesTheAnswer(psycopg.RawCursor):
    """Cuts the connection right after the server has committed."""

    armed = False

    def execute(self, query, *args, **options):
        done = super().execute(query, *args, **options)
        if query == b"COMMIT" and LosesTheAnswer.armed:
            LosesTheAnswer.armed = False
            self.connection._pipeline.sync()
            self.connection.pgconn.finish()
            raise psycopg.OperationalError("the connection is lost")
        return done


def test_a_commit_whose_answer_was_lost_is_found_and_counts(store):
    log = Log()
    store.commit(log.submitted(job(1)))
    store.driver._writer.cursor_factory = LosesTheAnswer
    LosesTheAnswer.armed = True

    store.commit(log.submitted(job(2)))
    store.commit(log.submitted(job(3)))

    assert ids(store) == [1, 2, 3]


def test_a_commit_whose_outcome_nobody_can_tell_says_so(store, monkeypatch):
    log = Log()
    store.commit(log.submitted(job(1)))
    store.driver._writer.cursor_factory = LosesTheAnswer
    LosesTheAnswer.armed = True
    monkeypatch.setattr(postgres, "RECONNECT_S", 0.0)
    monkeypatch.setattr(store.driver, "_conninfo", "postgresql://127.0.0.1:1/none")

    with pytest.raises(OutcomeUnknown, match="went away during a commit"):
        store.commit(log.submitted(job(2)))
    # From here on nothing is sent at all, so nothing can be in doubt.
    with pytest.raises(Unavailable, match="cannot use") as caught:
        store.commit(log.submitted(job(3)))
    assert not isinstance(caught.value, OutcomeUnknown)


def test_a_batch_that_contradicts_the_record_is_rolled_back(store):
    store.commit(Log().submitted(job(1)))

    with pytest.raises(Contradiction):
        store.commit(Log().submitted(job(2)))

    assert ids(store) == [1]
    assert store.driver._writer.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_a_commit_is_durable_when_it_returns(store):
    (row,) = store.driver._writer.execute("SHOW synchronous_commit").fetchall()

    assert row == ("on",)


def test_a_server_that_is_not_there_is_reported_in_one_line_without_the_password():
    with pytest.raises(Unavailable) as caught:
        open_store("postgresql://ann:secret@127.0.0.1:1/rota")

    assert "\n" not in str(caught.value)
    assert "postgresql://ann@127.0.0.1:1/rota" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_database_that_does_not_exist_is_reported_in_one_line(postgres_url):
    url = postgres_url.rpartition("/")[0] + "/absent"

    with pytest.raises(RotaError, match='"absent" does not exist') as caught:
        open_store(url)

    assert "\n" not in str(caught.value)


def test_without_psycopg_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "rota.store.postgres", raising=False)

    with pytest.raises(Unavailable, match=r"pip install 'rota\[postgres\]'"):
        open_store("postgresql://127.0.0.1/rota")


def test_a_server_without_room_is_named_and_nothing_changes(store):
    # The server itself reports it, as it would for a full disk.
    refuse = (
        "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$",
        (),
    )

    with pytest.raises(Unavailable, match="is full: nothing was changed"):
        store.driver.write([("INSERT INTO meta VALUES ('a', 'b')", ()), refuse])
    store.commit(Batch(jobs=[job(1)]))

    assert ids(store) == [1]
    assert store.driver.read("SELECT count(*) FROM meta WHERE key = 'a'") == [(0,)]
