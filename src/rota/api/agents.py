"""The agents' WebSocket: frames in msgpack, to and from the controller's inbox."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rota.api.auth import require
from rota.core.errors import RotaError
from rota.rpc.messages import decode_from_agent

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rota.api.context import Context
    from rota.api.front import Receive, Scope, Send
    from rota.controller.links import Link, Links
    from rota.core.tenant import Actor

log = logging.getLogger("rota.api")

PATH = "/api/v1/agent"
#: Under this name the server puts a ``Line`` into the extensions of a connection.
LINE = "rota.line"
POLICY_VIOLATION = 1008
BAD_MESSAGE = 1003
INTERNAL = 1011
#: The longest reason that a close frame can carry, in bytes.
REASON_MAX = 120
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)

#: Says whether it took a message.
Listener = Callable[[bytes], bool]


class Line(Protocol):
    """The connection itself: messages without the queues and tasks of ASGI in between."""

    def listen(self, listener: Listener) -> None: ...

    def write_message(self, body: bytes) -> None: ...


async def serve(
    context: Context,
    identify: Callable[[Scope], Actor | None],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """One connection of one agent, from its first word to its last."""
    await receive()
    refusal = _refusal(identify, scope)
    if refusal:
        await _close(send, POLICY_VIOLATION, refusal)
        return
    await send({"type": "websocket.accept"})
    link = context.host.links.open()
    line: Line | None = scope.get("extensions", {}).get(LINE)
    if line is not None:
        line.listen(partial(_take, context.host.links, link))
        link.write = line.write_message
    writer = asyncio.create_task(_write(link, send))
    try:
        code, reason = await _read(context, link, receive)
        if code:
            log.warning("an agent was cut off: %s", reason)
            await _close(send, code, reason)
    except Exception:
        log.exception("the connection of an agent failed")
        await _close(send, INTERNAL, "internal error")
    finally:
        context.host.links.closed(link)
        writer.cancel()
        await asyncio.wait({writer})


def _refusal(identify: Callable[[Scope], Actor | None], scope: Scope) -> str:
    if scope["path"] != PATH:
        return f"there is nothing at {scope['path']}; agents dial {PATH}"
    try:
        actor = identify(scope)
        if actor is None:
            return "a token is needed over the network"
        require(actor, "agent")
    except RotaError as error:
        return str(error)
    return ""


def _take(links: Links, link: Link, frame: bytes) -> bool:
    """Hear a message; one that cannot be read is left to ``_read``, which refuses it."""
    try:
        message = decode_from_agent(frame)
    except UNREADABLE:
        return False
    links.heard(link, message)
    return True


async def _read(context: Context, link: Link, receive: Receive) -> tuple[int, str]:
    """Hear until the connection ends; the code and reason with which it must be ended, if any."""
    links = context.host.links
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return 0, ""
        frame: bytes | None = message.get("bytes")
        if frame is None:
            return BAD_MESSAGE, "expected msgpack in binary frames"
        try:
            links.heard(link, decode_from_agent(frame))
        except UNREADABLE as error:
            return BAD_MESSAGE, f"not a message of an agent: {error}"


async def _write(link: Link, send: Callable[[Any], Awaitable[None]]) -> None:
    """Send what the controller has for this agent; None ends the connection."""
    try:
        while (frame := await link.outbox.get()) is not None:
            await send({"type": "websocket.send", "bytes": frame})
    except (RuntimeError, OSError):
        return  # It is gone; whoever reads will notice and clean up.
    await _close(send, 1000, "")


async def _close(send: Callable[[Any], Awaitable[None]], code: int, reason: str) -> None:
    short = reason.encode()[:REASON_MAX].decode(errors="ignore")
    try:
        await send({"type": "websocket.close", "code": code, "reason": short})
    except (RuntimeError, OSError):
        log.debug("the agent was gone before it could be told why")
