"""PostgreSQL keeps the log in months, and drops what is old by the month."""

from datetime import UTC, datetime

import psycopg
import pytest
import sqlalchemy as sa

from rota.core.changes.events import QueueSet
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Queue
from rota.store import copying, migrations
from rota.store.api import Batch
from rota.store.errors import NotLeading
from rota.store.forget.months import KEPT, Month, month_of
from rota.store.log import page
from rota.store.open import open_store
from tests.store.builders import DAY_S, Log, job
from tests.store.conftest import emptied

pytestmark = pytest.mark.postgres


def moment(*day: int) -> float:
    return datetime(*day, tzinfo=UTC).timestamp()


MAY_S, JUNE_S, JULY_S = moment(2031, 5, 20), moment(2031, 6, 10), moment(2031, 7, 2)


@pytest.fixture
def url(postgres_home):
    return emptied(postgres_home)


@pytest.fixture
def store(url):
    opened = open_store(url)
    yield opened
    opened.close()


def months(store) -> list[str]:
    return sorted(name for name in store.driver.tables() if name.startswith("events_"))


def ended(number: int, at_s: float):
    return job(number, JobState.COMPLETED, at_s=at_s)


def forget(store, before_s: float) -> None:
    while store.prune(before_s):
        pass


def numbers(store) -> list[int]:
    return [record.seq for record in store.all_events()]


def test_a_month_is_made_by_the_first_event_in_it(store):
    log = Log()

    for at_s in (MAY_S, MAY_S + 1, JULY_S, JULY_S + 1):
        store.commit(Batch(events=[log.silent("box", at_s=at_s)]))

    assert months(store) == ["events_2031_05", "events_2031_07"]
    assert numbers(store) == [1, 2, 3, 4]


def test_the_last_month_of_a_year_ends_with_it():
    assert month_of(moment(2031, 12, 31)) == Month("events_2031_12", moment(2032, 1, 1))


def test_a_month_that_is_too_old_is_dropped_as_a_table(store):
    log = Log()
    for number, at_s in enumerate((MAY_S, JUNE_S, JULY_S), start=1):
        store.commit(log.submitted(ended(number, at_s)))

    forget(store, JUNE_S + 5 * DAY_S)

    # The job of June is forgotten; what the log says of it goes with its month.
    assert [row.id for row in store.jobs_submitted(0, JULY_S + 1, limit=9)] == [3]
    assert months(store) == ["events_2031_06", "events_2031_07", KEPT]
    assert numbers(store) == [2, 3]


def test_what_must_stay_of_a_month_stays_in_its_order(store):
    log = Log()
    store.commit(log.submitted(job(1, at_s=MAY_S), ended(2, MAY_S)))
    night = log.record(QueueSet(Queue(name="night")), at_s=MAY_S)
    store.commit(Batch(events=[log.silent("box", at_s=MAY_S), night]))
    store.commit(log.submitted(ended(3, JUNE_S)))
    store.commit(Batch(events=[log.silent("box", at_s=JULY_S)]))

    forget(store, moment(2031, 6, 1))
    in_june = numbers(store)
    forget(store, JULY_S)

    assert in_june == [1, 3, 5, 6]
    assert numbers(store) == [1, 3, 6]
    assert months(store) == ["events_2031_07", KEPT]
    assert [record.event.job for record in store.events(job=1)] == [1]


def test_of_the_pages_of_a_month_stays_what_is_on_record(store):
    log, count = Log(), page.EVENTS
    store.commit(log.submitted(job(1, at_s=MAY_S), *(ended(n, MAY_S + n) for n in range(2, count))))
    store.commit(
        log.submitted(ended(count, JUNE_S), *(ended(count + n, JULY_S) for n in range(1, 9)))
    )
    while store.pack(JULY_S):
        pass
    assert store.driver.read("SELECT count(*) FROM events") == [(1 + 8,)]

    forget(store, moment(2031, 6, 1))
    in_june = numbers(store)
    forget(store, JULY_S)

    # The one page ends in June, and goes with it.
    assert in_june == list(range(1, count + 9))
    assert numbers(store) == [1, *range(count + 1, count + 9)]
    assert months(store) == ["events_2031_07", KEPT]
    assert [record.event.job for record in store.events(job=1)] == [1]


def test_numbers_go_on_when_the_whole_log_is_gone(store, url):
    log = Log()
    store.commit(log.submitted(ended(1, MAY_S)))
    forget(store, JULY_S)
    assert numbers(store) == []
    store.close()

    again = open_store(url)

    assert again.load().next_seq == 2
    again.commit(log.submitted(ended(2, MAY_S + 1)))
    again.commit(log.submitted(ended(3, JULY_S)))
    assert numbers(again) == [2, 3]
    again.close()


def test_a_month_is_dropped_later_while_the_log_is_being_read(store, url):
    store.commit(Log().submitted(ended(1, MAY_S)))
    with psycopg.connect(url.replace("+psycopg", "")) as reader:
        reader.execute("SELECT count(*) FROM events")

        forget(store, JULY_S)

        assert numbers(store) == [1]
        store.prove()
    forget(store, JULY_S)
    assert numbers(store) == []


def test_a_successor_knows_the_months_of_the_one_before(store, url, postgres_server):
    log = Log()
    store.commit(log.submitted(ended(1, MAY_S)))
    postgres_server.terminate(url)
    other = open_store(url)
    other.commit(log.submitted(ended(2, JUNE_S)))
    other.close()

    with pytest.raises(NotLeading):
        store.prove()
    store.lead()
    store.commit(log.submitted(ended(3, JUNE_S + 1)))

    assert numbers(store) == [1, 2, 3]


def test_a_log_of_years_is_converted_without_being_written_again(url):
    migrations.upgrade(sa.create_engine(url), "007")
    insert = "INSERT INTO events VALUES (%s, %s, '', 'node-silent', NULL, '')"
    with psycopg.connect(url.replace("+psycopg", "")) as old:
        old.cursor().executemany(insert, [(1, MAY_S), (2, JULY_S)])
        file = "SELECT pg_relation_filenode(%s)"
        (before,) = old.execute(file, ("events",)).fetchall()

    store = open_store(url)

    assert months(store) == ["events_2031_07"]
    assert store.driver.read("SELECT pg_relation_filenode('events_2031_07')") == [before]
    forget(store, moment(2031, 8, 1))
    assert store.driver.read("SELECT count(*) FROM events") == [(0,)]
    store.close()


def test_a_backup_of_a_file_is_put_into_months(tmp_path, url):
    file = tmp_path / "rota.db"
    store = open_store(str(file))
    log = Log()
    store.commit(log.submitted(ended(1, MAY_S), ended(2, JULY_S)))
    store.close()

    copying.put(file, url)

    restored = open_store(url)
    assert (months(restored), numbers(restored)) == (["events_2031_07"], [1, 2])
    restored.close()
