"""uvicorn's protocols under our own life cycle: TCP, unix sockets, peer credentials, a clean end.

uvicorn's own server wakes ten times a second and re-raises signals at the end; ours sleeps until
it is told to stop, answers what is in flight and then returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.protocol import State

from rota.api.auth import LOCAL
from rota.api.door.agents import LINE, PATH
from rota.api.door.heads import HEAD_S
from rota.api.door.places import PLACE, Places
from rota.api.door.short_way import ShortWay
from rota.api.people import PEOPLE
from rota.rpc.frames import bodies_of, frame_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from websockets.http11 import Request

    from rota.api.door.agents import Listener
    from rota.api.door.places import DoorPlace

log = logging.getLogger("rota.api")

#: Callers that wait to be let in.
BACKLOG = 2048
#: An idle connection is closed after this time; commands in a loop open a new one each.
KEEP_ALIVE_S = 75
#: The largest message that an agent may send, and one that anybody else may.
WS_MESSAGE_MAX, VISIT_MESSAGE_MAX = 64 * 1024 * 1024, 256 * 1024
#: As much may wait for an agent that reads slowly: a few full sets.
UNSENT_BYTES_MAX = 128 * 1024 * 1024
#: How long requests that are being answered may take once we were told to stop.
GRACE_S = 10.0
#: Who has no place gets an answer to what comes within this time.
REFUSAL_S = 1.0
AGENTS = b"GET " + PATH.encode()
SWITCHING_PROTOCOLS = 101
#: Closes a WebSocket on which text is not text.
NOT_TEXT = 1007
_CREDENTIALS = struct.Struct("3i")


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, int] | None:
    """``("uid:1000", pid)`` on a unix socket: the kernel's word. None on any other."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family != socket.AF_UNIX:
        return None
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return f"{LOCAL}{uid}", pid


class Gathering:
    """A transport that makes one write of all writes of a turn of the event loop.

    The head and the body of an answer are written one after the other; each system call, and
    each time that the reader is woken, costs more than everything else about a small answer.
    """

    __slots__ = ("_loop", "_parts", "place", "plain")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.plain = transport
        #: Goes with the connection, whatever is spoken over it.
        self.place: DoorPlace | None = None
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(part)

    def flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self.plain.is_closing():
            self.plain.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return self.plain.get_write_buffer_size() + sum(map(len, self._parts))

    def close(self) -> None:
        self.flush()
        self.plain.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self.plain, name)


class HttpProtocol(ShortWay):
    """HTTP, with the peer's uid in the place of an address on a unix socket."""

    #: What was said before it is known who is there; None: that is known.
    unheard: list[bytes] | None = None
    #: Set for each server.
    places: Places

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        gathering = Gathering(transport)
        super().connection_made(gathering)  # type: ignore[arg-type]
        peer = peer_of(transport)
        host = peer[0] if peer is not None else (self.client or ("",))[0]
        # One that was encrypted has had its place since before the handshake.
        self.place = gathering.place = self.place or self.places.take(host)
        if self.place.refused:
            self._turn_away(transport)
            return
        if peer is None:
            self.await_head()
            return
        self.client = peer
        uid = int(peer[0].removeprefix(LOCAL))
        if uid not in PEOPLE:
            self.unheard = []
            meeting = asyncio.ensure_future(PEOPLE.look_up([uid], again=True))
            meeting.add_done_callback(lambda _: self._met(transport))

    def _turn_away(self, transport: asyncio.Transport) -> None:
        """It is told why once it has asked for something; who says nothing is not waited for."""
        assert self.place is not None
        if self.place.hands_off:
            transport.abort()
        else:
            self.loop.call_later(REFUSAL_S, self._wait_no_longer, transport)

    def _wait_no_longer(self, transport: asyncio.Transport) -> None:
        """An agent may have been let in."""
        if self.place is not None and self.place.refused:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.place is not None:
            self.place.leave()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.place is not None and self.place.refused:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.place is not None and self.place.refused:
            if self.place.is_local or not data.startswith(AGENTS):
                self.refuse(self.place.refused)
                return
            self.place.refused = ""
            self.await_head()
        if self.unheard is None:
            super().data_received(data)
            return
        # Not before: a loop begins to read after this connection was made, paused or not.
        self.transport.pause_reading()
        self.unheard.append(data)

    def _met(self, transport: asyncio.Transport) -> None:
        unheard, self.unheard = self.unheard, None
        if transport.is_closing() or not unheard:
            return
        transport.resume_reading()
        super().data_received(b"".join(unheard))


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """The same for WebSockets; the agents' have a short way past the ASGI queues."""

    #: Is offered each message first; what it does not take goes the ordinary way.
    listener: Listener | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.place: DoorPlace | None = getattr(transport, "place", None)
        # An order is one frame: to gather would only make it wait.
        plain = getattr(transport, "plain", transport)
        super().connection_made(plain)
        self.client = peer_of(plain) or self.client

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.place is not None:
            self.place.leave()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        self.scope[PLACE] = self.place  # type: ignore[literal-required]
        if self.response.status_code == SWITCHING_PROTOCOLS:
            self.scope["extensions"][LINE] = self  # type: ignore[assignment]

    def listen(self, listener: Listener) -> None:
        """Hand messages over as they come, and send what is written without delay."""
        self.listener = listener
        self.transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if self.conn.state is State.CONNECTING:
            self._begin(data)
            return
        between = self.listener is not None and not self.conn.reader.buffer and not self.frames
        bodies = bodies_of(data, masked=True, most=WS_MESSAGE_MAX) if between else None
        if bodies is None or self.conn.state is not State.OPEN:
            super().data_received(data)
            return
        for body in bodies:
            self.frames = [body]
            self.curr_msg_data_type = "bytes"
            self.send_receive_event_to_app()

    def _begin(self, data: bytes) -> None:
        """The request: who is no agent says short things, and one that is none is not kept."""
        if not data.startswith(AGENTS):
            self.conn.max_message_size = VISIT_MESSAGE_MAX
        super().data_received(data)
        if self.conn.handshake_exc is not None:
            self.transport.close()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not _is_text(b"".join(self.frames)):
            self.conn.fail(NOT_TEXT, "text that is not UTF-8")
            self.handle_parser_exception()
            return
        listener = self.listener if self.curr_msg_data_type == "bytes" else None
        if listener is None or self.close_sent or not listener(b"".join(self.frames)):
            super().send_receive_event_to_app()
        else:
            self.frames = []

    def write_message(self, body: bytes) -> None:
        """At once, past whatever waits in ASGI; on a closed connection nobody would hear it.

        An agent that takes nothing off the connection is cut off: it starts over with a full set.
        """
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            place = "{}:{}".format(*self.client or ("", ""))
            log.warning("the agent at %s was cut off: it does not take what it is sent", place)
            self.abort()
            return
        self.transport.write(frame_of(body, masked=False))

    def abort(self) -> None:
        """At once, whatever was not sent yet."""
        self.transport.abort()


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


