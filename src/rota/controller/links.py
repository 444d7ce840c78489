"""Connections of agents: how a message reaches one, and how a question to one gets its answer."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from rota.core.errors import Unavailable
from rota.rpc.messages import (
    CheckpointAnswer,
    CloseTerminal,
    ControllerMessage,
    LogPart,
    OpenTerminal,
    ReadBundle,
    ReadLog,
    TerminalInput,
    TerminalOutput,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.bundles import BundleShelf
    from rota.rpc.messages import AgentMessage

#: An agent that does not answer a question in this time is treated as absent.
ANSWER_S = 10.0


class Link:
    """One open connection; ``outbox`` is drained by whoever owns the socket, None ends it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        #: How a message goes out; the owner of the socket may know a shorter way.
        self.write: Callable[[bytes], None] = self.outbox.put_nowait


class TerminalLine:
    """One viewer at one terminal: what it shows, piece by piece, and what is typed."""

    def __init__(self, links: Links, link: int, request: int) -> None:
        self._links = links
        self.link = link
        self.request = request
        self.output: asyncio.Queue[TerminalOutput] = asyncio.Queue()

    def type(self, body: bytes = b"", *, rows: int = 0, columns: int = 0, taken: int = 0) -> None:
        said = TerminalInput(self.request, body, rows, columns, taken)
        self._links.send(self.link, said)

    def close(self) -> None:
        self._links.leave_terminal(self)


class Links:
    """All open connections."""

    def __init__(self, put: Callable[[int, AgentMessage | None], None]) -> None:
        self._put = put
        self._numbers = itertools.count(1)
        self._links: dict[int, Link] = {}
        self._questions: dict[int, asyncio.Future[Any]] = {}
        #: Who has the working folders that agents fetch.
        self.bundles: BundleShelf | None = None
        self._terminals: dict[int, TerminalLine] = {}

    def open(self) -> Link:
        link = Link(next(self._numbers))
        self._links[link.number] = link
        return link

    def heard(self, link: Link, message: AgentMessage) -> None:
        """Answers go to who asked; everything else concerns the state and goes to the inbox."""
        if isinstance(message, LogPart | CheckpointAnswer):
            question = self._questions.pop(message.request, None)
            if question is not None and not question.done():
                question.set_result(message)
            return
        if isinstance(message, ReadBundle):
            if self.bundles is not None:
                self.send(link.number, self.bundles.read(message))
            return
        if isinstance(message, TerminalOutput):
            line = self._terminals.get(message.request)
            if line is not None:
                line.output.put_nowait(message)
            return
        self._put(link.number, message)

    def closed(self, link: Link) -> None:
        for line in self._terminals.values():
            if line.link == link.number:
                gone = "the node's agent is gone; attach again when it is back"
                line.output.put_nowait(TerminalOutput(line.request, over=True, error=gone))
        if self._links.pop(link.number, None) is not None:
            self._put(link.number, None)

    def send(self, number: int, message: ControllerMessage) -> None:
        link = self._links.get(number)
        if link is not None:
            link.write(encode(message))

    def hang_up(self, number: int) -> None:
        link = self._links.get(number)
        if link is not None:
            link.outbox.put_nowait(None)

    def hang_up_all(self) -> None:
        for number in list(self._links):
            self.hang_up(number)

    def open_terminal(self, number: int, uid: str) -> TerminalLine:
        """Attach to the terminal of an attempt; the last piece of output says why it ended."""
        if number not in self._links:
            raise Unavailable("the node's agent is not connected")
        line = TerminalLine(self, number, next(self._numbers))
        self._terminals[line.request] = line
        self.send(number, OpenTerminal(line.request, uid))
        return line

    def leave_terminal(self, line: TerminalLine) -> None:
        if self._terminals.pop(line.request, None) is not None:
            self.send(line.link, CloseTerminal(line.request))

    async def read_log(
        self,
        number: int,
        *,
        uid: str,
        stream: str,
        offset: int,
        limit: int,
        lines: int = 0,
        path: str = "",
        user: str = "",
    ) -> LogPart:
        """Ask an agent for a piece of a log."""
        if number not in self._links:
            raise Unavailable("the node's agent is not connected, its logs cannot be read now")
        part: LogPart = await self.ask(
            number,
            lambda request: ReadLog(request, uid, stream, offset, limit, lines, path, user),
        )
        return part

    async def ask(
        self,
        number: int,
        message: Callable[[int], ControllerMessage],
        answer_s: float = ANSWER_S,
    ) -> Any:  # noqa: ANN401 - each has its own answer
        """Ask an agent something, under a number that its answer carries."""
        request = next(self._numbers)
        question: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[request] = question
        self.send(number, message(request))
        try:
            async with asyncio.timeout(answer_s):
                return await question
        except TimeoutError:
            raise Unavailable("the node's agent did not answer in time") from None
        finally:
            self._questions.pop(request, None)
