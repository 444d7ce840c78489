"""Visitors that are attached to terminals on this node: bytes between the wire and the sockets."""

from __future__ import annotations

import asyncio
import os
import secrets
import struct
import time
from typing import TYPE_CHECKING, cast

import msgspec

from rota.agent.attempts.launch import terminal_path
from rota.keeper.terminal import VISIT
from rota.rpc.visits import CloseTerminal, OpenTerminal, TerminalInput, TerminalOutput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The most output on its way to a viewer; a terminal that prints faster shows less of it.
WINDOW_BYTES = 128 * 1024
#: More than this is not kept for a program that does not read what is typed.
UNTAKEN_BYTES_MAX = 4 * 1024 * 1024
#: So long the keeper has to start a program beside an attempt; looked for so often.
VISIT_S, VISIT_LOOK_S = 10.0, 0.01


class Attached(asyncio.Protocol):
    """One viewer's connection to one terminal."""

    def __init__(self, request: int, send: Callable[[TerminalOutput], object]) -> None:
        self._request = request
        self._send = send
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()
        self._window = WINDOW_BYTES
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if not self.open:
            self._transport.close()
            return
        if self._early:
            self._transport.write(bytes(self._early))
            self._early.clear()

    def data_received(self, data: bytes) -> None:
        self._send(TerminalOutput(self._request, data))
        self._window -= len(data)
        if self._window <= 0 and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.end("")

    def end(self, problem: str) -> None:
        """Tell the viewer, once, that there will be no more."""
        if self.open:
            self.open = False
            self._send(TerminalOutput(self._request, over=True, error=problem))

    def take(self, message: TerminalInput) -> None:
        """What the viewer typed, did to its window, or has seen."""
        if message.body:
            self._frame(b"i", message.body)
        if message.rows and message.columns:
            size = struct.pack(">HH", min(message.rows, 9999), min(message.columns, 9999))
            self._frame(b"w", size)
        if message.taken:
            self._window += message.taken
            if self._window > 0 and self._transport is not None:
                self._transport.resume_reading()

    def _frame(self, kind: bytes, body: bytes) -> None:
        frame = kind + len(body).to_bytes(4, "big") + body
        if self._transport is None:
            self._early += frame
            if len(self._early) > UNTAKEN_BYTES_MAX:
                self._early.clear()
                self.end("its terminal takes long to begin, and too much was typed meanwhile")
        elif self._transport.get_write_buffer_size() > UNTAKEN_BYTES_MAX:
            self.end("the job does not read what is typed to it")
            self._transport.abort()
        elif not self._transport.is_closing():
            self._transport.write(frame)

    def close(self) -> None:
        """The viewer has gone; nobody needs to be told."""
        self.open = False
        if self._transport is not None:
            self._transport.close()


class Terminals:
    """Everybody who is attached by way of one connection to the controller."""

    def __init__(
        self,
        folder: Path,
        send: Callable[[TerminalOutput], object],
        tell_keeper: Callable[[bytes], None],
    ) -> None:
        self._scripts = str(folder / "scripts")
        self._send = send
        self._tell_keeper = tell_keeper
        self._attached: dict[int, Attached] = {}
        self._dialling: set[asyncio.Task[None]] = set()

    def take(self, message: OpenTerminal | TerminalInput | CloseTerminal) -> None:
        if isinstance(message, OpenTerminal):
            attached = Attached(message.request, self._told)
            self._attached[message.request] = attached
            task = asyncio.get_running_loop().create_task(self._enter(message, attached))
            self._dialling.add(task)
            task.add_done_callback(self._dialling.discard)
            return
        known = self._attached.get(message.request)
        if known is None:
            return
        if isinstance(message, TerminalInput):
            known.take(message)
        else:
            del self._attached[message.request]
            known.close()

    def _told(self, output: TerminalOutput) -> None:
        if output.over:
            self._attached.pop(output.request, None)
        self._send(output)

    async def _enter(self, message: OpenTerminal, attached: Attached) -> None:
        uid = os.path.basename(message.uid)
        try:
            if message.argv:
                await self._visit(message, uid, attached)
            else:
                await self._dial(terminal_path(self._scripts, uid), attached)
        except (FileNotFoundError, ConnectionRefusedError):
            attached.end("it has no terminal (any more)")
        except OSError as error:
            attached.end(f"cannot reach its terminal: {error.strerror}")

    async def _visit(self, message: OpenTerminal, uid: str, attached: Attached) -> None:
        """A terminal of its own beside the attempt; it begins when we have come."""
        path = f"{self._scripts}/{uid}.{secrets.token_hex(4)}{VISIT.decode()}"
        order = {"op": "beside", "uid": uid, "user": message.user or None, "terminal": path}
        self._tell_keeper(msgspec.json.encode(order | {"argv": message.argv}))
        until_s = time.monotonic() + VISIT_S
        while True:
            try:
                await self._dial(path, attached)
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > until_s:
                    attached.end("nothing could be started in it; the keeper's log says why")
                    return
                await asyncio.sleep(VISIT_LOOK_S)
            else:
                os.unlink(path)
                return

    async def _dial(self, path: str, attached: Attached) -> None:
        # By way of a descriptor: the folder's own path may be longer than a socket's may be.
        fd = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
        try:
            name = f"/proc/self/fd/{fd}/{os.path.basename(path)}"
            await asyncio.get_running_loop().create_unix_connection(lambda: attached, name)
        finally:
            os.close(fd)

    def close(self) -> None:
        """The controller has gone: so has everybody who came by way of it."""
        for attached in self._attached.values():
            attached.close()
        self._attached.clear()
