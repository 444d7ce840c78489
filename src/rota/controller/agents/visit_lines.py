"""Lines to single attempts over an agent's connection: a viewer's terminal, a job's port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.rpc.visits import (
    CloseTerminal,
    CloseTunnel,
    TerminalInput,
    TerminalOutput,
    TunnelInput,
    TunnelOutput,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.rpc.messages import ControllerMessage

#: As much may be on its way to a port; the agent grants the same in the other direction.
WINDOW_BYTES = 256 * 1024
GONE = "the node's agent is gone; try again when it is back"
#: More than any agent sends before it hears that something was taken: one that does is not heard.
UNSEEN_BYTES_MAX = 16 * WINDOW_BYTES
FLOODS = "the node's agent sends more than was asked for"


class TerminalLine:
    """One viewer at one terminal: what it shows, piece by piece, and what is typed."""

    def __init__(self, link: int, request: int, send: Callable[[ControllerMessage], None]) -> None:
        self.link = link
        self.request = request
        self._send = send
        self._unseen_bytes = 0
        self.output: asyncio.Queue[TerminalOutput] = asyncio.Queue()

    def heard(self, message: TerminalOutput) -> None:
        if self._unseen_bytes > UNSEEN_BYTES_MAX:
            return
        self._unseen_bytes += len(message.body)
        if self._unseen_bytes > UNSEEN_BYTES_MAX:
            message = TerminalOutput(self.request, over=True, error=FLOODS)
        self.output.put_nowait(message)

    def cut(self) -> None:
        """The agent is gone."""
        gone = "the node's agent is gone; attach again when it is back"
        self.heard(TerminalOutput(self.request, over=True, error=gone))

    def type(self, body: bytes = b"", *, rows: int = 0, columns: int = 0) -> None:
        self._send(TerminalInput(self.request, body, rows, columns))

    def took(self, count: int) -> None:
        """This much of the output has been handed on."""
        self._unseen_bytes -= count
        self._send(TerminalInput(self.request, taken=count))

    def close(self) -> None:
        self._send(CloseTerminal(self.request))


class TunnelLine:
    """One connection to one port of a job. Who writes waits for room while it is full."""

    def __init__(self, link: int, request: int, send: Callable[[ControllerMessage], None]) -> None:
        self.link = link
        self.request = request
        self._send = send
        self._window = WINDOW_BYTES
        self._room = asyncio.Event()
        self._room.set()
        self._unseen_bytes = 0
        self.output: asyncio.Queue[TunnelOutput] = asyncio.Queue()

    def heard(self, message: TunnelOutput) -> None:
        if message.taken:
            self._window += message.taken
            if self._window > 0:
                self._room.set()
        if self._unseen_bytes > UNSEEN_BYTES_MAX:
            return
        self._unseen_bytes += len(message.body)
        if self._unseen_bytes > UNSEEN_BYTES_MAX:
            message = TunnelOutput(self.request, over=True, error=FLOODS)
        if message.body or message.end or message.over:
            self.output.put_nowait(message)

    def cut(self) -> None:
        """The agent is gone."""
        self._room.set()
        self.heard(TunnelOutput(self.request, over=True, error=GONE))

    @property
    def is_full(self) -> bool:
        return not self._room.is_set()

    async def room(self) -> None:
        """Wait until more may be written."""
        await self._room.wait()

    def write(self, body: bytes) -> None:
        self._window -= len(body)
        if self._window <= 0:
            self._room.clear()
        self._send(TunnelInput(self.request, body))

    def end(self) -> None:
        """No more will be written."""
        self._send(TunnelInput(self.request, end=True))

    def took(self, count: int) -> None:
        """This much of the output has been handed on."""
        self._unseen_bytes -= count
        self._send(TunnelInput(self.request, taken=count))

    def close(self) -> None:
        self._send(CloseTunnel(self.request))
