"""A controller that checks itself drops a tick that breaks a promise: nothing of it happened."""

import asyncio

import pytest

from rota.controller.commands.commands import Submission, Submit
from rota.controller.loop import Host
from rota.core.facts.errors import Unavailable
from rota.core.facts.job import JobSpec
from rota.store.memory import MemoryStore
from rota.store.writer import InlineWriter
from rota.testing.scene import ALICE

ONE_JOB = Submit(
    actor=ALICE, submissions=(Submission(spec=JobSpec(name="x", user="alice", command=("true",))),)
)


def test_a_tick_on_a_broken_state_is_refused_and_the_state_rebuilt():
    async def story() -> tuple[str, int]:
        store = MemoryStore()
        host = Host(store, InlineWriter(store), checked=True)
        running = asyncio.create_task(host.run())
        first = await host.ask(ONE_JOB)
        host.cluster.live.where["nobody"] = (99, 0)

        with pytest.raises(Unavailable) as refused:
            await host.ask(ONE_JOB)
        again = await host.ask(ONE_JOB)

        host.stop()
        await running
        return str(refused.value), again.ids[0] - first.ids[0]

    words, step = asyncio.run(story())

    assert "nothing was changed" in words
    assert step == 1, "the refused submit took no id"
