"""The agent's end of the keeper's socket: starts the keeper where there is none."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from rota.keeper.orders import PROTOCOL
from rota.session.instructions import AnyKeeperEvent, Began, Gone, KeeperAll

if TYPE_CHECKING:
    from collections.abc import Callable

KEEPER = Path(__file__).parents[1] / "keeper" / "keeper.py"
START_TIMEOUT_S = 20.0
#: Longer than the full list of any node.
LINE_BYTES_MAX = 1 << 28
EXIT = b'{"op":"exit"}'

log = logging.getLogger("rota.agent")
_decode = msgspec.json.Decoder(AnyKeeperEvent).decode


class KeeperFailed(Exception):
    """The keeper could not be started; the text says why in one line."""


class KeeperLink(asyncio.Protocol):
    """One connection. Events that arrive together are handed over together."""

    def __init__(
        self,
        on_all: Callable[[KeeperLink, KeeperAll], None],
        on_events: Callable[[list[Began | Gone]], None],
    ) -> None:
        self._on_all = on_all
        self._on_events = on_events
        self._unread = b""
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        #: Who writes holds it: the line to the controller does so from its own thread.
        self._lock = threading.Lock()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        #: Why nothing may be started by it; empty: it may. And what keeps it here then.
        self.objection = ""
        self._alive: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        # An order goes out at once, not at the end of this turn of the loop.
        self._transport.set_write_buffer_limits(high=0)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        events: list[Began | Gone] = []
        for line in lines:
            try:
                event = _decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                self._refuse(f"it said {line[:80]!r}: {error}")
                break
            if isinstance(event, KeeperAll):
                self._compare(event)
                self._on_all(self, event)
            else:
                events.append(event)
        if len(self._unread) > LINE_BYTES_MAX:
            self._refuse(f"it said a line of more than {LINE_BYTES_MAX} bytes")
        if events:
            self._on_events(events)
            self._alive -= {event.uid for event in events if isinstance(event, Gone)}
        if self.objection and not self._alive:
            self.send([EXIT])

    def _compare(self, listing: KeeperAll) -> None:
        """A keeper of another version stays with what it has started, and then leaves."""
        if listing.protocol != PROTOCOL:
            self.objection = (
                f"the keeper of this node is of another version of rota (protocol "
                f"{listing.protocol}, not {PROTOCOL}) and stays until its last job has ended"
            )
            self._alive = {known.uid for known in listing.attempts if known.phase != "ended"}
            log.warning("%s", self.objection)

    def _refuse(self, reason: str) -> None:
        """Start over with its full list; what it said before that still counts."""
        log.error("the keeper does not keep to the protocol: %s", reason)
        self._unread = b""
        self.close()

    def send(self, lines: list[bytes]) -> None:
        with self._lock:
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write(b"\n".join(lines) + b"\n")

    def send_now(self, line: bytes) -> None:
        """From any thread, without the loop, which may stand still.

        Behind something that the keeper has not taken yet it waits for the loop all the same.
        """
        with self._lock:
            transport = self._transport
            if transport is None or transport.is_closing():
                return
            if transport.get_write_buffer_size() == 0:
                with suppress(OSError):
                    # A line so short is taken as a whole or not at all.
                    os.write(transport.get_extra_info("socket").fileno(), line + b"\n")
                    return
        self._loop.call_soon_threadsafe(self.send, [line])

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(
    folder: Path,
    on_all: Callable[[KeeperLink, KeeperAll], None],
    on_events: Callable[[list[Began | Gone]], None],
) -> KeeperLink:
    """Connect to the folder's keeper, starting one when there is none."""
    try:
        return await _connect(folder, on_all, on_events)
    except (FileNotFoundError, ConnectionRefusedError):
        await start(folder)
        return await _connect(folder, on_all, on_events)


async def _connect(
    folder: Path,
    on_all: Callable[[KeeperLink, KeeperAll], None],
    on_events: Callable[[list[Began | Gone]], None],
) -> KeeperLink:
    # By way of a descriptor: the folder's own path may be longer than a socket's may be.
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        _, link = await asyncio.get_running_loop().create_unix_connection(
            lambda: KeeperLink(on_all, on_events), f"/proc/self/fd/{fd}/keeper.sock"
        )
    finally:
        os.close(fd)
    return link


async def start(folder: Path, *options: str) -> None:
    """Run the keeper's file; it puts itself into the background and returns when it listens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(KEEPER),
        str(folder),
        *options,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            _, message = await process.communicate()
    except TimeoutError:
        process.kill()
        raise KeeperFailed(f"the keeper did not start within {START_TIMEOUT_S:g} s") from None
    if process.returncode != 0:
        raise KeeperFailed(message.decode(errors="replace").strip() or "the keeper did not start")
