"""Who waits for news hears all of it."""

import asyncio

from rota.controller.watch import Watch
from rota.core.changes.events import JobSettled, Recorded
from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState


def settled(job: int) -> Recorded:
    outcome = Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)
    return Recorded(1, 1.0, "agent", JobSettled(job=job, outcome=outcome))


def test_an_end_between_the_call_and_the_await_is_not_missed():
    async def story() -> bool:
        watch = Watch()
        waiting = asyncio.ensure_future(watch.settled([7], timeout_s=600))
        watch.publish([settled(7)])
        # Guards against hanging only; whoever missed it would wait for ten minutes.
        async with asyncio.timeout(60):
            await waiting
        return waiting.done()

    assert asyncio.run(story())
