"""Attaching to a job's terminal: a WebSocket from the caller to the node's agent.

Binary frames are what is typed and what is shown, as bytes. A text frame from the caller is the
size of its window, ``{"rows": 40, "columns": 120}``. The connection ends with 1000 when the
terminal is gone, with 1008 and a reason when the caller may not attach, with 1013 when not now.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec import Meta

from rota.api.lookup import find
from rota.controller.change import may_change
from rota.core.errors import Conflict, Forbidden, NotFound, Rejected, RotaError, Unavailable
from rota.core.job import Array, Job
from rota.core.states import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.context import Context
    from rota.api.front import Receive, Scope, Send
    from rota.controller.links import TerminalLine
    from rota.core.job import Attempt
    from rota.core.tenant import Actor

BEGIN, END = "/api/v1/jobs/", "/attach"
NORMAL, BAD_MESSAGE, POLICY_VIOLATION, TRY_LATER = 1000, 1003, 1008, 1013
REASON_BYTES_MAX = 120
INPUT_BYTES_MAX = 64 * 1024
#: Output is acknowledged to the agent in portions of about this size.
ACKNOWLEDGE_BYTES = 16 * 1024

_Side = Annotated[int, Meta(ge=1, le=9999)]


class Size(msgspec.Struct, forbid_unknown_fields=True):
    """The caller's window."""

    rows: _Side
    columns: _Side


_size = msgspec.json.Decoder(Size).decode


def is_meant(path: str) -> bool:
    return path.startswith(BEGIN) and path.endswith(END)


async def serve(
    context: Context,
    identify: Callable[[Scope], Actor | None],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """One viewer, until it detaches or the terminal is gone."""
    await receive()
    await send({"type": "websocket.accept"})
    try:
        attempt = await _attempt(context, identify(scope), scope)
        line = _open(context, attempt)
    except RotaError as error:
        code = TRY_LATER if isinstance(error, Unavailable | Conflict) else POLICY_VIOLATION
        await _close(send, code, str(error))
        return
    typing = asyncio.create_task(_type(line, receive, _is_silent(scope)))
    showing = asyncio.create_task(_show(line, send))
    closing = asyncio.create_task(context.closing.wait())
    try:
        await asyncio.wait({typing, showing, closing}, return_when=asyncio.FIRST_COMPLETED)
        if showing.done() and not showing.cancelled() and showing.exception() is None:
            problem = showing.result()
            await _close(send, TRY_LATER if problem else NORMAL, problem)
        elif typing.done() and not typing.cancelled() and typing.exception() is None:
            await _close(send, *typing.result())
        elif closing.done():
            await _close(send, TRY_LATER, "rota is stopping; attach again when it is up")
    finally:
        line.close()
        for task in (typing, showing, closing):
            task.cancel()
        await asyncio.gather(typing, showing, closing, return_exceptions=True)


async def _attempt(context: Context, actor: Actor | None, scope: Scope) -> Attempt:
    """The running attempt whose terminal is meant, if the caller may attach to it."""
    if actor is None:
        raise Forbidden("a token is needed over the network")
    job = await find(context.host, unquote(scope["path"][len(BEGIN) : -len(END)]))
    if not may_change(actor, job.spec.user):
        raise Forbidden(f"job {job.id} belongs to {job.spec.user}; so does its terminal")
    if isinstance(job, Array):
        raise Rejected(f"{job.id} is an array; name an element, as in {job.id}_3")
    if not job.spec.pty:
        raise Rejected(f"job {job.id} has no terminal; submit it with --pty")
    return _running(job, _task(scope))


def _running(job: Job, task: int) -> Attempt:
    if task >= job.spec.task_count:
        raise NotFound(f"job {job.id} has no task {task}")
    current = job.tasks[task].current if task < len(job.tasks) else None
    if job.outcome is not None or current is None or current.phase is not Phase.RUNNING:
        raise Conflict(f"job {job.id} is {job.state}; only a running job can be attached to")
    return current


def _query(scope: Scope) -> dict[str, list[str]]:
    return parse_qs(scope.get("query_string", b"").decode("latin-1"))


def _task(scope: Scope) -> int:
    text = _query(scope).get("task", ["0"])[-1]
    if not text.isdecimal() or len(text) > 6:
        raise Rejected(f"task: {text[:20]!r} is not valid; a number from 0")
    return int(text)


def _is_silent(scope: Scope) -> bool:
    """Whether the caller only looks: what it types is dropped."""
    return _query(scope).get("read_only", [""])[-1] in ("1", "true")


def _open(context: Context, attempt: Attempt) -> TerminalLine:
    node = attempt.allocation.node
    session = context.host.sessions.by_node.get(node)
    if session is None:
        raise Unavailable(f"node {node} is not connected; try again when it is back")
    return context.host.links.open_terminal(session.link, attempt.uid)


async def _type(line: TerminalLine, receive: Receive, silent: bool) -> tuple[int, str]:
    """Hand on what the caller types, until it leaves."""
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


async def _close(send: Any, code: int, reason: str) -> None:  # noqa: ANN401 - ASGI's
    short = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
    try:
        await send({"type": "websocket.close", "code": code, "reason": short})
    except (RuntimeError, OSError):
        return  # The caller was gone before it could be told.
