"""Old rows are packed: they take less room, and say the same."""

import sqlite3
from random import Random

import psycopg
import pytest

from rota.controller.audit import Audit
from rota.core.derived.ids import kept_key
from rota.core.facts.errors import Unavailable
from rota.core.facts.states import JobState
from rota.store.api import JobFilter
from rota.store.log import page
from rota.store.open import open_store
from rota.store.packing import MARK, OWN
from rota.store.sql import SqlStore
from rota.testing.scene import Scene
from tests.store.builders import DAY_S, START_S, Log, job

JOBS = 400
#: Jobs of a round, whose events fill a page, and what one of them may take with its events, its
#: audit and all indexes.
TRIVIAL, BYTES_MAX = page.EVENTS // 5 + 1, 1024
#: After so many jobs the server would find that enough rows were written over to clear up: 50, and
#: 2 % of the table.
CLEARED = 50


def filled(store):
    jobs = [
        job(number, JobState.COMPLETED, at_s=START_S + number, name=f"train-{number}")
        for number in range(1, JOBS)
    ]
    store.commit(Log().submitted(*jobs, job(JOBS, at_s=START_S)))


def everything(store):
    jobs = store.list_jobs(JobFilter(), limit=2 * JOBS)
    return jobs, list(store.all_events()), store.job(7), store.load().jobs


def body_bytes(store) -> int:
    read = store.driver.read
    ((jobs,),) = read("SELECT sum(length(body)) FROM jobs")
    ((events,),) = read("SELECT sum(length(body)) FROM events")
    return int(jobs + events)


def pack_all(store: SqlStore, before_s: float) -> None:
    while store.pack(before_s):
        pass


def test_packed_rows_say_the_same_and_take_a_third_of_the_room(sql_place):
    store = sql_place.open()
    filled(store)
    before, plain = everything(store), body_bytes(store)

    pack_all(store, START_S + DAY_S)

    assert body_bytes(store) * 3 < plain
    assert everything(store) == before
    assert everything(sql_place.reopen()) == before


def test_what_is_new_or_has_not_ended_stays_as_it_is(sql_place):
    store = sql_place.open()
    filled(store)

    pack_all(store, START_S + 100)

    packed = {
        number
        for number, body in store.driver.read("SELECT id, body FROM jobs")
        if bytes(body)[:1] == b"\xc1"
    }
    assert packed == set(range(1, 100))


def test_rows_that_come_later_are_packed_with_the_same_words(sql_place):
    store = sql_place.open()
    filled(store)
    pack_all(store, START_S + DAY_S)
    log = Log(first=5000)
    late = [job(number, JobState.FAILED, at_s=START_S + DAY_S) for number in range(1000, 1010)]
    store = sql_place.reopen()
    store.commit(log.submitted(*late))

    pack_all(store, START_S + 3 * DAY_S)

    assert store.job(1005) == late[5]
    ((body,),) = store.driver.read("SELECT body FROM jobs WHERE id = 1005")
    assert bytes(body)[:2] == bytes((MARK, 1 | OWN))


class Audited(Scene):
    """Writes down who did what, with names as long as those of a live host."""

    def __init__(self, **site):
        self.chance = Random(7)
        super().__init__(**site)

    def new_uid(self):
        return self.chance.randbytes(16).hex()

    def submit_one(self):
        """As a client does: under a key, at a moment of its own."""
        self.now_s += self.chance.random()
        key = kept_key(self.chance.randbytes(12).hex(), self.chance.randbytes(8).hex())
        return self.submit(command=("/bin/sh", "-c", "true"), workdir="/home/alice/work", key=key)

    def tick(self, *inbox):
        plain, audit = self.controller.tick, Audit(None, lambda: self.now_s)

        def decide(now_s, items):
            tick = plain(now_s, items)
            tick.batch.audit = audit.of_tick(items, tick.answers)
            return tick

        self.controller.tick = decide
        try:
            return super().tick(*inbox)
        finally:
            self.controller.tick = plain


def clear_up(store) -> None:
    """What an idle moment, or the server, does by itself."""
    if store.driver.dialect == "sqlite":
        for _ in range(20):
            store.tidy()
        return
    with psycopg.connect(store.driver._conninfo, autocommit=True) as connection:
        connection.execute("VACUUM")


def disk_bytes(store) -> int:
    read = store.driver.read
    if store.driver.dialect == "sqlite":
        return int(read("PRAGMA page_count")[0][0]) * 4096
    text = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind = 'r'"
    return int(read(f"{text} AND relnamespace = 'public'::regnamespace")[0][0])


def test_a_trivial_finished_job_takes_little_room_on_disk(sql_place):
    scene = Audited(cpus=4)
    scene.store = store = sql_place.open()
    scene.restart()
    sizes = []
    for _ in range(2):
        for number in range(TRIVIAL):
            scene.finish(scene.submit_one())
            if number % CLEARED == 0:
                clear_up(store)
        pack_all(store, scene.now_s + DAY_S)
        clear_up(store)
        sizes.append(disk_bytes(store))

    # The first ones also pay for tables and indexes, which are there once.
    taken = (sizes[1] - sizes[0]) / TRIVIAL
    print(f"{store.driver.dialect}: {taken:.0f} bytes for a trivial finished job")
    assert taken < BYTES_MAX


def test_pages_that_become_free_are_given_back_to_the_disk(tmp_path):
    from rota.store.open import open_store

    store = open_store(str(tmp_path / "rota.db"))
    jobs = [job(number, JobState.COMPLETED, name="x" * 3000) for number in range(1, 3000)]
    store.commit(Log().submitted(*jobs))
    store.tidy()
    before = _pages(tmp_path)

    while store.prune(START_S + 10 * DAY_S):
        store.tidy()
    for _ in range(20):
        store.tidy()

    assert _pages(tmp_path) * 3 < before
    store.close()


def _pages(folder) -> int:
    with sqlite3.connect(folder / "rota.db") as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_rows_to_learn_from_stay_as_they_are(sql_place, count):
    store = sql_place.open()
    store.commit(Log().submitted(*(job(n + 1, JobState.COMPLETED) for n in range(count))))

    assert store.pack(START_S + DAY_S) == 0


def test_words_that_did_not_reach_the_disk_pack_nothing(sqlite_store, tmp_path):
    store = sqlite_store
    filled(store)
    before = everything(store)
    ((pages,),) = store.driver.read("PRAGMA page_count")
    # As a full disk: SQLite says the same of it.
    store.driver._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unavailable, match="is full: nothing was changed"):
        store.pack(START_S + DAY_S)
    store.driver._writer.execute(f"PRAGMA max_page_count = {10 * pages}")

    pack_all(store, START_S + DAY_S)
    store.close()

    again = open_store(str(tmp_path / "rota.db"))
    assert everything(again) == before
    again.close()
