"""A chore comes again, whatever one round of it met."""

import asyncio

import pytest

from rota.controller.chores.rounds import rounds
from rota.core.facts.errors import Unavailable


@pytest.mark.parametrize("trouble", [Unavailable("the database is away"), KeyError("a bug")])
def test_a_round_that_breaks_is_put_off_and_comes_again(trouble, caplog):
    async def story() -> int:
        begun, again = 0, asyncio.Event()

        async def work() -> None:
            nonlocal begun
            begun += 1
            if begun == 1:
                raise trouble
            again.set()

        chore = asyncio.create_task(rounds("forget old jobs", work, again_s=0.001))
        async with asyncio.timeout(20):
            await again.wait()
        chore.cancel()
        return begun

    assert asyncio.run(story()) == 2
    assert "put off for 0.001 s" in caplog.text
    assert "forget old jobs" in caplog.text


def test_a_chore_that_is_cancelled_ends():
    async def story() -> bool:
        chore = asyncio.create_task(rounds("wait", asyncio.Event().wait))
        await asyncio.sleep(0)
        chore.cancel()
        await asyncio.gather(chore, return_exceptions=True)
        return chore.cancelled()

    assert asyncio.run(story())
