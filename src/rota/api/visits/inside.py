"""A program beside that of a running job: a WebSocket from the caller to the node's agent.

The first text frame says what to run: ``{"argv": ["nvidia-smi"], "rows": 40, "columns": 120}``.
From then on it is as attaching to a terminal is (``attach``). The program has the job's user,
environment, folder, CPUs and memory, and ends when the caller leaves or the job ends.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from rota.api.visits import visits
from rota.api.visits.attach import take_typing
from rota.controller.commands.enter_job import running_attempt
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.controller.agents.visit_lines import TerminalLine
    from rota.core.facts.tenant import Actor

END = "/exec"
ARGV_BYTES_MAX = 64 * 1024
_Side = Annotated[int, Meta(ge=0, le=9999)]


class InsideCommand(msgspec.Struct, forbid_unknown_fields=True):
    """What to run, and on how large a terminal; without sides it has the usual size."""

    argv: Annotated[tuple[str, ...], Meta(min_length=1, max_length=4096)]
    rows: _Side = 0
    columns: _Side = 0


_wanted = msgspec.json.Decoder(InsideCommand).decode


async def serve(
    context: Context,
    identify: Callable[[Scope], Actor | None],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """One program, until it ends or the caller leaves."""

    async def opening() -> visits.Opened:
        actor = visits.required(identify(scope))
        line = await _open(context, actor, scope, receive)
        talk = (take_typing(line, receive), visits.hand_out(line, send))
        return visits.Opened(actor, *talk, partial(context.host.links.leave_terminal, line))

    await visits.serve(context, receive, send, opening)


async def _open(context: Context, actor: Actor, scope: Scope, receive: Receive) -> TerminalLine:
    job = await visits.find_job(context, actor, scope, "what runs in it")
    task = visits.number(scope, "task", "0", 0, visits.TASK_MAX)
    if job.spec.image and not running_attempt(job, task).external:
        raise Rejected(f"job {job.id} runs in a container, into which nothing is started later")
    asked = await _asked(receive)
    attempt = await visits.enter(context, actor, job, task, "exec")
    link = visits.link_of(context, attempt)
    line = context.host.links.open_terminal(link, attempt.uid, asked.argv, job.spec.user)
    if asked.rows and asked.columns:
        line.type(rows=asked.rows, columns=asked.columns)
    return line


async def _asked(receive: Receive) -> InsideCommand:
    message = await receive()
    text = message.get("text") or ""
    if len(text) > ARGV_BYTES_MAX:
        raise Rejected(f"argv: at most {ARGV_BYTES_MAX} bytes")
    try:
        asked = _wanted(text)
    except (msgspec.MsgspecError, UnicodeError):
        raise Rejected('expected {"argv": ["nvidia-smi"]}') from None
    if any("\0" in word for word in asked.argv):
        raise Rejected("argv: no NUL characters")
    return asked
