"""The agents' WebSocket: frames in msgpack, to and from the controller's inbox.

An agent that does not keep to the protocol is told why and cut off: what cannot be read, what
cannot be true, more than can be heard, and messages that are not taken off the connection. It
dials again and starts over; the others notice nothing. The log names who was refused, and why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rota.api.auth import require, shown_id
from rota.controller.agents.identity import versions_differ
from rota.core.facts.errors import Busy, Rejected, RotaError
from rota.core.facts.tenant import LOCAL, Access
from rota.rpc.messages import PROTOCOL, SessionRefused, decode_from_agent, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.controller.agents.links import AgentLink, Links
    from rota.core.facts.tenant import Actor

log = logging.getLogger("rota.api")

PATH = "/api/v1/agent"
#: Under this name the server puts a ``Line`` into the extensions of a connection.
LINE = "rota.line"
POLICY_VIOLATION = 1008
BAD_MESSAGE = 1003
INTERNAL = 1011
#: The longest reason that a close frame can carry, in bytes.
REASON_MAX = 120
#: How long the other side may take to hear that the connection is over.
CLOSE_S = 5.0
FORBIDDEN, UNAVAILABLE = 403, 503
#: When agents come back of which too many came at once, at the earliest.
AGAIN_S = 2
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)

#: Says whether it took a message.
Listener = Callable[[bytes], bool]


class AgentLine(Protocol):
    """The connection itself: messages without the queues and tasks of ASGI in between."""

    def listen(self, listener: Listener) -> None: ...

    def write_message(self, body: bytes) -> None: ...

    def abort(self) -> None: ...


class FirstWords(msgspec.Struct):
    """What every version says first, whatever else it adds."""

    type: str
    protocol: int


_first_words = msgspec.msgpack.Decoder(FirstWords).decode


async def serve(
    context: Context,
    identify: Callable[[Scope], Actor | None],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """One connection of one agent, from its first word to its last."""
    await receive()
    # To its last word it belongs to these, whichever is the host by then.
    links = context.host.links
    try:
        actor = _agent(identify, scope)
    except RotaError as error:
        links.refusals.note(_place(scope), "", _shown(scope), str(error))
        await _turn_away(send, str(error), UNAVAILABLE if isinstance(error, Busy) else FORBIDDEN)
        return
    if links.is_rushed:
        await _turn_away(send, "too many agents come at once", UNAVAILABLE)
        return
    await send({"type": "websocket.accept"})
    shown = actor.token
    link = links.open(shown, _place(scope))
    line: AgentLine | None = scope.get("extensions", {}).get(LINE)
    if line is not None:
        line.listen(partial(_take, links, link))
        link.write = line.write_message
    writer = asyncio.create_task(_write(link, send, line))
    try:
        code, reason = await _read(links, link, receive)
        if code:
            links.refusals.note(link.place, link.node, link.shown, reason)
            link.write(encode(SessionRefused(reason)))
            await _end(send, line, code, reason)
    except Exception:
        log.exception("the connection of an agent failed")
        await _end(send, line, INTERNAL, "internal error")
    finally:
        links.closed(link)
        writer.cancel()
        await asyncio.wait({writer})


def _place(scope: Scope) -> str:
    """Where it dials from: an address and a port, or on this machine a user and a process."""
    host, port = scope.get("client") or ("", "")
    return f"{host}:{port}"


def _agent(identify: Callable[[Scope], Actor | None], scope: Scope) -> Actor:
    """Who dials; raises a ``RotaError`` unless it may be an agent."""
    if scope["path"] != PATH:
        raise Rejected(f"there is nothing at {scope['path']}; agents dial {PATH}")
    actor = identify(scope)
    if actor is None:
        raise Rejected("a token is needed over the network")
    require(actor, "agent")
    if actor.via != LOCAL and actor.access is not Access.AGENT:
        raise Rejected(
            f"{actor.via} is not for agents; an admin can make one with 'rota token create --join'"
        )
    return actor


def _shown(scope: Scope) -> str:
    """The id of the token that came with the connection; empty: none, or nothing like one."""
    return shown_id(dict(scope["headers"]).get(b"authorization", b""))


def _take(links: Links, link: AgentLink, frame: bytes) -> bool:
    """Hear a message; one that must be refused is left to ``_read``, and so is all after it."""
    if link.refused:
        return False
    try:
        message = decode_from_agent(frame)
    except UNREADABLE:
        link.refused = True
        return False
    if links.objection(link, message, len(frame)):
        link.refused = True
        return False
    links.heard(link, message, len(frame))
    return True


async def _read(links: Links, link: AgentLink, receive: Receive) -> tuple[int, str]:
    """Hear until the connection ends; the code and reason with which it must be ended, if any."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return 0, ""
        frame: bytes | None = message.get("bytes")
        if frame is None:
            return BAD_MESSAGE, "expected msgpack in binary frames"
        try:
            said = decode_from_agent(frame)
        except UNREADABLE as error:
            return BAD_MESSAGE, _other_version(frame) or f"not a message of an agent: {error}"
        if why := links.objection(link, said, len(frame)):
            return POLICY_VIOLATION, why
        links.heard(link, said, len(frame))


def _other_version(frame: bytes) -> str:
    """The hello of another version may have another form; its first words never change."""
    try:
        first = _first_words(frame)
    except UNREADABLE:
        return ""
    if first.type != "hello" or first.protocol == PROTOCOL:
        return ""
    return versions_differ(first.protocol)


async def _write(
    link: AgentLink, send: Callable[[Any], Awaitable[None]], line: AgentLine | None
) -> None:
    """Send what the controller has for this agent; None ends the connection."""
    try:
        while (frame := await link.outbox.get()) is not None:
            await send({"type": "websocket.send", "bytes": frame})
    except (RuntimeError, OSError):
        return  # It is gone; the reader will notice and clean up.
    await _end(send, line, 1000, "")


async def _end(
    send: Callable[[Any], Awaitable[None]], line: AgentLine | None, code: int, reason: str
) -> None:
    """Say goodbye; one that takes nothing off the connection does not hear that, either."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await _close(send, code, reason)
    except TimeoutError:
        if line is not None:
            line.abort()


async def _turn_away(
    send: Callable[[Any], Awaitable[None]], reason: str, status: int = FORBIDDEN
) -> None:
    """Refuse the connection itself, in words that the agent can show."""
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == UNAVAILABLE:
        headers.append((b"retry-after", b"%d" % AGAIN_S))
    start = {"type": "websocket.http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": body})


async def _close(send: Callable[[Any], Awaitable[None]], code: int, reason: str) -> None:
    short = reason.encode()[:REASON_MAX].decode(errors="ignore")
    try:
        await send({"type": "websocket.close", "code": code, "reason": short})
    except (RuntimeError, OSError):
        log.debug("the agent was gone before it could be told why")
