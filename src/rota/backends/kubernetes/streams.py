"""A program beside that of a pod, and a connection to its port: WebSockets through the API server.

Each message begins with the number of its channel. A terminal has one for what is typed, what is
shown, how it ended, and the size of the window; a port has one for its bytes and one for trouble.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from lightkube.config.client_adapter import user_auth, verify_cluster
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from rota.backends.api import EngineAway, EngineError, EngineRefused
from rota.backends.kubernetes import answers
from rota.core.facts.states import Blame
from rota.kubeapi.words import words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx2
    from lightkube.config.kubeconfig import SingleConfig
    from websockets.asyncio.client import ClientConnection as Socket

PROTOCOL = Subprotocol("v4.channel.k8s.io")
OPEN_S, CLOSE_S, LEAVE_S = 10.0, 2.0, 10.0
TYPED, SHOWN, ENDED, SIZE = 0, 1, 3, 4
BYTES, TROUBLE = 0, 1
#: The first message of each channel of a port is its number.
PORT_BYTES = 2
#: A program that has come to its end, be it with an error.
_RAN = ("", "NonZeroExitCode")


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""


async def opened(config: SingleConfig, request: httpx2.Request) -> Socket:
    """A WebSocket to where a request would go, with the credentials as they are now."""
    auth = user_auth(config.user)
    if auth is not None:
        request = await anext(auth.async_auth_flow(request))
    context = None
    if request.url.scheme == "https" and config.user is not None:
        context = verify_cluster(config.cluster, config.user, config.abs_file)
    secret = {k: v for k, v in request.headers.items() if k.lower() == "authorization"}
    try:
        return await connect(
            str(request.url.copy_with(scheme="wss" if context else "ws")),
            ssl=context,
            additional_headers=secret,
            subprotocols=[PROTOCOL],
            compression=None,
            max_size=None,
            open_timeout=OPEN_S,
            close_timeout=CLOSE_S,
            ping_timeout=None,  # A program that does not read holds back the answer.
        )
    except InvalidStatus as error:
        raise _refusal(error.response.status_code, bytes(error.response.body or b"")) from None
    except (InvalidHandshake, OSError, TimeoutError) as error:
        raise EngineAway(words(error)) from None


def _refusal(code: int, body: bytes) -> EngineError:
    try:
        text = msgspec.json.decode(body, type=_Status).message
    except msgspec.DecodeError:
        text = body.decode(errors="replace")[:300]
    return answers.trouble(code, text)


class _Stream:
    """What both have in common."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    async def _next(self) -> tuple[int, bytes]:
        """The next message that says something; of no channel: it is over."""
        with suppress(ConnectionClosed):
            while True:
                message = await self._socket.recv(decode=False)
                if len(message) > 1:
                    return message[0], message[1:]
        return -1, b""

    async def _send(self, channel: int, body: bytes) -> None:
        with suppress(ConnectionClosed):  # Told by what comes.
            await self._socket.send(bytes([channel]) + body)

    async def write(self, body: bytes) -> None:
        await self._send(TYPED, body)

    async def end(self) -> None:
        """These channels know no end of one direction alone."""

    async def close(self) -> None:
        await self._socket.close()


class KubeTerminal(_Stream):
    """``leave`` opens a socket to what ends the program, and lasts as long as that takes."""

    def __init__(self, socket: Socket, leave: Callable[[], Awaitable[Socket]]) -> None:
        super().__init__(socket)
        self._leave = leave
        self._begun = self._over = False
        #: A size that comes before the program has begun is lost on its node: told once more.
        self._early: tuple[int, int] | None = None

    async def read(self) -> bytes:
        while True:
            channel, body = await self._next()
            self._over = self._over or channel in (ENDED, -1)
            if channel == ENDED:
                _check_end(body)
            elif channel in (SHOWN, -1):
                early, self._early, self._begun = self._early, None, True
                if body and early is not None:
                    await self._tell_size(*early)
                return body

    async def resize(self, rows: int, columns: int) -> None:
        self._early = None if self._begun else (rows, columns)
        await self._tell_size(rows, columns)

    async def _tell_size(self, rows: int, columns: int) -> None:
        await self._send(SIZE, msgspec.json.encode({"Width": columns, "Height": rows}))

    async def close(self) -> None:
        await super().close()
        if not self._over:
            with suppress(EngineError, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await (await self._leave()).wait_closed()


class KubeTunnel(_Stream):
    def __init__(self, socket: Socket, port: int) -> None:
        super().__init__(socket)
        self._port = port
        self._begun: set[int] = set()

    async def read(self) -> bytes:
        while True:
            channel, body = await self._next()
            if channel >= 0 and channel not in self._begun:
                self._begun.add(channel)
                body = body[PORT_BYTES:]
            if channel == TROUBLE and body:
                raise EngineRefused(_trouble(self._port, body.decode(errors="replace")), Blame.NODE)
            if body or channel < 0:
                return body

    async def resize(self, rows: int, columns: int) -> None:
        """A port has no window."""


def _check_end(body: bytes) -> None:
    try:
        status = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        status = _Status("", body.decode(errors="replace"))
    if status.reason not in _RAN:
        raise EngineRefused(" ".join(status.message.split()), Blame.NODE)


def _trouble(port: int, text: str) -> str:
    if "refused" in text:
        return f"nothing listens on port {port} of the job's pod"
    return f"port {port} of the job's pod: {' '.join(text.split())}"
