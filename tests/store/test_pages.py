"""Old events share pages of the log: it says the same, to every reader, in less room."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.controller.recover import recover
from rota.core.changes.compare import fold
from rota.core.changes.events import QueueSet
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Queue
from rota.store import copying
from rota.store.api import Batch
from rota.store.archive import reading, writing
from rota.store.log import page
from rota.store.open import open_store
from tests.store.builders import DAY_S, START_S, Log, job
from tests.store.conftest import emptied
from tests.store.test_packing import Audited, pack_all

#: Full pages, and some events that fill none.
EVENTS = 2 * page.EVENTS + 100
NEVER_S = START_S + 1000 * DAY_S


def filled(store, count: int = EVENTS, log: Log | None = None, first: int = 1):
    """A log in which each job is told of once; every third one has not ended."""
    log = log or Log()
    states = (JobState.COMPLETED, JobState.FAILED, JobState.QUEUED)
    jobs = [job(n, states[n % 3], at_s=START_S + n) for n in range(first, first + count)]
    store.commit(log.submitted(*jobs))
    return log


def pages(store) -> int:
    ((found,),) = store.driver.read("SELECT count(*) FROM events WHERE kind = ?", (page.KIND,))
    return int(found)


def mentions(store) -> int:
    return int(store.driver.read("SELECT count(*) FROM mentions")[0][0])


@pytest.fixture
def paged(sql_place):
    """A store with pages, and all that its log said before it had any."""
    store = sql_place.open()
    filled(store)
    said = list(store.all_events())
    assert len(said) == EVENTS
    pack_all(store, NEVER_S)
    return store, said


def test_a_page_holds_thousands_of_events_and_the_log_says_the_same(paged):
    store, said = paged

    assert pages(store) == 2
    assert store.driver.read("SELECT count(*) FROM events") == [(2 + 100,)]
    assert list(store.all_events()) == said


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_reader_gets_the_same_events_from_anywhere_and_about_any_job(paged, data):
    store, said = paged
    after = data.draw(st.integers(0, EVENTS + 1), "after")
    limit = data.draw(st.one_of(st.integers(1, 50), st.integers(1, 2 * EVENTS)), "limit")
    about = data.draw(st.one_of(st.just(0), st.integers(1, EVENTS + 50)), "about")

    found = store.events(after=after, job=about, limit=limit)

    wanted = [e for e in said if e.seq > after and about in (0, e.event.job)]
    assert found == wanted[:limit]


def test_a_reader_that_is_on_its_way_misses_nothing_and_sees_nothing_twice(sql_place):
    store = sql_place.open()
    filled(store)
    said = list(store.all_events())

    seen, after = [], 0
    while part := store.events(after=after, limit=700):
        seen += part
        after = part[-1].seq
        # The page that is made now ends beyond what the reader has read.
        store.pack(NEVER_S)

    assert pages(store) == 2
    assert seen == said


def test_what_is_new_and_a_page_that_is_not_full_stay_rows(sql_place):
    store = sql_place.open()
    filled(store)

    pack_all(store, START_S + page.EVENTS + 10)
    assert pages(store) == 1
    pack_all(store, START_S + page.EVENTS + 20)
    assert pages(store) == 1

    pack_all(store, NEVER_S)
    assert pages(store) == 2


def test_events_of_the_site_stay_rows_between_the_pages(sql_place):
    store, log = sql_place.open(), Log()
    filled(store, 100, log)
    store.commit(Batch(events=[log.record(QueueSet(Queue(name="night")), at_s=START_S + 101)]))
    filled(store, page.EVENTS, log, first=101)
    filled(store, 5, log, first=101 + page.EVENTS)
    store.commit(Batch(events=[log.record(QueueSet(Queue(name="day")), at_s=START_S + 9000)]))
    said = list(store.all_events())

    pack_all(store, NEVER_S)

    kinds = [kind for (kind,) in store.driver.read("SELECT kind FROM events ORDER BY seq")]
    # Five events between a page and the next of the site are too few for a page.
    assert kinds == ["page", "queue-set", "page", *["job-submitted"] * 5, "queue-set"]
    assert list(store.all_events()) == said


def test_the_log_on_pages_folds_to_the_state_that_the_rows_load(sql_place):
    scene = Audited(nodes=2, cpus=4)
    scene.store = store = sql_place.open()
    scene.restart()
    for _ in range(page.EVENTS // 4):
        scene.finish(scene.submit(command=("true",)))
    for _ in range(12):
        scene.submit(command=("true",))

    pack_all(store, scene.now_s + DAY_S)
    loaded = recover(store.load())
    told = fold(store.all_events(), loaded.ids.cluster_id)

    assert pages(store) == 1
    assert len(loaded.jobs) == 12
    assert told.jobs == loaded.jobs
    assert told.count_states() == loaded.count_states()
    assert (told.ids.next, told.nodes.keys()) == (loaded.ids.next, loaded.nodes.keys())


def test_numbers_go_on_after_a_log_that_is_all_pages(sql_place):
    store = sql_place.open()
    log = filled(store, page.EVENTS)
    pack_all(store, NEVER_S)
    store = sql_place.reopen()

    assert store.load().next_seq == page.EVENTS + 1
    filled(store, 10, log, first=page.EVENTS + 1)
    assert [e.seq for e in store.events(after=page.EVENTS - 2, limit=4)] == [
        page.EVENTS + n for n in (-1, 0, 1, 2)
    ]


def test_old_pages_are_forgotten_but_for_what_is_on_record(paged):
    store, said = paged
    waiting = {n for n in range(1, EVENTS + 1) if n % 3 == 2}

    while store.prune(NEVER_S):
        pass

    assert pages(store) == mentions(store) == 0
    kept = [event for event in said if event.event.job in waiting]
    assert list(store.all_events()) == kept
    assert store.events(job=5) == [event for event in kept if event.event.job == 5]


def test_a_page_stays_while_any_of_it_is_younger(paged):
    store, said = paged

    while store.prune(START_S + page.EVENTS + 500):
        pass

    assert pages(store) == 1
    young = [event for event in said if event.seq > page.EVENTS]
    assert [event for event in store.all_events() if event.seq > page.EVENTS] == young


def test_a_backup_carries_the_pages_from_one_database_to_the_other(paged, tmp_path, request):
    store, said = paged
    url = store.driver._conninfo if store.driver.dialect == "postgresql" else ""
    file = tmp_path / "copy.db"
    copying.take(url or str(tmp_path / "rota.db"), file)
    store.close()

    if url:
        again = open_store(str(file))
    else:
        server = emptied(request.getfixturevalue("postgres_home"))
        copying.put(file, server)
        again = open_store(server)

    assert pages(again) == 2
    assert list(again.all_events()) == said
    assert again.events(job=7) == [event for event in said if event.event.job == 7]
    again.close()


def test_an_archive_has_the_events_of_the_pages_one_by_one(paged, tmp_path):
    pytest.importorskip("pyarrow")
    store, said = paged
    folder = tmp_path / "archive"
    writing.write(store, folder, START_S)
    filled(store, page.EVENTS, Log(first=EVENTS + 1), first=EVENTS + 1)
    pack_all(store, NEVER_S)
    written = writing.write(store, folder, START_S + 1)

    archive = reading.open_archive(folder)

    assert written.events == page.EVENTS
    assert list(archive.all_events())[:EVENTS] == said
    assert len(list(archive.all_events())) == EVENTS + page.EVENTS
    archive.close()
