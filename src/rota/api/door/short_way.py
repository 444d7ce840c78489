"""A submit over a kept connection, answered without the messages of ASGI.

Submitting is what scripts do in loops. A request that came whole, and has nothing about it but
what every client sends, needs none of the machinery for bodies in pieces, upgrades and streams.
Anything else goes the long way, and so does everything that is not a submit.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rota.api.door.heads import BoundedHeads
from rota.api.door.places import HELD
from rota.api.leaving import LOST

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    Headers = list[tuple[bytes, bytes]]

LINE = b"POST /api/v1/jobs HTTP/1.1"
END = b"\r\n\r\n"
#: Headers that change nothing about a submit, and those that the long way looks at, too.
_IDLE = frozenset({b"host", b"user-agent", b"accept", b"accept-encoding", b"content-type"})
_READ = frozenset({b"authorization", b"idempotency-key", b"content-length"})
_KEEP = (b"connection", b"keep-alive")
#: What no header has in it but the ends of lines: others may take it for more than it is.
_CONTROLS = bytes({*range(0x20), 0x7F} - {ord("\t")})
#: Python reads no number of thousands of digits; no body that comes whole has as many.
_LENGTH_DIGITS = 9
_STATUS = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Reply(NamedTuple):
    """What is sent back."""

    status: int
    headers: Headers
    body: bytes


class Submitter(Protocol):
    """Who takes a submit."""

    async def submit(
        self, client: tuple[str, int] | None, headers: Headers, body: bytes
    ) -> Reply: ...


def whole_submit(data: bytes) -> tuple[Headers, bytes] | None:
    """The headers that matter and the body, if these bytes are one plain submit and no more."""
    if not data.startswith(LINE):
        return None
    end = data.find(END)
    head = data[:end]
    line, *fields = head.split(b"\r\n")
    odd = len(head) - len(head.translate(None, _CONTROLS)) != 2 * len(fields)
    if end < 0 or line != LINE or odd:
        return None
    headers: dict[bytes, bytes] = {}
    for field in fields:
        name, colon, value = field.partition(b":")
        name = name.lower()
        if not colon:
            return None
        if name in _READ and name not in headers:
            headers[name] = value.strip()
        elif name not in _IDLE and (name, value.strip().lower()) != _KEEP:
            return None
    length = headers.pop(b"content-length", b"")
    body = data[end + len(END) :]
    if not length.isdigit() or len(length) > _LENGTH_DIGITS or int(length) != len(body):
        return None
    return list(headers.items()), body


def bytes_of(reply: Reply) -> bytes:
    lines = [name + b": " + value + b"\r\n" for name, value in reply.headers]
    length = b"content-length: %d\r\n\r\n" % len(reply.body)
    return b"".join([_STATUS[reply.status], *lines, length, reply.body])


def _is_open(cycle: RequestResponseCycle | None) -> bool:
    """Whether an answer is still being given."""
    return cycle is not None and not cycle.response_complete


class ShortWay(BoundedHeads):
    """HTTP as uvicorn speaks it, with a short way for submits."""

    #: Between a request and its answer on the short way; what comes meanwhile has to wait.
    _at_work = False
    #: uvicorn's parser is in the middle of a request.
    _inside = False
    _closes = False
    _later = b""
    _used_s = 0.0
    #: Set here, not by uvicorn, which knows the long way only.
    _timer: TimerHandle | None = None

    def on_message_begin(self) -> None:
        self._inside = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._inside = False
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self._at_work:
            self._later += data
            self.flow.pause_reading()
            return
        request = None if self._inside or _is_open(self.cycle) else whole_submit(data)
        if request is None:
            super().data_received(data)
            return
        self._at_work = True
        self.head_came()
        if self.timeout_keep_alive_task is not self._timer:
            self._unset_keepalive_if_required()
        task = self.loop.create_task(self._served(*request))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _served(self, headers: Headers, body: bytes) -> None:
        try:
            await self._answer(headers, body)
        except BaseException:
            # Nobody waits for an answer that will not come.
            self.transport.close()
            raise

    async def _answer(self, headers: Headers, body: bytes) -> None:
        LOST.set(self.lost)
        HELD.set(self.place)
        submitter: Submitter = self.app
        reply = await submitter.submit(self.client, headers, body)
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            # Not gathered with anything: this is all there is to write.
            getattr(self.transport, "plain", self.transport).write(bytes_of(reply))
            # Who does not take answers gets no more of them: they would pile up here.
            await self.flow.drain()
        self._at_work = False
        if self.transport.is_closing():
            return
        if self._closes or (self.place is not None and self.place.refused):
            self.transport.close()
            return
        self._used_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._await_more(self.timeout_keep_alive)
        if self._later:
            data, self._later = self._later, b""
            self.flow.resume_reading()
            self.data_received(data)

    def _await_more(self, wait_s: float) -> None:
        self._timer = self.loop.call_later(wait_s, self._close_if_idle)
        self.timeout_keep_alive_task = self._timer

    def _close_if_idle(self) -> None:
        """One timer serves for many requests: it looks when the connection was last used."""
        idle_s = self.loop.time() - self._used_s
        if self._at_work or idle_s < self.timeout_keep_alive:
            self._await_more(max(0.1, self.timeout_keep_alive - idle_s))
        elif not self.transport.is_closing():
            self.transport.close()

    def shutdown(self) -> None:
        """An answer that is under way is still given."""
        if self._at_work:
            self._closes = True
        else:
            super().shutdown()


__all__ = ["Reply", "ShortWay", "Submitter", "bytes_of", "whole_submit"]
