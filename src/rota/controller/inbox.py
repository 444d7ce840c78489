"""What waits for the next tick, and who waits for the answers.

A tick costs a commit, whatever it holds. So while callers come one close upon the other, what an
agent says waits a moment for the next of them. What comes alone waits for nobody.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

from rota.controller.commands.commands import Submit
from rota.controller.engine import Asked
from rota.core.facts.errors import Busy, RotaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.controller.commands.commands import Command
    from rota.controller.engine import Item

#: Callers within so long of each other are a stream, and an agent waits so long for the next one.
COMPANY_S = 0.005
#: Up to this number of callers hear first. In one turn of the loop their answers are made, in the
#: next one they are written.
HEARD_FIRST, TURNS_TO_HEAR = 4, 2


class Inbox:
    """Messages in the order in which they came. ``wake`` is set whenever there is something."""

    def __init__(self, size: int, clock: Callable[[], float] | None = None) -> None:
        """``clock``: by default that of the loop in which callers ask."""
        self.size = size
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self.wake = asyncio.Event()
        self._items: deque[Item] = deque()
        self._load = 0
        self._tickets = itertools.count(1)
        self._callers: dict[int, asyncio.Future[Any]] = {}
        #: When the last caller came, and until when another one is to be expected.
        self._asked_s, self._company_s = -inf, -inf
        #: Wakes for what waits for company.
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, items: Iterable[Item]) -> None:
        self._items.extend(items)
        self.wake.set()

    def hear(self, item: Item) -> None:
        """Of an agent. Never refused: it cannot say it to anybody else."""
        self._items.append(item)
        if self._loop is None or (wait_s := self._company_s - self._now_s(self._loop)) <= 0:
            self.wake.set()
        elif self._timer is None:
            self._timer = self._loop.call_later(wait_s, self.wake.set)

    def _now_s(self, loop: asyncio.AbstractEventLoop) -> float:
        return loop.time() if self._clock is None else self._clock()

    async def ask(self, command: Command) -> Any:  # noqa: ANN401 - each has its own answer
        """Put a command in and await its answer."""
        weight = len(command.submissions) if isinstance(command, Submit) else 1
        if self._items and self._load + weight > self.size:
            raise Busy(
                f"the inbox is full ({self.size} requests wait); nothing was changed, try "
                "again shortly"
            )
        ticket = next(self._tickets)
        loop = self._loop = asyncio.get_running_loop()
        caller: asyncio.Future[Any] = loop.create_future()
        self._callers[ticket] = caller
        self._load += weight
        now_s = self._now_s(loop)
        self._company_s = now_s + COMPANY_S if now_s - self._asked_s < COMPANY_S else -inf
        self._asked_s = now_s
        self.put((Asked(ticket, command),))
        answer = await caller
        if isinstance(answer, RotaError):
            raise answer
        return answer

    async def answer(self, answers: Sequence[tuple[int, object]]) -> None:
        """Answer the callers of a tick. A few hear at once: what they do next goes on beside what
        follows a commit. The answers of many take long, and agents must not wait for them.
        """
        for ticket, answer in answers:
            self.reply(ticket, answer)
        if 0 < len(answers) <= HEARD_FIRST:
            for _ in range(TURNS_TO_HEAR):
                await asyncio.sleep(0)

    def reply(self, ticket: int, answer: object) -> None:
        caller = self._callers.pop(ticket, None)
        if caller is not None and not caller.done():
            caller.set_result(answer)

    async def drain(self) -> list[Item]:
        """Everything that is there, once something is, or once somebody rings."""
        await self.wake.wait()
        self.wake.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        items = list(self._items)
        self._items.clear()
        self._load = 0
        return items
