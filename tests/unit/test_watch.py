"""Who waits for news hears all of it."""

import asyncio

import pytest

from rota.controller.watch import NewsWatch
from rota.core.changes.events import JobSettled, Recorded
from rota.core.changes.node_events import NodeLost, NodesVanished
from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState


def test_nodes_that_are_gone_are_told_in_the_log(caplog: pytest.LogCaptureFixture):
    vanished = NodesVanished(nodes=("n1", "n2"), note="2 of 3 nodes fell silent together")
    back = NodesVanished(nodes=(), note="the last of them is back or given up")
    lost = NodeLost(node="n1", note="lost: silent for 9s, longer than its lease of 6s")

    NewsWatch().publish([Recorded(1, 1.0, "rota", event) for event in (vanished, lost, back)])

    assert caplog.messages == [
        "2 of 3 nodes fell silent together: n1, n2",
        "node n1 is lost: silent for 9s, longer than its lease of 6s",
        "the last of them is back or given up",
    ]


def settled(job: int) -> Recorded:
    outcome = Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)
    return Recorded(1, 1.0, "agent", JobSettled(job=job, outcome=outcome))


def test_an_end_between_the_call_and_the_await_is_not_missed():
    async def story() -> bool:
        watch = NewsWatch()
        waiting = asyncio.ensure_future(watch.settled([7], timeout_s=600))
        watch.publish([settled(7)])
        # Guards against hanging only; whoever missed it would wait for ten minutes.
        async with asyncio.timeout(60):
            await waiting
        return waiting.done()

    assert asyncio.run(story())
