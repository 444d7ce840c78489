"""Attaching to a job's terminal: a WebSocket from the caller to the node's agent.

Binary frames are what is typed and what is shown, as bytes. A text frame from the caller is the
size of its window, ``{"rows": 40, "columns": 120}``. How it ends is said in ``visits``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from rota.api.visits import visits
from rota.api.visits.visits import BAD_MESSAGE, INPUT_BYTES_MAX, NORMAL
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.controller.agents.visit_lines import TerminalLine
    from rota.core.facts.tenant import Actor

END = "/attach"

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

    async def opening() -> visits.Opened:
        actor = visits.required(identify(scope))
        line = await open_line(context, actor, scope)
        silent = visits.word(scope, "read_only") in ("1", "true")
        talk = (take_typing(line, receive, silent=silent), visits.hand_out(line, send))
        return visits.Opened(actor, *talk, partial(context.host.links.leave_terminal, line))

    await visits.serve(context, receive, send, opening)


async def open_line(context: Context, actor: Actor, scope: Scope) -> TerminalLine:
    """A line to the terminal of the job that the path names, if the caller may have one."""
    job = await visits.find_job(context, actor, scope, "its terminal")
    if not job.spec.pty:
        raise Rejected(f"job {job.id} has no terminal; submit it with --pty")
    task = visits.number(scope, "task", "0", 0, visits.TASK_MAX)
    attempt = await visits.enter(context, actor, job, task, "attach")
    link = visits.link_of(context, attempt)
    return context.host.links.open_terminal(link, attempt.uid)


def _sized(line: TerminalLine, rows: int, columns: int) -> None:
    line.type(rows=rows, columns=columns)


async def take_typing(
    line: TerminalLine,
    receive: Receive,
    sized: Callable[[int, int], None] | None = None,
    *,
    silent: bool = False,
) -> tuple[int, str]:
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
                (sized or partial(_sized, line))(size.rows, size.columns)
        elif len(body) > INPUT_BYTES_MAX:
            return BAD_MESSAGE, f"at most {INPUT_BYTES_MAX} bytes at once"
        elif body and not silent:
            line.type(body)
