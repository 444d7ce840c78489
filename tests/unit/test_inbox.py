"""What waits for the next tick: what an agent says may wait for a caller, and never for long."""

import asyncio
from collections.abc import Awaitable, Callable

from rota.controller.commands.commands import SetQuotaProvider
from rota.controller.engine import Asked, FromLink, Item
from rota.controller.inbox import COMPANY_S, HEARD_FIRST, Inbox
from rota.core.facts.tenant import Access, Actor

COMMAND = SetQuotaProvider(actor=Actor("ann", Access.ADMIN, "local"))
REPORT = FromLink(1, None)


class Desk:
    """An inbox with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.inbox = Inbox(10, lambda: self.now_s)

    async def call(self, after_s: float = COMPANY_S / 2) -> list[Item]:
        """A caller comes, and the tick takes what is there."""
        self.now_s += after_s
        asking = asyncio.ensure_future(self.inbox.ask(COMMAND))
        await asyncio.sleep(0)  # It puts its command in.
        items = await self.inbox.drain()
        for item in items:
            if isinstance(item, Asked):
                self.inbox.reply(item.ticket, "done")
        await asking
        return items

    def hear(self) -> bool:
        """Whether what an agent says wakes the loop."""
        self.inbox.hear(REPORT)
        return self.inbox.wake.is_set()


def told(story: Callable[[Desk], Awaitable[object]]) -> object:
    async def tell() -> object:
        return await story(Desk())

    return asyncio.run(tell())


def test_what_an_agent_says_within_a_stream_of_callers_shares_the_tick_of_the_next():
    async def story(desk: Desk) -> tuple[bool, list[type]]:
        await desk.call()
        await desk.call()

        woken = desk.hear()

        return woken, [type(item) for item in await desk.call()]

    assert told(story) == (False, [FromLink, Asked])


def test_what_an_agent_says_is_taken_when_the_next_caller_does_not_come():
    async def story(desk: Desk) -> list[Item]:
        await desk.call()
        await desk.call()

        desk.hear()

        return await asyncio.wait_for(desk.inbox.drain(), 10)

    assert told(story) == [REPORT]


def test_what_an_agent_says_alone_or_after_a_single_caller_waits_for_nobody():
    async def story(desk: Desk) -> tuple[bool, bool]:
        alone = desk.hear()
        await desk.call(1)

        return alone, desk.hear()

    assert told(story) == (True, True)


def test_what_an_agent_says_after_a_stream_has_ended_waits_for_nobody():
    async def story(desk: Desk) -> bool:
        await desk.call()
        await desk.call()

        desk.now_s += 2 * COMPANY_S

        return desk.hear()

    assert told(story) is True


def test_a_few_callers_have_gone_on_before_anything_else_is_done():
    async def story(desk: Desk) -> list[str]:
        done: list[str] = []

        async def call() -> None:
            await desk.inbox.ask(COMMAND)
            done.append("heard")
            asyncio.get_running_loop().call_soon(done.append, "written")

        callers = [asyncio.ensure_future(call()) for _ in range(HEARD_FIRST)]
        await asyncio.sleep(0)
        items = await desk.inbox.drain()
        await desk.inbox.answer([(item.ticket, 1) for item in items if isinstance(item, Asked)])
        done.append("next")
        await asyncio.gather(*callers)
        return done

    assert told(story) == [*["heard"] * HEARD_FIRST, *["written"] * HEARD_FIRST, "next"]


def test_many_callers_hold_up_nobody():
    async def story(desk: Desk) -> bool:
        callers = [asyncio.ensure_future(desk.inbox.ask(COMMAND)) for _ in range(HEARD_FIRST + 1)]
        await asyncio.sleep(0)
        items = await desk.inbox.drain()
        await desk.inbox.answer([(item.ticket, 1) for item in items if isinstance(item, Asked)])
        waiting = not any(caller.done() for caller in callers)
        await asyncio.gather(*callers)
        return waiting

    assert told(story) is True
