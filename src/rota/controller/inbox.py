"""What waits for the next tick, and who waits for the answers."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from rota.controller.commands.commands import Submit
from rota.controller.engine import Asked
from rota.core.facts.errors import Busy, RotaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.controller.commands.commands import Command
    from rota.controller.engine import Item


class Inbox:
    """Messages in the order in which they came. ``wake`` is set whenever there is something."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.wake = asyncio.Event()
        self._items: deque[Item] = deque()
        self._load = 0
        self._tickets = itertools.count(1)
        self._callers: dict[int, asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def put(self, items: Iterable[Item]) -> None:
        """Never refused: an agent cannot say it to anybody else."""
        self._items.extend(items)
        self.wake.set()

    async def ask(self, command: Command) -> Any:  # noqa: ANN401 - each has its own answer
        """Put a command in and await its answer."""
        weight = len(command.submissions) if isinstance(command, Submit) else 1
        if self._items and self._load + weight > self.size:
            raise Busy(
                f"the inbox is full ({self.size} requests wait); nothing was changed, try "
                "again shortly"
            )
        ticket = next(self._tickets)
        caller: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._callers[ticket] = caller
        self._load += weight
        self.put((Asked(ticket, command),))
        answer = await caller
        if isinstance(answer, RotaError):
            raise answer
        return answer

    def reply(self, ticket: int, answer: object) -> None:
        caller = self._callers.pop(ticket, None)
        if caller is not None and not caller.done():
            caller.set_result(answer)

    async def drain(self) -> list[Item]:
        """Everything that is there, once something is, or once somebody rings."""
        await self.wake.wait()
        self.wake.clear()
        items = list(self._items)
        self._items.clear()
        self._load = 0
        return items
