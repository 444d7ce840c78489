"""The front door: who is it, is it one of the few busy routes, else on to the framework.

Submitting is what scripts do in loops, so ``POST /jobs`` and ``/jobs:batch`` are answered right
here, at half of the cost; the routes behind are the same functions, for the documentation.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from rota.api import errors
from rota.api.asgi import API
from rota.api.auth import Unauthenticated, identify, require
from rota.api.context import ACTOR
from rota.api.door import agents
from rota.api.door.cookie import authorization_of
from rota.api.door.places import HELD, PLACE
from rota.api.door.request_times import note_time, timed
from rota.api.door.short_way import Reply
from rota.api.errors import TooLarge
from rota.api.gate import counted_as
from rota.api.jobs.submit import SubmitAnswer, submit_batch, submit_one
from rota.api.leaving import GONE, LOST
from rota.api.rounds import InRounds
from rota.api.unread import WHOSE
from rota.api.visits import attach, forward, inside
from rota.api.visits.visits import is_meant
from rota.core.facts.errors import RotaError
from rota.core.facts.tenant import Access
from rota.digits import is_digits
from rota.pretended import HEADER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence

    from rota.api.asgi import App, Receive, Scope, Send
    from rota.api.context import Context
    from rota.api.door.methods import Methods
    from rota.core.facts.tenant import Actor

    Door = Callable[[Context, Actor, Scope, Receive, Send], Awaitable[None]]
    Identify = Callable[[Scope], Actor | None]
    Wing = Callable[[Context, Identify, Scope, Receive, Send], Coroutine[Any, Any, None]]
    Page = tuple[int, bytes, bytes]
    Busy = tuple[Callable[[Context, Actor, bytes, str], Awaitable[SubmitAnswer]], int]

BODY_MAX = 1024 * 1024
#: Where the turns of a request are counted; the short way has none.
ROUND = "rota.round"
REQUEST_ID, REQUEST_ID_MAX = b"x-request-id", 100
_AS_IT_IS = (b"x-content-type-options", b"nosniff")
SUBMIT_MAX = 32 * 1024 * 1024
BATCH_MAX = 128 * 1024 * 1024

#: Path -> who answers it, and the most that its body may weigh.
_BUSY: dict[str, Busy] = {
    f"{API}/jobs": (submit_one, SUBMIT_MAX),
    f"{API}/jobs:batch": (submit_batch, BATCH_MAX),
}
#: No path has another one.
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_NODES = f"{API}/nodes/"
#: They have a bound of their own, which the site sets.
_BUNDLES = f"{API}/bundles/"


class Front:
    """An ASGI app in front of the framework's."""

    def __init__(
        self,
        context: Context,
        inner: App,
        pages: Callable[[str], Page | None],
        methods: Methods,
        doors: Mapping[str, Door] | None = None,
        wing_of: Callable[[str], Wing | None] = lambda _: None,
    ) -> None:
        self.context = context
        self._inner = inner
        #: Paths behind which both sides speak at once, which the framework does not know.
        self._doors = doors or {}
        #: By path: what answers it, and asks by itself who is there.
        self._wing_of = wing_of
        #: What anybody may read: health and documentation, by path.
        self._pages = pages
        self._methods = methods
        #: What every answer says of this Rota.
        self._marks = [(HEADER.encode(), b"1")] if context.settings.pretended else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        LOST.set(scope.get(GONE))
        HELD.set(scope.get(PLACE))
        if scope["type"] == "websocket":
            visit = self._wing_of(scope["path"]) or _visit(scope["path"])
            await self._in_rounds(scope, visit(self.context, self._actor, scope, receive, send))
        elif scope["type"] == "http":
            await self._in_rounds(scope, self._serve(scope, receive, send))

    def _in_rounds(self, scope: Scope, work: Coroutine[Any, Any, None]) -> InRounds[None]:
        """Its user is known once the work has asked who is there."""
        scope[ROUND] = counted = InRounds(self.context.rounds, work)
        return counted

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = timed(self.context, scope, _with_id(scope, send, self._marks))
        plain = send
        send = self.context.unread.bounded(scope, plain, partial(_send_problem, plain))
        try:
            wing = self._wing_of(scope["path"])
            if wing is None:
                await self._answer(scope, receive, send)
            else:
                await wing(self.context, self._actor, scope, receive, send)
        except RotaError as error:
            await _send_problem(send, error)
        except UnicodeError:
            await _send_problem(send, errors.Malformed("the request is not valid UTF-8"))

    def page(self, path: str) -> Page | None:
        """What anybody may read at a path."""
        return self._pages(path)

    async def submit(
        self, client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> Reply:
        """``POST /jobs`` the short way: the same as below for a request that came whole."""
        began_s = time.perf_counter()
        reply = await self._reply(client, headers, body)
        # Who names a request goes the long way.
        reply.headers.extend(_of_every_answer(b""))
        note_time(self.context, "POST", "jobs", reply.status, began_s)
        return reply

    async def _reply(
        self, client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> Reply:
        try:
            scope: Scope = {"client": client, "headers": headers}
            actor = self._known_actor(scope)
            require(actor, "submit")
            if len(body) > SUBMIT_MAX:
                raise _too_large(len(body), SUBMIT_MAX)
            key = _header(scope, b"idempotency-key")
            answer = await submit_one(self.context, actor, body, key)
        except Exception as error:
            problem, more = errors.problem_of(error)
            media = (b"content-type", errors.MEDIA_TYPE.encode())
            return Reply(problem.status, [media, *more], errors.encode_problem(problem))
        media = (b"content-type", b"application/json")
        return Reply(answer.status, [media, *answer.headers, *self._marks], answer.body)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if (page := self._pages(path)) is not None:
            await _send_page(send, method, page)
            return
        actor = self._known_actor(scope)
        # It is known now whose turn it must be.
        await asyncio.sleep(0)
        if method not in _METHODS:
            allowed = ", ".join(self._methods.of(path) or _METHODS)
            raise errors.WrongMethod.bad("method", method, allowed)
        if method == "POST" and (door := self._doors.get(path)) is not None:
            await door(self.context, actor, scope, receive, send)
            return
        busy = _BUSY.get(path) if method == "POST" else None
        if busy is None:
            await self._pass_on(actor, scope, receive, send)
            return
        try:
            answer = await self._submit(busy, actor, scope, receive)
        except Exception as error:
            await _send_problem(send, error)
        else:
            await send_whole(send, answer.status, answer.body, b"application/json", answer.headers)

    async def _pass_on(self, actor: Actor, scope: Scope, receive: Receive, send: Send) -> None:
        """To the framework, which knows neither verbs behind a colon nor heads without bodies."""
        path, method = scope["path"], scope["method"]
        if path.startswith(_NODES) and ":" in path:
            _split_verb(scope, path)
        if method == "OPTIONS" and (allowed := self._methods.of(scope["path"])):
            await send_whole(send, 204, b"", b"", [(b"allow", ", ".join(allowed).encode())])
            return
        scope[ACTOR] = actor
        if not path.startswith(_BUNDLES):
            _refuse_large(scope, BODY_MAX)
        if method == "HEAD":
            scope["method"], send = "GET", _without_body(send)
        await self._inner(scope, receive, send)

    async def _submit(
        self, busy: Busy, actor: Actor, scope: Scope, receive: Receive
    ) -> SubmitAnswer:
        require(actor, "submit")
        work, most = busy
        _refuse_large(scope, most)
        with self.context.gate.holding(actor) as more:
            body = await read_body(receive, most, more)
            return await work(self.context, actor, body, _header(scope, b"idempotency-key"))

    def _known_actor(self, scope: Scope) -> Actor:
        actor = self._actor(scope)
        if actor is None:
            raise Unauthenticated("a token is needed over the network: Authorization: Bearer TOKEN")
        return actor

    def _actor(self, scope: Scope) -> Actor | None:
        shown = cookie = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                shown = value
            elif name == b"cookie":
                cookie = value
        if shown is None and cookie is not None:
            shown = authorization_of(scope, cookie)
        context = self.context
        actor = identify(context.identities, context.host, scope["client"], shown)
        if actor is not None:
            whose = self._whose(scope, actor)
            scope[WHOSE] = whose or None
            if whose and (counted := scope.get(ROUND)) is not None:
                counted.user = whose
            if (place := HELD.get()) is not None:
                place.known(whose)
            context.gate.request(whose)
        return actor

    def _whose(self, scope: Scope, actor: Actor) -> str:
        """Whom it counts for. Many nodes join with one token, and all at once."""
        if actor.access is Access.AGENT and scope.get("type") == "websocket":
            token = self.context.host.cluster.accounts.tokens.get(actor.token)
            if token is None or not token.node:
                return ""
        return counted_as(actor)


def _visit(path: str) -> Any:  # noqa: ANN401 - each serves a WebSocket
    """Who serves a WebSocket: a path below a job is a visit to it, any other one an agent's."""
    for visit in (attach, forward, inside):
        if is_meant(path, visit.END):
            return visit.serve
    return agents.serve


def _split_verb(scope: Scope, path: str) -> None:
    """``/nodes/n1:drain`` is ``/nodes/n1/drain`` to the framework, whose segments are whole."""
    head, _, verb = path.rpartition(":")
    if not verb or head.endswith("/"):
        # No name has a verb alone, and no verb is empty.
        return
    scope["path"] = f"{head}/{verb}"
    scope["raw_path"] = scope["path"].encode()


def _header(scope: Scope, wanted: bytes) -> str:
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return ""


def _refuse_large(scope: Scope, most: int) -> None:
    length = _header(scope, b"content-length")
    if is_digits(length) and int(length) > most:
        raise _too_large(int(length), most)


def _too_large(length: int, most: int) -> TooLarge:
    return TooLarge(
        f"the body has {length} bytes; at most {most} are taken here",
        field="body",
        value=length,
        allowed=f"at most {most} bytes",
    )


async def read_body(
    receive: Receive, most: int, more: Callable[[int], None] = lambda _: None
) -> bytes:
    """The whole body, if it is not too long; ``more`` hears of each piece."""
    message = await receive()
    body: bytes = message.get("body", b"")
    more(len(body))
    if not message.get("more_body"):
        return bytes(body)
    parts, total = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise errors.Malformed("the caller went away before the body was complete")
        parts.append(message.get("body", b""))
        total += len(parts[-1])
        more(len(parts[-1]))
        if total > most:
            raise TooLarge(
                f"the body has more than {most} bytes",
                field="body",
                allowed=f"at most {most} bytes",
            )
    return b"".join(parts)


async def send_whole(
    send: Send,
    status: int,
    body: bytes,
    media_type: bytes,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                *([(b"content-type", media_type)] if media_type else ()),
                *([(b"content-length", str(len(body)).encode())] if status != 204 else ()),
                *(headers or ()),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def _send_page(send: Send, method: str, page: Page) -> None:
    allowed = "GET, HEAD, OPTIONS"
    if method == "OPTIONS":
        await send_whole(send, 204, b"", b"", [(b"allow", allowed.encode())])
    elif method in ("GET", "HEAD"):
        await send_whole(
            _without_body(send) if method == "HEAD" else send, page[0], page[2], page[1]
        )
    else:
        raise errors.WrongMethod.bad("method", method, allowed)


def _with_id(scope: Scope, send: Send, marks: Sequence[tuple[bytes, bytes]]) -> Send:
    """Every answer names its request, as the caller did, else by a name of ours, and what marks
    this Rota; no browser takes it for anything else than it says."""
    given = _header(scope, REQUEST_ID)
    plain = 0 < len(given) <= REQUEST_ID_MAX and given.isascii() and given.isprintable()
    more = [*_of_every_answer(given.encode() if plain else b""), *marks]

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *more]
        await send(message)

    return sent


def _of_every_answer(name: bytes) -> list[tuple[bytes, bytes]]:
    return [(REQUEST_ID, name or secrets.token_hex(8).encode()), _AS_IT_IS]


def _without_body(send: Send) -> Send:
    """The same headers as a GET has, and nothing behind them."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return sent


async def _send_problem(send: Send, error: Exception) -> None:
    problem, headers = errors.problem_of(error)
    body = errors.encode_problem(problem)
    await send_whole(send, problem.status, body, errors.MEDIA_TYPE.encode(), headers)
