"""A controller that checks itself drops a tick that breaks a promise, and does it over."""

import asyncio

from rota.controller.commands.commands import Submission, Submit
from rota.controller.loop import Host
from rota.core.facts.job import JobSpec
from rota.store.memory import MemoryStore
from rota.store.writer import InlineWriter
from rota.testing.scene import ALICE

ONE_JOB = Submit(
    actor=ALICE, submissions=(Submission(spec=JobSpec(name="x", user="alice", command=("true",))),)
)


def test_a_tick_on_a_broken_state_is_done_over_on_one_that_was_read_back():
    async def story() -> tuple[int, bool, int]:
        store = MemoryStore()
        host = Host(store, InlineWriter(store), checked=True)
        running = asyncio.create_task(host.run())
        first = await host.ask(ONE_JOB)
        host.cluster.live.where["nobody"] = (99, 0)

        again = await host.ask(ONE_JOB)

        host.stop()
        await running
        mended = "nobody" not in host.cluster.live.where
        return again.ids[0] - first.ids[0], mended, len(store.load().jobs)

    step, mended, on_disk = asyncio.run(story())

    assert step == 1, "the tick that was dropped took no id"
    assert mended
    assert on_disk == 2