class DoorServer:
    """Serves one ASGI app on sockets that are bound already."""

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - any ASGI app
        closing: asyncio.Event,
        secure: ssl.SSLContext | None = None,
        connections: int = 0,
    ) -> None:
        """``secure`` is for what comes over the network; the unix sockets need none.

        ``connections`` is the most that one caller may hold; 0: any number.
        """
        self._places = Places(connections)
        self._config = uvicorn.Config(
            app,
            http=HttpProtocol,
            ws=WebSocketProtocol,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            ws_max_size=WS_MESSAGE_MAX,
            ws_per_message_deflate=False,
        )
        self._state = ServerState()
        self._secure = secure
        #: Set when we stop: streams and long polls must end by themselves.
        self._closing = closing
        self._servers: list[asyncio.AbstractServer] = []
        #: What takes encrypted connections in, and the handshakes that are under way.
        self._doors: dict[asyncio.Task[None], socket.socket] = {}
        self._shaking: set[asyncio.Task[None]] = set()

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        self._config.load()
        loop = asyncio.get_running_loop()
        for sock in sockets:
            local = sock.family == socket.AF_UNIX
            if self._secure is not None and not local:
                self._doors[loop.create_task(self._take_in(sock, self._secure))] = sock
                continue
            make = loop.create_unix_server if local else loop.create_server
            self._servers.append(await make(self._protocol, sock=sock, backlog=BACKLOG))

    def _protocol(self, place: DoorPlace | None = None) -> asyncio.Protocol:
        protocol = HttpProtocol(config=self._config, server_state=self._state, app_state={})
        protocol.places, protocol.place = self._places, place
        return protocol

    async def _take_in(self, door: socket.socket, secure: ssl.SSLContext) -> None:
        """A connection has its place before its handshake, which may never end."""
        loop = asyncio.get_running_loop()
        door.listen(BACKLOG)
        door.setblocking(False)
        while True:
            try:
                caller, address = await loop.sock_accept(door)
            except OSError as error:
                # No descriptor is left, or the caller has gone before it was let in.
                log.warning("cannot take a connection in: %s", error.strerror)
                await asyncio.sleep(REFUSAL_S)
                continue
            place = self._places.take(address[0])
            if place.hands_off:
                place.leave()
                caller.close()
                continue
            task = loop.create_task(self._shake_hands(caller, place, secure))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

    async def _shake_hands(
        self, caller: socket.socket, place: DoorPlace, secure: ssl.SSLContext
    ) -> None:
        # Nobody is known before the handshake is over, as before a head.
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                partial(self._protocol, place), caller, ssl=secure, ssl_handshake_timeout=HEAD_S
            )
        except OSError as error:
            log.debug("no handshake with %s: %s", place.whose, error)
            place.leave()
            caller.close()
        except asyncio.CancelledError:
            place.leave()
            raise

    async def stop(self) -> None:
        """Accept nothing more, let what is being answered finish, close every connection."""
        for server in self._servers:
            server.close()
        for task in (*self._doors, *self._shaking):
            task.cancel()
        await asyncio.gather(*self._doors, *self._shaking, return_exceptions=True)
        for door in self._doors.values():
            door.close()
        self._closing.set()
        for connection in list(self._state.connections):
            try:
                connection.shutdown()
            except Exception as error:
                # The other side is saying goodbye at this very moment.
                log.debug("while closing a connection: %s", error)
                connection.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while tasks := self._state.tasks:
                    await asyncio.wait(tasks)
                while self._state.connections:  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.005)
        for task in self._state.tasks:
            log.warning("a request was cut off: %s", task.get_name())
            task.cancel()
