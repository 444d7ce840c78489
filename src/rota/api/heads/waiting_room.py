"""What a head that stands by answers: not here, and who leads; and what can be read of it.

Agents and clients that know several addresses go on to the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from typing import TYPE_CHECKING

from rota.api.door.server import peer_of
from rota.api.heads.reading import parsed
from rota.heads import LEADER_HEADER

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from rota.api.heads.reading import Reader

    Client = tuple[str, int] | None

log = logging.getLogger("rota.controller")

#: Longer requests are not waited for.
HEAD_BYTES_MAX = 64 * 1024
#: So long a caller may take to say what it came to say, and as long again to read the answer; and
#: so long we may take to find that.
LINGER_S, ANSWER_S = 2.0, 60.0
_END = b"\r\n\r\n"


class WaitingRoom:
    """Answers on sockets that are bound already, and leaves them open when it closes."""

    def __init__(self, sockets: Sequence[socket.socket], reader: Reader) -> None:
        self._sockets, self._reader = sockets, reader
        self._servers: list[asyncio.AbstractServer] = []
        #: Who leads, as far as is known, and why nobody seems to.
        self.leader, self.trouble = "", ""

    async def open(self, secure: ssl.SSLContext | None, *, encrypted: bool) -> None:
        """``encrypted`` without a certificate at hand: callers over the network are hung up on."""
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            local = sock.family == socket.AF_UNIX
            make = loop.create_unix_server if local else loop.create_server
            mute = not local and encrypted and secure is None
            visitor = _HungUp if mute else self._visitor
            own = None if local else secure
            self._servers.append(await make(visitor, sock=sock.dup(), ssl=own))

    def _visitor(self) -> asyncio.Protocol:
        return _Visitor(self._answer)

    async def close(self) -> None:
        while self._servers:
            self._servers.pop().close()

    async def _answer(self, request: bytes, client: Client) -> bytes:
        asked = parsed(request)
        if asked is not None and self._reader.answers(asked):
            try:
                return await self._reader.answer(asked, client)
            except Exception as error:
                log.error("%s was not answered: %s", asked.target, error, exc_info=error)
        if request.startswith(b"GET /healthz "):
            return _response("200 OK", {"status": "standby"}, self.leader)
        where = f"; {self.leader} leads" if self.leader else ""
        why = f": {self.trouble}" if self.trouble else ""
        if asked is not None and asked.wants_logs:
            why += "; what jobs printed lies on their nodes, which speak to the head that leads"
        problem = {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": f"this head stands by{where}{why}",
            "code": "standby",
        }
        return _response("503 Service Unavailable", problem, self.leader)


def _response(status: str, body: dict[str, object], leader: str) -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(text)}\r\n{LEADER_HEADER}: {leader or '-'}\r\n"
        "Retry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + text


class _HungUp(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _Visitor(asyncio.Protocol):
    """One request, one answer; what else is said is not heard."""

    def __init__(self, answer: Callable[[bytes, Client], Awaitable[bytes]]) -> None:
        self._answer = answer
        self._answering: asyncio.Task[None] | None = None
        self._said = b""
        self._answered = False
        self._transport: asyncio.Transport | None = None
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._close_after(LINGER_S)

    def connection_lost(self, error: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()

    def _close_after(self, seconds: float) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(seconds, self._close)

    def data_received(self, data: bytes) -> None:
        if self._answered or self._transport is None:
            return
        self._said += data
        if _END not in self._said and len(self._said) < HEAD_BYTES_MAX:
            return
        self._answered = True
        self._close_after(ANSWER_S)
        self._answering = asyncio.ensure_future(self._give(self._transport))

    async def _give(self, transport: asyncio.Transport) -> None:
        address = transport.get_extra_info("peername")
        client = peer_of(transport) or (tuple(address[:2]) if address else None)
        transport.write(await self._answer(self._said, client))
        self._close_after(LINGER_S)
        # A body may still be on its way: to hang up now would take the answer away with it.
        if transport.can_write_eof() and not transport.is_closing():
            transport.write_eof()

    def eof_received(self) -> bool:
        return False

    def _close(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(RuntimeError):
                self._transport.close()
