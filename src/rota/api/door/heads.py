"""Bounds on what comes before a body: how large the headers of a request are, and how slow.

The parser itself has none. Nobody is known before the headers are complete, so these bounds hold
for everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rota.api import errors
from rota.api.door.places import AGAIN_S, PLACE
from rota.api.leaving import GONE
from rota.api.unread import UNSENT
from rota.core.facts.errors import Busy

if TYPE_CHECKING:
    from asyncio import Future, TimerHandle, Transport

    from rota.api.door.places import DoorPlace

#: The most that the request line and the headers may weigh before they are complete.
HEAD_MAX = 64 * 1024
#: How long they may take over the network, counted from the first byte, or from the connection.
HEAD_S = 20.0
_TOO_LARGE = b"431 Request Header Fields Too Large"
_TOO_MANY = b"429 Too Many Requests"
_TOO_SLOW = b"408 Request Timeout"


class BoundedHeads(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, to callers that come to the point."""

    #: Bytes of a head that is not complete yet.
    _head_bytes = 0
    _in_head = False
    _head_timer: TimerHandle | None = None
    #: Whether a clock runs: over the network.
    _timed = False
    #: Done once the connection is.
    lost: Future[None]
    #: What it takes up of the connections that its caller may have.
    place: DoorPlace | None = None

    def await_head(self) -> None:
        """From now on heads are timed; the first one is due."""
        self._timed = True
        self._head_timer = self.loop.call_later(HEAD_S, self._too_slow)

    def head_came(self) -> None:
        """It is complete: what follows may take its time."""
        self._in_head, self._head_bytes = False, 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.lost = self.loop.create_future()

    def on_message_begin(self) -> None:
        self._in_head = True
        if self._timed and self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._too_slow)
        super().on_message_begin()
        self.scope[GONE] = self.lost  # type: ignore[literal-required]
        self.scope[PLACE] = self.place  # type: ignore[literal-required]
        self.scope[UNSENT] = self.unsent  # type: ignore[literal-required]

    def unsent(self) -> int:
        """Bytes of answers that the other side has not taken."""
        return 0 if self.lost.done() else self.transport.get_write_buffer_size()

    def on_headers_complete(self) -> None:
        self.head_came()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX:
                self._end(_TOO_LARGE)

    def connection_lost(self, exc: Exception | None) -> None:
        self.head_came()
        super().connection_lost(exc)
        self.lost.set_result(None)

    def _too_slow(self) -> None:
        self._head_timer = None
        self._end(_TOO_SLOW)

    def refuse(self, why: str) -> None:
        """Whatever it was going to ask."""
        self.head_came()
        problem, headers = errors.problem_of(Busy(why, AGAIN_S))
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        media = b"content-type: %b\r\n" % errors.MEDIA_TYPE.encode()
        self._end(_TOO_MANY, errors.encode_problem(problem), media + lines)

    def _end(self, status: bytes, body: bytes = b"", lines: bytes = b"") -> None:
        if not self.transport.is_closing():
            head = b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: %d\r\n%b\r\n"
            self.transport.write(head % (status, len(body), lines) + body)
            self.transport.close()
