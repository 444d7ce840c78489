"""Commits from asyncio code: their order, their errors, and where they happen."""

import asyncio
import threading

import pytest

from rota.core.facts.errors import Unavailable
from rota.store import writer as writer_module
from rota.store.api import Batch
from rota.store.memory import DiskFault, MemoryDisk, MemoryStore
from rota.store.writer import InlineWriter, Writer
from tests.store.builders import Log, job


class Watched(MemoryStore):
    """Remembers where and in which order it was asked to commit; may be made to wait."""

    def __init__(self, disk=None) -> None:
        super().__init__(disk)
        self.threads: list[str] = []
        self.order: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.backlog = 0
        self.tidied = threading.Event()

    def commit(self, batch: Batch) -> None:
        assert self.gate.wait(10)
        self.threads.append(threading.current_thread().name)
        self.order += [one.id for one in batch.jobs]
        super().commit(batch)

    def tidy(self) -> None:
        self.backlog = 0
        self.tidied.set()


def make_in_thread(store):
    return Writer(store, always_in_thread=True)


@pytest.mark.parametrize("make", [InlineWriter, Writer, make_in_thread])
def test_a_batch_is_in_the_store_when_commit_returns(make):
    async def story() -> None:
        store = MemoryStore()
        writer = make(store)
        log = Log()

        for number in range(1, 6):
            await writer.commit(log.submitted(job(number)))
            assert store.job(number) is not None

        await writer.close()

    asyncio.run(story())


@pytest.mark.parametrize("make", [InlineWriter, Writer, make_in_thread])
def test_an_error_reaches_the_caller_and_the_writer_works_on(make):
    async def story() -> None:
        disk = MemoryDisk()
        writer = make(MemoryStore(disk))
        disk.fault = DiskFault.FULL

        with pytest.raises(Unavailable, match="full"):
            await writer.commit(Batch(jobs=[job(1)]))
        disk.fault = None
        await writer.commit(Batch(jobs=[job(2)]))

        assert await writer.run(lambda: 42) == 42
        await writer.close()

    asyncio.run(story())


def test_a_small_batch_is_committed_at_once_and_a_large_one_in_the_thread():
    async def story() -> list[str]:
        store = Watched()
        writer = Writer(store)
        await writer.commit(Batch(jobs=[job(1)]))
        await writer.commit(Batch(jobs=[job(number) for number in range(2, 3000)]))
        await writer.close()
        return store.threads

    assert asyncio.run(story()) == ["MainThread", "rota-writer"]


def test_a_store_behind_a_network_is_never_written_from_the_loop():
    async def story() -> list[str]:
        store = Watched()
        store.local = False
        writer = Writer(store)
        await writer.commit(Batch(jobs=[job(1)]))
        await writer.close()
        return store.threads

    assert asyncio.run(story()) == ["rota-writer"]


def test_a_slow_disk_moves_commits_to_the_thread_and_a_fast_one_back(monkeypatch):
    async def story() -> list[str]:
        store = Watched()
        writer = Writer(store)
        slow_s = 1.0
        times_s = iter([0.0, slow_s])
        monkeypatch.setattr(writer_module, "perf_counter", lambda: next(times_s))
        await writer.commit(Batch(jobs=[job(1)]))
        times_s = iter([0.0, 0.0] * 100)
        for number in range(2, 2 + writer_module.PROBE_EVERY):
            await writer.commit(Batch(jobs=[job(number)]))
        await writer.close()
        return store.threads

    threads = asyncio.run(story())

    probe = writer_module.PROBE_EVERY
    assert threads[0] == "MainThread"
    assert set(threads[1 : probe - 1]) == {"rota-writer"}
    assert set(threads[probe - 1 :]) == {"MainThread"}


def test_what_is_asked_while_the_thread_works_waits_its_turn():
    async def story() -> list[int]:
        store = Watched()
        store.gate.clear()
        writer = make_in_thread(store)
        first = asyncio.create_task(writer.commit(Batch(jobs=[job(1)])))
        await asyncio.sleep(0)
        writer._always_in_thread = False
        second = asyncio.create_task(writer.commit(Batch(jobs=[job(2)])))
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.gather(first, second)
        await writer.close()
        return store.order

    assert asyncio.run(story()) == [1, 2]


def test_a_caller_that_gives_up_does_not_undo_the_commit():
    async def story() -> None:
        store = Watched()
        store.gate.clear()
        writer = make_in_thread(store)
        waiting = asyncio.create_task(writer.commit(Batch(jobs=[job(1)])))
        await asyncio.sleep(0)

        waiting.cancel()
        store.gate.set()
        await writer.commit(Batch(jobs=[job(2)]))
        await writer.close()

        assert store.order == [1, 2]

    asyncio.run(story())


def test_closing_finishes_what_was_asked_and_refuses_more():
    async def story() -> None:
        store = Watched()
        writer = make_in_thread(store)
        asked = [
            asyncio.create_task(writer.commit(Batch(jobs=[job(number)]))) for number in (1, 2, 3)
        ]
        await asyncio.sleep(0)

        await writer.close()
        await asyncio.gather(*asked)

        assert store.order == [1, 2, 3]
        with pytest.raises(Unavailable, match="closing"):
            await writer.commit(Batch(jobs=[job(4)]))

    asyncio.run(story())


def test_the_store_tidies_up_at_once_when_much_has_piled_up():
    async def story() -> None:
        store = Watched()
        writer = Writer(store)
        store.backlog = writer_module.BACKLOG_MAX

        await writer.commit(Batch(jobs=[job(1)]))

        assert await asyncio.to_thread(store.tidied.wait, 10)
        await writer.close()

    asyncio.run(story())


def test_the_store_tidies_up_when_nobody_commits_for_a_moment(monkeypatch):
    monkeypatch.setattr(writer_module, "QUIET_S", 0.01)

    async def story() -> None:
        store = Watched()
        writer = Writer(store)
        store.backlog = 3

        await writer.commit(Batch(jobs=[job(1)]))

        assert await asyncio.to_thread(store.tidied.wait, 10)
        await writer.close()

    asyncio.run(story())
