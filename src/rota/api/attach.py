"""Attaching to a job's terminal: a WebSocket from the caller to the node's agent.

Binary frames are what is typed and what is shown, as bytes. A text frame from the caller is the
size of its window, ``{"rows": 40, "columns": 120}``. How it ends is said in ``entering``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from rota.api import entering
from rota.api.entering import ACKNOWLEDGE_BYTES, BAD_MESSAGE, INPUT_BYTES_MAX, NORMAL
from rota.core.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.context import Context
    from rota.api.front import Receive, Scope, Send
    from rota.controller.lines import TerminalLine
    from rota.core.tenant import Actor

END = "/attach"
TASK_MAX = 999_999

_Side = Annotated[int, Meta(ge=1, le=9999)]


class Size(msgspec.Struct, forbid_unknown_fields=True):
    """The caller's window."""

    rows: _Side
    columns: _Side


_size = msgspec.json.Decoder(Size).decode


async def serve(
    context: Context,
    identify: Callable[[Scope], Actor | None],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """One viewer, until it detaches or the terminal is gone."""

    async def opening() -> tuple[entering.Talk, Callable[[], None]]:
        line = await _open(context, identify(scope), scope)
        silent = entering.word(scope, "read_only") in ("1", "true")
        talk = (_type(line, receive, silent), _show(line, send))
        return talk, lambda: context.host.links.leave_terminal(line)

    await entering.serve(receive, send, opening, context.closing)


async def _open(context: Context, actor: Actor | None, scope: Scope) -> TerminalLine:
    job = await entering.find_job(context, actor, scope, "its terminal")
    assert actor is not None
    if not job.spec.pty:
        raise Rejected(f"job {job.id} has no terminal; submit it with --pty")
    task = entering.number(scope, "task", "0", 0, TASK_MAX)
    attempt = await entering.enter(context, actor, job, task, "attach")
    link = entering.link_of(context, attempt)
    return context.host.links.open_terminal(link, attempt.uid)


async def _type(line: TerminalLine, receive: Receive, silent: bool) -> tuple[int, str]:
    """Hand on what the caller types, until it leaves; who only looks is not heard."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return NORMAL, ""
        body: bytes | None = message.get("bytes")
        if body is None:
            try:
                size = _size(message.get("text") or "")
            except msgspec.MsgspecError:
                return BAD_MESSAGE, 'expected {"rows": 40, "columns": 120}'
            if not silent:
                line.type(rows=size.rows, columns=size.columns)
        elif len(body) > INPUT_BYTES_MAX:
            return BAD_MESSAGE, f"at most {INPUT_BYTES_MAX} bytes at once"
        elif body and not silent:
            line.type(body)


async def _show(line: TerminalLine, send: Send) -> str:
    """Hand on what the terminal shows, to its end; why it ended, if that was not meant to be."""
    taken = 0
    while True:
        output = await line.output.get()
        if output.body:
            await send({"type": "websocket.send", "bytes": output.body})
            taken += len(output.body)
            if taken >= ACKNOWLEDGE_BYTES:
                line.type(taken=taken)
                taken = 0
        if output.over:
            return output.error
