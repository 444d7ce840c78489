"""What people want of attempts on an engine: their logs, programs beside them, their ports.

As on a node with an agent of ours, over one node's connection to the controller. The driver gives a
``ByteStream`` into the job; a bounded number of bytes is on its way to a visitor.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from rota.backends.api import EngineError, EnginePhase, EngineRefused, Feature
from rota.rpc.visits import (
    CloseTerminal,
    CloseTunnel,
    OpenTerminal,
    OpenTunnel,
    ReadLog,
    SearchLog,
    TerminalInput,
    TerminalOutput,
    TunnelInput,
    TunnelOutput,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rota.backends.api import ByteStream, Driver, EngineJob, Enterable
    from rota.backends.logs import EngineLogs
    from rota.rpc.messages import AgentMessage
    from rota.rpc.visits import Visit

WINDOW_BYTES = 256 * 1024
#: More than this is not kept for a program that does not read what is typed.
UNTAKEN_BYTES_MAX = 4 * 1024 * 1024

log = logging.getLogger("rota.engine")


class Visitor:
    """One visitor, from the opening of its way to the end of it."""

    def __init__(
        self,
        request: int,
        output: type[TerminalOutput | TunnelOutput],
        send: Callable[[AgentMessage], None],
    ) -> None:
        self._request, self._output, self._send = request, output, send
        self._typed: asyncio.Queue[TerminalInput | TunnelInput] = asyncio.Queue()
        self._untaken = 0
        self._window = WINDOW_BYTES
        self._room = asyncio.Event()
        self._unread = asyncio.Event()

    def take(self, message: TerminalInput | TunnelInput) -> None:
        """What the visitor typed, did to its window, or has seen."""
        self._window += message.taken
        if self._window > 0:
            self._room.set()
        self._untaken += len(message.body)
        if self._untaken > UNTAKEN_BYTES_MAX:
            self._unread.set()
        self._typed.put_nowait(message)

    async def run(self, opening: Coroutine[None, None, ByteStream]) -> None:
        problem = ""
        try:
            way = await opening
            try:
                await self._talk(way)
            finally:
                await way.close()
        except EngineError as error:
            problem = str(error)
        self._send(self._output(self._request, over=True, error=problem))

    async def _talk(self, way: ByteStream) -> None:
        """In both directions; it is over when one of them is."""
        parts = (self._hand_out(way), self._hand_in(way), self._until_unread())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hand_out(self, way: ByteStream) -> None:
        while body := await way.read():
            self._send(self._output(self._request, body))
            self._window -= len(body)
            if self._window <= 0:
                self._room.clear()
                await self._room.wait()

    async def _hand_in(self, way: ByteStream) -> None:
        while True:
            message = await self._typed.get()
            if message.body:
                await way.write(message.body)
                self._untaken -= len(message.body)
            if isinstance(message, TunnelInput):
                if message.body:
                    self._send(TunnelOutput(self._request, taken=len(message.body)))
                if message.end:
                    await way.end()
            elif message.rows and message.columns:
                await way.resize(message.rows, message.columns)

    async def _until_unread(self) -> None:
        await self._unread.wait()
        raise EngineRefused("the job does not read what is typed to it")


class EngineVisits:
    """All visits over the connection of one node; ``shown`` is what is known of an attempt."""

    def __init__(
        self,
        driver: Driver,
        logs: EngineLogs,
        shown: Callable[[str], EngineJob | None],
        send: Callable[[AgentMessage], None],
    ) -> None:
        self._driver, self._logs, self._shown, self._send = driver, logs, shown, send
        self._lines: dict[int, tuple[Visitor, asyncio.Task[None]]] = {}
        self._errands: set[asyncio.Task[None]] = set()

    def take(self, message: Visit) -> None:
        if isinstance(message, ReadLog | SearchLog):
            task = asyncio.create_task(self._read(message))
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)
        elif isinstance(message, OpenTerminal):
            self._open(Visitor(message.request, TerminalOutput, self._send), message)
        elif isinstance(message, OpenTunnel):
            self._open(Visitor(message.request, TunnelOutput, self._send), message)
        elif isinstance(message, TerminalInput | TunnelInput):
            if (known := self._lines.get(message.request)) is not None:
                known[0].take(message)
        elif isinstance(message, CloseTerminal | CloseTunnel):
            if (known := self._lines.get(message.request)) is not None:
                known[1].cancel()
        else:
            log.warning("an engine has no %s", type(message).__name__)

    async def _read(self, request: ReadLog | SearchLog) -> None:
        self._send(await self._logs.answer(self._shown(request.uid), request))

    def _open(self, line: Visitor, message: OpenTerminal | OpenTunnel) -> None:
        task = asyncio.create_task(line.run(self._way(message)))
        self._lines[message.request] = line, task
        task.add_done_callback(lambda _: self._lines.pop(message.request, None))

    async def _way(self, message: OpenTerminal | OpenTunnel) -> ByteStream:
        if Feature.VISITS not in self._driver.features:
            raise EngineRefused("this engine lets nobody into running jobs")
        job = self._shown(message.uid)
        if job is None or job.phase is not EnginePhase.RUNNING:
            raise EngineRefused("the job does not run on this engine (any more)")
        able = cast("Enterable", self._driver)
        if isinstance(message, OpenTunnel):
            return await able.reach(job, message.port)
        if not message.argv:
            raise EngineRefused("jobs on this engine have no terminals")
        return await able.enter(job, message.argv)

    def hung_up(self) -> None:
        """The controller has gone: so has everybody who came by way of it."""
        for _, task in self._lines.values():
            task.cancel()
        for task in self._errands:
            task.cancel()
