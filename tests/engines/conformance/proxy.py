"""Small proxies: before the HTTP interface of an engine, and between a node and its controller.

Each has a loop of its own in a thread. A fault holds until the test lifts it.
"""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from websockets.utils import apply_mask

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
BAD_GATEWAY = (
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n"
    b"Connection: close\r\n\r\nit fell\n"
)
_LENGTH = re.compile(rb"(?im)^content-length: *(\d+)\r$")
_KEPT = re.compile(rb"(?im)^connection: [^\r]*\r\n")


class Relay:
    """Takes connections on a port of its own for a target; ``cut`` ends all, ``back`` begins."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lines: set[Writer] = set()
        self._near: ssl.SSLContext | None = None
        self._far: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self.port = 0
        self.fault = ""
        self._lifted = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(20)

    def begin(self) -> int:
        """Take connections (again), on the same port as before."""
        self.do(self._begin())
        return self.port

    async def _begin(self) -> None:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self._near
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def end(self) -> None:
        """Nobody listens any more, and what was said is cut off."""
        self.do(self._end())

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        for line in [*self._lines]:
            line.transport.abort()

    def set(self, fault: str) -> None:
        """Empty: none; what was held back by the one before goes on."""
        self.do(self._set(fault))

    async def _set(self, fault: str) -> None:
        self.fault = fault
        self._lifted.set()
        self._lifted = asyncio.Event()

    def close(self) -> None:
        self.end()
        self.do(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(2):  # What was aborted is closed in the rounds that follow.
            await asyncio.sleep(0)

    def _accept(self, reader: Reader, writer: Writer) -> None:
        """A connection is known from its first moment: it may be cut before anything is said."""
        self._lines.add(writer)
        task = self._loop.create_task(self._serve(reader, writer))
        task.add_done_callback(lambda _: self._drop(writer))

    def _drop(self, line: Writer) -> None:
        self._lines.discard(line)
        line.transport.abort()

    async def _serve(self, reader: Reader, writer: Writer) -> None:
        with suppress(OSError, EOFError, asyncio.LimitOverrunError):
            await self.talk(reader, writer)

    async def dial(self) -> tuple[Reader, Writer]:
        return await asyncio.open_connection(*self._target, ssl=self._far, limit=1 << 20)

    async def talk(self, reader: Reader, writer: Writer) -> None:
        raise NotImplementedError


async def _pump(source: Reader, sink: Writer) -> None:
    while part := await source.read(65536):
        sink.write(part)
        await sink.drain()


class HttpProxy(Relay):
    """Before an engine. Its faults are about submits alone.

    ====== ======================================================================
    late   it happens at once, and is answered when the fault is lifted
    error  it happens, and is answered by a gateway that fell
    silent it happens, and the line is cut instead of an answer
    twice  it is handed on twice, as a gateway does that tries again
    refuse it does not happen, and the line is cut
    ====== ======================================================================
    """

    def __init__(
        self,
        host: str,
        port: int,
        submits: str,
        near: ssl.SSLContext | None = None,
        far: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(host, port)
        self._submits = re.compile(submits)
        self._near, self._far = near, far

    async def talk(self, reader: Reader, writer: Writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        request = _KEPT.sub(b"", head)[:-2] + b"Connection: close\r\n\r\n" + body
        upgraded = b"\nupgrade: " in head.lower()
        if upgraded:
            request = head
        line = head.split(b"\r\n", 1)[0].decode()
        if self.fault and self._submits.search(line):
            await self._fail(request, writer)
            return
        far_reader, far_writer = await self.dial()
        self._lines.add(far_writer)
        try:
            far_writer.write(request)
            up = asyncio.create_task(_pump(reader, far_writer)) if upgraded else None
            await _pump(far_reader, writer)
            if up is not None:
                up.cancel()
        finally:
            self._lines.discard(far_writer)
            far_writer.transport.abort()
        writer.close()
        await writer.wait_closed()

    async def _fail(self, request: bytes, writer: Writer) -> None:
        fault, lifted = self.fault, self._lifted
        if fault == "refuse":
            return
        answer = await self._ask(request)
        if fault == "twice":
            answer = await self._ask(request)
        if fault == "late":
            await lifted.wait()
        if fault != "silent":
            writer.write(BAD_GATEWAY if fault == "error" else answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await self.dial()
        try:
            writer.write(request)
            return await reader.read(-1)
        finally:
            writer.transport.abort()


class SessionProxy(Relay):
    """Between nodes and their controller, message by message.

    ========= ===================================================================
    repeat    what the controller wants is told twice
    gap       the next thing that the controller wants gets lost
    again     what nodes report is told twice
    late      what nodes report arrives when the fault is lifted
    cut       the line breaks instead of the next report
    unheard   the next report gets lost
    ========= ===================================================================
    """

    async def talk(self, reader: Reader, writer: Writer) -> None:
        far_reader, far_writer = await self.dial()
        self._lines.add(far_writer)
        try:
            far_writer.write(await reader.readuntil(b"\r\n\r\n"))
            writer.write(await far_reader.readuntil(b"\r\n\r\n"))
            down = asyncio.create_task(self._carry(far_reader, writer, "desired"))
            up = asyncio.create_task(self._carry(reader, far_writer, "observed"))
            await asyncio.wait((down, up), return_when=asyncio.FIRST_COMPLETED)
            for task in (down, up):
                task.cancel()
            await asyncio.gather(down, up, return_exceptions=True)
        finally:
            self._lines.discard(far_writer)
            far_writer.transport.abort()

    async def _carry(self, source: Reader, sink: Writer, kind: str) -> None:
        with suppress(OSError, EOFError):
            while True:
                frame, message = await _frame(source)
                if self.fault and message.get("type") == kind:
                    frame = await self._failing(frame, kind)
                    if frame is None:
                        return
                sink.write(frame)
                await sink.drain()

    async def _failing(self, frame: bytes, kind: str) -> bytes | None:
        """What is sent instead; None: the line breaks."""
        fault = self.fault
        if kind == "desired":
            if fault == "gap":
                self.fault = ""
                return b""
            return 2 * frame if fault == "repeat" else frame
        if fault == "late":
            await self._lifted.wait()
        if fault in ("cut", "unheard"):
            self.fault = ""
            return None if fault == "cut" else b""
        return 2 * frame if fault == "again" else frame


async def _frame(source: Reader) -> tuple[bytes, dict[str, Any]]:
    """One frame as it is, and the message that it carries; nothing: a ping, or a part of one."""
    head = await source.readexactly(2)
    length = head[1] & 0x7F
    if length > 125:
        more = await source.readexactly(2 if length == 126 else 8)
        head, length = head + more, int.from_bytes(more, "big")
    mask = await source.readexactly(4) if head[1] & 0x80 else b""
    body = await source.readexactly(length)
    message: Any = {}
    if head[0] == 0x82:
        message = msgspec.msgpack.decode(apply_mask(body, mask) if mask else body)
    return head + mask + body, message if isinstance(message, dict) else {}
