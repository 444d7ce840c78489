"""The connection to the controller: a WebSocket that the agent dials, on the asyncio loop.

The protocol core of ``websockets`` is driven directly: a message goes from the socket through the
state machine to the keeper's socket in one callback, without a queue or a task in between.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import msgspec
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from rota.digits import is_digits
from rota.fingerprints import WrongCertificate, check, context_for, explain, split_token
from rota.heads import addresses_of
from rota.rpc.frames import bodies_of, frame_of
from rota.rpc.messages import Beat, Hello, Observed, decode_to_agent, encode
from rota.session.greeting import Greeting, understood
from rota.session.order_checks import doubt

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.rpc.messages import AgentMessage, ControllerMessage

PATH = "/api/v1/agent"
OPEN_TIMEOUT_S = 10.0
#: So soon after one of several heads the next one is dialled, too.
HURRY_S = 0.5
PING_INTERVAL_S = 15.0
#: A full desired set of a large node, with an environment for each attempt.
MESSAGE_BYTES_MAX = 1 << 30
#: A controller that reads nothing while this much piles up is dialled again, and told in full.
UNSENT_BYTES_MAX = 128 * 1024 * 1024
FORBIDDEN, BUSY = 403, (429, 503)
REASON_MAX = 500
#: The longest reason that a close frame can carry is a little longer.
CLOSE_REASON_BYTES = 120

log = logging.getLogger("rota.agent")


class ControllerAway(Exception):
    """The controller cannot be reached now; the text says why in one line."""

    #: How long it wants to be left alone, because too many dial it at once, or it stands by.
    busy_s = 0.0


class TurnedAway(ControllerAway):
    """The controller does not take what was shown to it."""


class ControllerLink(asyncio.Protocol):
    """One WebSocket connection. ``on_message`` is called for each message, in order."""

    def __init__(
        self,
        uri: str,
        token: str,
        on_message: Callable[[ControllerMessage], None],
        fingerprint: str = "",
    ) -> None:
        self._protocol = ClientProtocol(parse_uri(uri), max_size=MESSAGE_BYTES_MAX)
        self._token = token
        self._fingerprint = fingerprint
        self._on_message = on_message
        self._transport: asyncio.Transport | None = None
        self._fragments: list[bytes] = []
        #: The number of the last report that was sent.
        self.reported = 0
        self._greeting = Greeting(secrets.randbits(52) + 1)
        self._pinged = False
        self._timer: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        # The caller may have given up by then: that is no news for the log.
        self.opened.add_done_callback(lambda future: future.cancelled() or future.exception())
        #: Set once the connection is gone, closed by either side.
        self.closed: asyncio.Future[str] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._is_genuine(transport):
            return
        # A report goes out at once, not at the end of this turn of the loop.
        self._transport.set_write_buffer_limits(high=0)
        request = self._protocol.connect()
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        self._protocol.send_request(request)
        self._pump()

    def _is_genuine(self, transport: asyncio.BaseTransport) -> bool:
        """Whether the server shows the certificate that the token names. Else it hears nothing."""
        if not self._fingerprint:
            return True
        shown = transport.get_extra_info("ssl_object")
        try:
            check(shown.getpeercert(binary_form=True), self._fingerprint)
        except WrongCertificate as error:
            self.opened.set_exception(ControllerAway(str(error)))
            self._transport = None
            transport.close()
            return False
        return True

    def send(self, message: AgentMessage) -> None:
        """Send now; silently dropped on a closed connection, as the next one starts over."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._protocol.state is not State.OPEN:
            return
        if transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            log.warning("the controller does not take what it is sent")
            self.abort()
            return
        if isinstance(message, Observed):
            self.reported = message.number
        elif isinstance(message, Beat):
            message = msgspec.structs.replace(message, reported=self.reported)
        elif isinstance(message, Hello):
            message = self._greeting.on(message)
        transport.write(frame_of(encode(message), masked=True))

    def abort(self) -> None:
        """End it without a word: nobody takes one off the connection."""
        if self._transport is not None:
            self._transport.abort()

    def close(self, reason: str = "") -> None:
        if self._protocol.state is State.OPEN:
            short = reason.encode()[:CLOSE_REASON_BYTES].decode(errors="ignore")
            self._protocol.send_close(1000, short)
            self._pump()
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        bodies = self._whole_messages(data)
        if bodies is not None:
            self._pinged = False
            for body in bodies:
                if self._protocol.state is State.OPEN:
                    self._take_message(body)
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._take_response()
            elif isinstance(event, Frame):
                self._take_frame(event)
        self._pump()

    def _whole_messages(self, data: bytes) -> list[bytes] | None:
        """The messages, if these bytes are nothing else and continue nothing."""
        protocol = self._protocol
        if protocol.state is not State.OPEN or protocol.reader.buffer or self._fragments:
            return None
        return bodies_of(data, masked=False, most=MESSAGE_BYTES_MAX)

    def eof_received(self) -> bool:
        self._protocol.receive_eof()
        self._pump()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        reason = str(error) if error else self._protocol.close_reason or "connection closed"
        if not self.opened.done():
            self.opened.set_exception(ControllerAway(reason))
        if not self.closed.done():
            self.closed.set_result(reason)

    def _take_response(self) -> None:
        if self._protocol.handshake_exc is None:
            self.opened.set_result(None)
            self._schedule_ping()
        elif not self.opened.done():
            self.opened.set_exception(_refusal(self._protocol.handshake_exc))

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            self._pinged = False
        elif frame.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
            self._pinged = False
            body = bytes(frame.data)
            if not frame.fin or self._fragments:
                self._fragments.append(body)
                if not frame.fin:
                    return
                body = b"".join(self._fragments)
                self._fragments.clear()
            self._take_message(body)

    def _take_message(self, body: bytes) -> None:
        try:
            message = understood(decode_to_agent(body))
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            log.error("message from the controller cannot be read: %s", error)
            self.close("unreadable message")
            return
        if why := doubt(message):
            log.error("the controller cannot mean what it says: %s", why)
            self.close(why)
            return
        if why := self._greeting.objection(message):
            log.error("this connection brings what another agent was told: %s", why)
            self.close(why)
            return
        self._on_message(message)

    def _pump(self) -> None:
        """Move what the protocol wants to say onto the socket; an empty part means: finish."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        for part in self._protocol.data_to_send():
            if part:
                transport.write(part)
            elif transport.can_write_eof():
                transport.write_eof()
        if self._protocol.close_expected():
            transport.close()

    def _schedule_ping(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PING_INTERVAL_S, self._ping)

    def _ping(self) -> None:
        """A connection that stays silent for a whole interval after a ping is dead."""
        if self._pinged:
            log.warning("no answer from the controller for %g s", PING_INTERVAL_S)
            self.abort()
            return
        if self._protocol.state is State.OPEN:
            self._pinged = True
            self._protocol.send_ping(b"rota")
            self._pump()
            self._schedule_ping()


def _refusal(refusal: Exception) -> ControllerAway:
    """Why the controller does not take the connection, in its own words where it says so."""
    if isinstance(refusal, InvalidStatus) and refusal.response.status_code == FORBIDDEN:
        said = (refusal.response.body or b"").decode(errors="replace").strip()
        if said.isprintable() and said:
            return TurnedAway(f"refused: {said[:REASON_MAX]}")
    if isinstance(refusal, InvalidStatus) and refusal.response.status_code in BUSY:
        after = refusal.response.headers.get("Retry-After", "")
        if is_digits(after) and len(after) < 5:
            busy = ControllerAway("the controller is busy, or stands by")
            busy.busy_s = float(after)
            return busy
    return ControllerAway(str(refusal))


async def dial(
    urls: str, token: str, on_message: Callable[[ControllerMessage], None]
) -> ControllerLink:
    """Connect to ``unix:///path``, ``http://host:port`` or ``https://host:port``.

    Of several, with commas in between, the first that takes the connection: heads that stand by
    do not. A machine that is gone does not even refuse, so nobody waits for one alone. A token
    may carry the fingerprint of the certificate that the controller must show.
    """
    failures: list[ControllerAway] = []
    left, dialling = addresses_of(urls), set[asyncio.Task[ControllerLink]]()
    try:
        while left or dialling:
            if left:
                dialling.add(asyncio.create_task(_dial_one(left.pop(0), token, on_message)))
            done, dialling = await asyncio.wait(
                dialling, timeout=HURRY_S if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            links: list[ControllerLink] = []
            for task in done:
                try:
                    links.append(task.result())
                except ControllerAway as error:
                    failures.append(error)
            for link in links[1:]:
                link.close()
            if links:
                return links[0]
    finally:
        for task in dialling:
            task.cancel()
        await asyncio.gather(*dialling, return_exceptions=True)
    # A refusal says the most, and one that is busy for now the least.
    raise max(failures, key=lambda error: (isinstance(error, TurnedAway), not error.busy_s))


async def _dial_one(
    url: str, token: str, on_message: Callable[[ControllerMessage], None]
) -> ControllerLink:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    token, fingerprint = split_token(token)
    if fingerprint and parts.scheme in ("http", "ws"):
        raise ControllerAway(f"{url}: the token names a certificate, so it must be https://")
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            if parts.scheme == "unix":
                _, link = await loop.create_unix_connection(
                    lambda: ControllerLink(f"ws://localhost{PATH}", token, on_message), parts.path
                )
            else:
                secure = parts.scheme in ("https", "wss")
                uri = f"{'wss' if secure else 'ws'}://{parts.netloc}{PATH}"
                _, link = await loop.create_connection(
                    lambda: ControllerLink(uri, token, on_message, fingerprint),
                    parts.hostname or "localhost",
                    parts.port or (443 if secure else 80),
                    ssl=context_for(fingerprint) if secure else None,
                )
            try:
                await link.opened
            except BaseException:
                link.close()
                raise
    except TimeoutError:
        raise ControllerAway(f"{url}: no answer within {OPEN_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise ControllerAway(f"{url}: {explain(error)}") from None
    return link
