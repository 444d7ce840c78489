"""A server that has lost what it had confirmed is noticed, and nothing is built upon the gap."""

import pytest

from rota.core.facts.states import JobState
from rota.store.api import Batch, JobFilter
from rota.store.errors import Forgotten, NotLeading
from rota.store.open import open_store
from tests.store.builders import DAY_S, START_S, Log, array, job

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_server):
    """Of a database of its own: what takes its place later is another one."""
    with postgres_server.database() as made:
        yield made


@pytest.fixture
def store(url):
    opened = open_store(url)
    yield opened
    opened.close()


def ids(store) -> list[int]:
    return [one.id for one in store.load().jobs]


def test_nothing_is_written_or_promised_after_commits_were_lost(store, url, postgres_server):
    log = Log()
    store.commit(log.submitted(job(1)))
    with postgres_server.forgetting(url):
        store.commit(log.submitted(job(2)))

    with pytest.raises(Forgotten, match="has lost what it had confirmed"):
        store.commit(log.submitted(job(3)))
    with pytest.raises(NotLeading):
        store.prove()
    with pytest.raises(NotLeading):
        store.set_bookmark("notices", "7")
    assert ids(store) == [1]

    store.lead()
    store.prove()
    assert store.load().next_seq == 2
    store.commit(Log(first=2).submitted(job(2)))
    assert ids(store) == [1, 2]


def test_a_proof_after_commits_were_lost_fails(store, url, postgres_server):
    log = Log()
    store.commit(log.submitted(job(1)))
    with postgres_server.forgetting(url):
        store.commit(log.submitted(job(2)))

    with pytest.raises(Forgotten):
        store.prove()


def test_a_reign_that_was_lost_as_a_whole_is_over(url, postgres_server):
    first = open_store(url)
    first.commit(Log().submitted(job(1)))
    first.close()
    second = open_store(url)
    with postgres_server.forgetting(url):
        second.prove()
        second.lead()

    with pytest.raises(NotLeading):
        second.prove()
    second.close()


def test_connections_that_were_cut_alone_cost_nothing(store, url, postgres_server):
    log = Log()
    for number in (1, 2, 3):
        store.commit(log.submitted(job(number, JobState.COMPLETED)))
        postgres_server.terminate(url)
        store.prove()
    # Its last event is no row any more by the time that the connection is cut.
    while store.prune(START_S + 90 * DAY_S):
        pass
    assert store.driver.read("SELECT count(*) FROM events") == [(0,)]
    postgres_server.terminate(url)

    store.prove()
    store.commit(log.submitted(job(4)))

    assert ids(store) == [4]


def test_the_rows_of_an_array_that_takes_the_place_of_a_lost_one_are_kept(
    store, url, postgres_server
):
    store.commit(Batch(events=[Log().silent("box")]))
    with postgres_server.forgetting(url):
        lost = array(1, 2, rows=(("lost",), ("lost",)))
        store.commit(Log(first=2).array_submitted(lost))
    with pytest.raises(Forgotten):
        store.prove()

    store.lead()
    store.commit(Log(first=2).array_submitted(array(1, 2, rows=(("new",), ("new",)))))

    assert store.array(1).rows == (("new",), ("new",))


def test_words_for_packing_that_were_lost_are_learned_again(store, url, postgres_server):
    done = [job(number, JobState.COMPLETED, at_s=START_S) for number in range(1, 100)]
    store.commit(Log().submitted(*done))
    with postgres_server.forgetting(url):
        store.prove()
        assert store.pack(START_S + DAY_S)
        store.commit(Batch(events=[Log(first=100).silent("box")]))
    with pytest.raises(Forgotten):
        store.prove()

    store.lead()
    assert store.pack(START_S + DAY_S)

    store.close()
    again = open_store(url)
    assert [one.id for one in again.list_jobs(JobFilter(), limit=100)] == [*range(1, 100)]
    again.close()
