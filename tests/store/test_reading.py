"""What every store gives back: arrays, keys, numbers and the log, also to other threads."""

import threading

from rota.core.facts.indices import IndexSet
from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState
from rota.store.api import Batch, JobFilter
from rota.store.stats import Cohort
from tests.store.builders import DAY_S, START_S, Log, array, job, spec


def test_the_sweep_of_an_array_survives_its_updates(place):
    rows = tuple((str(number), "x" * 50) for number in range(10))
    family = array(5, 10, rows=rows, spec=spec(parameters=("lr", "pad")))
    store = place.open()
    log = Log()
    store.commit(log.array_submitted(family))

    IndexSet(family.waiting).discard(0)
    store.commit(log.expanded(family, 0))
    store = place.reopen()
    IndexSet(family.waiting).discard(1)
    store.commit(log.expanded(family, 1))
    store = place.reopen()

    assert store.array(5) == family
    assert store.load().arrays == [family]
    assert store.job(7).parameters == {"lr": "1", "pad": "x" * 50}


def test_every_array_on_record_is_loaded(store):
    waiting = array(10, 3)
    expanded = array(20, 3, waiting_from=3)
    cut = array(
        30,
        3,
        waiting_from=3,
        cut=[[0, 2]],
        cut_s=START_S,
        cut_outcome=Outcome(JobState.CANCELLED, Cause.CANCELLED),
    )

    store.commit(Batch(arrays=[waiting, expanded, cut]))

    assert store.load().arrays == [waiting, expanded, cut]
    assert store.array(20) == expanded
    assert store.array_by_uid(expanded.uid) == expanded
    assert store.array_by_uid("nobody") is None
    assert store.array(21) is None


def test_next_id_is_beyond_the_block_of_the_newest_array(store):
    store.commit(Batch(arrays=[array(10, 1000)], jobs=[job(5)]))

    assert store.load().next_id == 1011


def test_next_seq_follows_the_last_event(store):
    store.commit(Log(first=41).submitted(job(1), job(2)))

    assert store.load().next_seq == 43


def test_keys_of_the_last_day_point_to_the_first_job_of_their_submit(store):
    log = Log()
    old = job(1, JobState.COMPLETED, at_s=START_S - 2 * DAY_S, key="old")
    batch = log.submitted(old, job(2, key="k"), job(3, key="k"), job(4, key="k", user="bob"))
    family = array(10, 3, key="a")
    batch.arrays = [family]
    batch.jobs.append(job(5))

    store.commit(batch)

    assert store.load().keys == [("ann", "k", 2), ("bob", "k", 4), ("ann", "a", 10)]


def test_the_key_of_a_finished_job_is_still_known(store):
    store.commit(Log().submitted(job(1, JobState.COMPLETED, key="k")))

    assert store.load().keys == [("ann", "k", 1)]


def test_states_are_counted(store):
    store.commit(Batch(jobs=[job(1), job(2), job(3, JobState.FAILED)]))

    assert store.count_states() == {JobState.QUEUED: 2, JobState.FAILED: 1}


def test_events_come_back_in_order_and_from_where_one_left_off(store):
    log = Log()
    first = log.submitted(job(1), job(2))
    second = Batch(events=[log.eligible(1), log.silent("box")])
    store.commit(first)
    store.commit(second)

    everything = first.events + second.events

    assert store.events() == everything
    assert store.events(after=2) == everything[2:]
    assert store.events(after=1, limit=2) == everything[1:3]
    assert list(store.all_events()) == everything


def test_events_about_one_job_leave_out_all_others(store):
    log = Log()
    family = array(5, 3)
    store.commit(log.array_submitted(family))
    store.commit(log.submitted(job(1), job(2)))
    store.commit(log.expanded(family, 2))
    store.commit(Batch(events=[log.eligible(2), log.silent("box"), log.eligible(8)]))

    assert [event.seq for event in store.events(job=2)] == [3, 5]
    assert [event.seq for event in store.events(job=5)] == [1]
    assert [event.seq for event in store.events(job=8)] == [4, 7]
    assert [event.seq for event in store.events(job=8, after=4)] == [7]
    assert store.events(job=99) == []


def test_a_reader_in_another_thread_sees_what_was_committed(store):
    store.commit(Log().submitted(job(1)))
    seen = []

    reader = threading.Thread(target=lambda: seen.append(store.job(1)))
    reader.start()
    reader.join()

    assert seen == [job(1)]


def test_many_threads_may_read_while_one_writes(store):
    log = Log()
    trouble: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                listed = store.list_jobs(JobFilter(user="ann"), limit=5)
                assert [one.id for one in listed] == sorted(one.id for one in listed)
                store.events(limit=5)
                store.count_states()
                store.job_sums(Cohort(0.0))
        except BaseException as error:
            trouble.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 60):
        store.commit(log.submitted(job(number)))
    done.set()
    for reader in readers:
        reader.join()

    assert trouble == []
    assert len(store.load().jobs) == 59
