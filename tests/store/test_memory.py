"""The faults that the store in memory can have, and what the next process then finds."""

import pytest

from rota.core.facts.errors import Unavailable
from rota.core.facts.states import JobState
from rota.store.api import Batch
from rota.store.memory import DiskFault, MemoryDisk, MemoryStore, ProcessDied
from tests.store.builders import Log, job


@pytest.fixture
def disk():
    return MemoryDisk(faulty=True)


def ids(store) -> list[int]:
    return [one.id for one in store.load().jobs]


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (DiskFault.CRASH_BEFORE, [1]),
        (DiskFault.CRASH_TORN, [1]),
        (DiskFault.CRASH_AFTER, [1, 2]),
    ],
)
@pytest.mark.parametrize("faulty", [True, False])
def test_a_crash_around_a_commit_leaves_all_of_it_or_nothing(fault, found, faulty):
    disk = MemoryDisk(faulty=faulty)
    store = MemoryStore(disk)
    log = Log()
    store.commit(log.submitted(job(1)))
    disk.fault = fault

    with pytest.raises(ProcessDied):
        store.commit(log.submitted(job(2)))

    assert ids(MemoryStore(disk)) == found


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_a_torn_tail_is_ignored_and_written_over(disk, share):
    store = MemoryStore(disk)
    store.commit(Log().submitted(job(1)))
    disk.fault, disk.torn_share = DiskFault.CRASH_TORN, share
    with pytest.raises(ProcessDied):
        store.commit(Log(first=2).submitted(job(2)))

    store = MemoryStore(disk)
    after_crash = ids(store)
    store.commit(Log(first=2).submitted(job(3)))

    assert after_crash == [1]
    assert ids(MemoryStore(disk)) == [1, 3]


def test_a_flipped_bit_in_the_last_frame_drops_that_frame(disk):
    store = MemoryStore(disk)
    store.commit(Batch(jobs=[job(1)]))
    store.commit(Batch(jobs=[job(2)]))

    disk.log[-5] ^= 1

    assert ids(MemoryStore(disk)) == [1]


def test_a_process_that_died_does_nothing_more(disk):
    store = MemoryStore(disk)
    disk.fault = DiskFault.CRASH_BEFORE
    with pytest.raises(ProcessDied):
        store.commit(Batch(jobs=[job(1)]))

    with pytest.raises(Unavailable):
        store.commit(Batch(jobs=[job(2)]))
    with pytest.raises(Unavailable):
        store.load()


def test_a_full_disk_refuses_until_there_is_room_again(disk):
    store = MemoryStore(disk)
    disk.fault = DiskFault.FULL
    for _ in range(2):
        with pytest.raises(Unavailable, match="full: nothing was changed"):
            store.commit(Batch(jobs=[job(1)]))

    disk.fault = None
    store.commit(Batch(jobs=[job(2)]))

    assert ids(store) == [2]


def test_what_was_pruned_stays_gone_after_a_crash(disk):
    store = MemoryStore(disk)
    store.commit(Log().submitted(job(1, JobState.COMPLETED, at_s=1.0), job(2, at_s=900_000.0)))
    store.prune(800_000.0)

    reopened = MemoryStore(disk)

    assert reopened.load().outcomes == []
    assert reopened.load().next_id == 3
