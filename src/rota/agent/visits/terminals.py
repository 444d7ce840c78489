"""Those who are attached to terminals on this node: bytes between the wire and the sockets."""

from __future__ import annotations

import asyncio
import os
import struct
from typing import TYPE_CHECKING, cast

from rota.agent.attempts.launch import terminal_path
from rota.rpc.visits import CloseTerminal, OpenTerminal, TerminalInput, TerminalOutput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: So much output may be on its way to a viewer; a terminal that prints faster shows less of it.
WINDOW_BYTES = 128 * 1024
#: More than this is not kept for a program that does not read what is typed.
UNTAKEN_BYTES_MAX = 4 * 1024 * 1024


class Attached(asyncio.Protocol):
    """One viewer's connection to one terminal."""

    def __init__(self, request: int, send: Callable[[TerminalOutput], object]) -> None:
        self._request = request
        self._send = send
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._window = WINDOW_BYTES
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if not self.open:
            self._transport.close()
            return
        for frame in self._early:
            self._transport.write(frame)
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
            self._early.append(frame)
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

    def __init__(self, folder: Path, send: Callable[[TerminalOutput], object]) -> None:
        self._scripts = str(folder / "scripts")
        self._send = send
        self._attached: dict[int, Attached] = {}
        self._dialling: set[asyncio.Task[None]] = set()

    def take(self, message: OpenTerminal | TerminalInput | CloseTerminal) -> None:
        if isinstance(message, OpenTerminal):
            attached = Attached(message.request, self._told)
            self._attached[message.request] = attached
            task = asyncio.get_running_loop().create_task(self._dial(message.uid, attached))
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

    async def _dial(self, uid: str, attached: Attached) -> None:
        # By way of a descriptor: the folder's own path may be longer than a socket's may be.
        path = terminal_path(self._scripts, os.path.basename(uid))
        try:
            fd = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
            try:
                name = f"/proc/self/fd/{fd}/{os.path.basename(path)}"
                loop = asyncio.get_running_loop()
                await loop.create_unix_connection(lambda: attached, name)
            finally:
                os.close(fd)
        except (FileNotFoundError, ConnectionRefusedError):
            attached.end("it has no terminal (any more)")
        except OSError as error:
            attached.end(f"cannot reach its terminal: {error.strerror}")

    def close(self) -> None:
        """The controller has gone: so has everybody who came by way of it."""
        for attached in self._attached.values():
            attached.close()
        self._attached.clear()
