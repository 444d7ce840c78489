"""What attaching to a job and reaching into its ports share: who may, which task, how it ends.

Both are WebSockets. They end with 1000 when all is over, with 1008 and a reason when the caller
may not (any more), with 1013 and a reason when not now, with 1003 when it said what we do not
understand.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote

from rota.api.auth import until_invalid
from rota.api.views.lookup import find
from rota.controller.commands.change import may_change_job
from rota.controller.commands.commands import EnterJob
from rota.controller.commands.enter_job import running_attempt
from rota.core.facts.array import Array
from rota.core.facts.errors import Conflict, Forbidden, Rejected, RotaError, Unavailable
from rota.core.facts.features import WITHOUT, Feature, can
from rota.digits import is_digits
from rota.rpc.visits import TunnelOutput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.controller.agents.visit_lines import TerminalLine, TunnelLine
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.tenant import Actor

BEGIN = "/api/v1/jobs/"
NORMAL, BAD_MESSAGE, POLICY_VIOLATION, TRY_LATER = 1000, 1003, 1008, 1013
REASON_BYTES_MAX = 120
INPUT_BYTES_MAX = 64 * 1024
TASK_MAX = 999_999
#: The text frame of one who will send no more and still listens.
HALF_CLOSED = "end"
#: Output is acknowledged to the agent in portions of about this size.
ACKNOWLEDGE_BYTES = 16 * 1024
#: One who comes again for the same within this time is not put on record again.
AGAIN_S = 600.0


class Opened(NamedTuple):
    """A line that is open: what hands on the caller's words, what hands on those of the job."""

    actor: Actor
    says: Coroutine[Any, Any, tuple[int, str]]
    hears: Coroutine[Any, Any, str]
    #: Gives the line back.
    leave: Callable[[], None]


def is_meant(path: str, end: str) -> bool:
    return path.startswith(BEGIN) and path.endswith(end)


def required(actor: Actor | None) -> Actor:
    """Nobody comes in without a name."""
    if actor is None:
        raise Forbidden("a token is needed over the network")
    return actor


async def find_job(context: Context, actor: Actor, scope: Scope, what: str) -> Job:
    """The job that a path names, if the caller may enter it; ``what`` is theirs."""
    ref = scope["path"][len(BEGIN) :].rpartition("/")[0]
    job = await find(context.host, unquote(ref))
    if actor.job or not may_change_job(actor, job.spec, job.id):
        raise Forbidden(f"job {job.id} belongs to {job.spec.user}; so does {what}")
    if isinstance(job, Array):
        raise Rejected(f"{job.id} is an array; name an element, as in {job.id}_3")
    return job


async def enter(context: Context, actor: Actor, job: Job, task: int, way: str) -> Attempt:
    """The attempt that runs now; that somebody went in is on record by then."""
    attempt = running_attempt(job, task)
    node = context.host.cluster.nodes.get(attempt.allocation.node)
    if node is not None and not can(node.spec, Feature.VISITS):
        raise Rejected(f"job {job.id}: engine {node.spec.engine} {WITHOUT[Feature.VISITS]}")
    host, now_s = context.host, context.host.clock.now_s()
    key = (f"{actor.user} {actor.via} {actor.address}", attempt.uid, way)
    if now_s - context.entered.get(key, 0.0) > AGAIN_S:
        attempt = await host.ask(EnterJob(actor=actor, job=job.id, task=task, way=way))
        fresh = {known: at_s for known, at_s in context.entered.items() if now_s - at_s < AGAIN_S}
        context.entered = {**fresh, key: now_s}
    return attempt


def link_of(context: Context, attempt: Attempt) -> int:
    """The connection to the agent of the attempt's node."""
    node = attempt.allocation.node
    session = context.host.sessions.by_node.get(node)
    if session is None:
        raise Unavailable(f"node {node} is not connected; try again when it is back")
    return session.link


def word(scope: Scope, name: str, default: str = "") -> str:
    """A parameter of the address; the last one counts."""
    raw: bytes = scope.get("query_string", b"")
    query = parse_qs(raw.decode("latin-1"))
    return query.get(name, [default])[-1]


def number(scope: Scope, name: str, default: str, least: int, most: int) -> int:
    text = word(scope, name, default)
    if not (is_digits(text) and len(text) < 7):
        raise Rejected(f"{name}: {text[:20]!r} is not valid; a number from {least} to {most}")
    if not least <= int(text) <= most:
        raise Rejected(f"{name}: {text} is not valid; a number from {least} to {most}")
    return int(text)


async def serve(
    context: Context, receive: Receive, send: Send, opening: Callable[[], Awaitable[Opened]]
) -> None:
    """Open a line, then talk in both directions until one of them ends, or the caller may not."""
    await receive()
    await send({"type": "websocket.accept"})
    try:
        line = await opening()
    except RotaError as error:
        code = TRY_LATER if isinstance(error, Unavailable | Conflict) else POLICY_VIOLATION
        await close(send, code, str(error))
        return
    saying, hearing = asyncio.create_task(line.says), asyncio.create_task(line.hears)
    stopping = asyncio.create_task(_until_over(context, line.actor))
    try:
        await asyncio.wait({saying, hearing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if hearing.done() and not hearing.cancelled() and hearing.exception() is None:
            problem = hearing.result()
            await close(send, TRY_LATER if problem else NORMAL, problem)
        elif saying.done() and not saying.cancelled() and saying.exception() is None:
            await close(send, *saying.result())
        elif stopping.done():
            await close(send, *stopping.result())
    finally:
        line.leave()
        for task in (saying, hearing, stopping):
            task.cancel()
        await asyncio.gather(saying, hearing, stopping, return_exceptions=True)


async def _until_over(context: Context, actor: Actor) -> tuple[int, str]:
    """Wait until nobody may talk any more, and say why."""
    await context.until_closing(until_invalid(context.host, actor))
    if context.closing.is_set():
        return TRY_LATER, "rota is stopping; try again when it is up"
    return POLICY_VIOLATION, "the token that was shown is not valid any more"


async def hand_out(line: TerminalLine | TunnelLine, send: Send) -> str:
    """What a job shows or sends, to its end; why it ended, if that was not meant to be."""
    taken = 0
    while True:
        output = await line.output.get()
        if output.body:
            await send({"type": "websocket.send", "bytes": output.body})
            taken += len(output.body)
            if taken >= ACKNOWLEDGE_BYTES:
                line.took(taken)
                taken = 0
        if isinstance(output, TunnelOutput) and output.end:
            await send({"type": "websocket.send", "text": HALF_CLOSED})
        if output.over:
            return output.error


async def close(send: Send, code: int, reason: str) -> None:
    short = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
    try:
        await send({"type": "websocket.close", "code": code, "reason": short})
    except (RuntimeError, OSError):
        return  # The caller was gone before it could be told.
