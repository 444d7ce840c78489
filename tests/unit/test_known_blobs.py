"""A submit need not bring what is on disk, and what it does not bring is there when it starts."""

import asyncio
import hashlib

from rota.controller.blobs import Blobs
from rota.controller.chores.retention import drop_unused_blobs, prune_once
from rota.controller.clock import Clock
from rota.controller.commands.commands import Cancel, Submission, Submit
from rota.controller.loop import Host
from rota.core.changes.events import BlobStored, Recorded
from rota.core.facts.job import JobSpec
from rota.store.api import Batch
from rota.store.memory import MemoryStore
from rota.store.unused import REUSE_S
from rota.store.writer import InlineWriter
from rota.testing.scene import ALICE

DAY_S = 86_400.0
BODY = b"COLOUR=red"
DIGEST = hashlib.sha256(BODY).hexdigest()


class Calendar(Clock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.later_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.later_s


def submission(host: Host) -> Submit:
    """As the door makes it: with the body, unless it is known to be on disk."""
    blobs = {} if DIGEST in host.blobs else {DIGEST: BODY}
    spec = JobSpec(name="job", user="alice", command=("true",), stdin=DIGEST)
    return Submit(actor=ALICE, submissions=(Submission(spec=spec, blobs=blobs),))


async def forget(host: Host) -> int:
    before_s = host.clock.now_s() - DAY_S
    await prune_once(host, before_s)
    return await drop_unused_blobs(host, before_s)


def play(story) -> None:
    async def stage() -> None:
        store, clock = MemoryStore(), Calendar()
        host = Host(store, InlineWriter(store), clock=clock)
        ticking = asyncio.create_task(host.run())
        await story(host, store, clock)
        host.stop()
        await ticking

    asyncio.run(stage())


async def one_over(host: Host) -> None:
    taken = await host.ask(submission(host))
    await host.ask(Cancel(actor=ALICE, ids=taken.ids))


def test_an_environment_is_brought_once_a_day():
    async def story(host: Host, store: MemoryStore, clock: Calendar) -> None:
        await one_over(host)
        soon = submission(host)

        clock.later_s = REUSE_S
        later = submission(host)

        assert not soon.submissions[0].blobs
        assert later.submissions[0].blobs == {DIGEST: BODY}

    play(story)


def test_more_environments_than_are_kept_in_memory_are_known():
    blobs = Blobs(lambda: 0.0)
    digests = [str(number) for number in range(5000)]

    for digest in digests:
        stored = Recorded(1, 0.0, "alice", BlobStored(digest, b"x"))
        blobs.stored(Batch(events=[stored], blobs={digest: b"x"}))

    assert all(digest in blobs for digest in digests)
    assert blobs.get("0") is None


def test_a_submit_that_was_made_before_a_collection_and_committed_after_it_has_its_input():
    async def story(host: Host, store: MemoryStore, clock: Calendar) -> None:
        await one_over(host)
        clock.later_s = 30 * DAY_S
        made = submission(host)

        gone = await forget(host)
        await host.ask(made)

        assert gone == 1
        assert store.blob(DIGEST) == BODY

    play(story)


def test_a_submit_that_brings_nothing_finds_its_input_after_any_collection():
    async def story(host: Host, store: MemoryStore, clock: Calendar) -> None:
        await one_over(host)
        clock.later_s = REUSE_S - 60
        made = submission(host)

        clock.later_s = REUSE_S + 60
        gone = await forget(host)
        await host.ask(made)

        assert not made.submissions[0].blobs
        assert gone == 0
        assert store.blob(DIGEST) == BODY

    play(story)
