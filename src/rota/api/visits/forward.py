"""Reaching into a job: one WebSocket per connection to one of its ports, by way of the agent.

``/jobs/12/forward?port=8888``. Binary frames are bytes, in both directions; the text frame ``end``
says that the sender will send no more (its half is closed) and still listens. Who reads slowly is
waited for, in both directions. How it ends is said in ``visits``.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from rota.api.visits import visits
from rota.api.visits.visits import BAD_MESSAGE, HALF_CLOSED, INPUT_BYTES_MAX, NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.controller.agents.visit_lines import TunnelLine
    from rota.core.facts.tenant import Actor

END = "/forward"
PORT_MAX = 65_535
#: Sockets of the caller itself, by the number that its kernel gave each.
_INODE = re.compile("[0-9]{1,18}")
OWN_MAX = 64


async def serve(
    context: Context,
    identify: Callable[[Scope], Actor | None],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """One connection, until both sides have ended it or one has gone."""

    async def opening() -> visits.Opened:
        actor = visits.required(identify(scope))
        line = await _open(context, actor, scope)
        talk = (_hand_in(line, receive), visits.hand_out(line, send))
        return visits.Opened(actor, *talk, partial(context.host.links.leave_tunnel, line))

    await visits.serve(context, receive, send, opening)


async def _open(context: Context, actor: Actor, scope: Scope) -> TunnelLine:
    job = await visits.find_job(context, actor, scope, "what listens in it")
    port = visits.number(scope, "port", "", 1, PORT_MAX)
    task = visits.number(scope, "task", "0", 0, visits.TASK_MAX)
    own = visits.word(scope, "own").split(",")[:OWN_MAX]
    attempt = await visits.enter(context, actor, job, task, f"forward {port}")
    return context.host.links.open_tunnel(
        visits.link_of(context, attempt),
        attempt.uid,
        port,
        visits.word(scope, "boot")[:64],
        tuple(int(word) for word in own if _INODE.fullmatch(word)),
    )


async def _hand_in(line: TunnelLine, receive: Receive) -> tuple[int, str]:
    """Bytes for the port, until the caller leaves, which is seen while the port is stuck, too."""
    coming: asyncio.Future[Any] | None = None
    try:
        while True:
            message = await (coming or receive())
            coming = None
            if message["type"] == "websocket.disconnect":
                return NORMAL, ""
            body: bytes | None = message.get("bytes")
            if body is None:
                if message.get("text") != HALF_CLOSED:
                    return BAD_MESSAGE, f"expected bytes, or the text {HALF_CLOSED}"
                line.end()
            elif len(body) > INPUT_BYTES_MAX:
                return BAD_MESSAGE, f"at most {INPUT_BYTES_MAX} bytes at once"
            elif body:
                if line.is_full:
                    coming = asyncio.ensure_future(receive())
                    if not await _room_before(line, coming):
                        return NORMAL, ""
                line.write(body)
    finally:
        if coming is not None:
            coming.cancel()


async def _room_before(line: TunnelLine, coming: asyncio.Future[Any]) -> bool:
    """Wait for room; False if the caller leaves first."""
    room = asyncio.ensure_future(line.room())
    try:
        await asyncio.wait({room, coming}, return_when=asyncio.FIRST_COMPLETED)
        if not room.done() and coming.result()["type"] == "websocket.disconnect":
            return False
        await room
        return True
    finally:
        room.cancel()
