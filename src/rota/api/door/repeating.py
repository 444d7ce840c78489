"""What is made once however often it is asked for: requests with an ``Idempotency-Key``.

Before the work begins the key is put on record, and the answer behind it when the work is done. A
repeat gets that answer. Where Rota stopped in between, a repeat is refused: nothing is made twice.
Jobs have their keys in the commit that makes them, and do without this.
"""

from __future__ import annotations

import asyncio
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from rota.api.auth import require
from rota.api.context import ACTOR
from rota.api.door.front import BODY_MAX, read_body, send_whole
from rota.api.jobs.submit import DIGEST_LENGTH, check_key
from rota.controller.loop import Host
from rota.core.facts.errors import Conflict, KeyReused

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from rota.api.asgi import App, Receive, Scope, Send
    from rota.store.api import Store

HEADER = b"idempotency-key"
#: For at least this long a key is remembered.
KEPT_S = 86_400.0
#: The most secrets that are shown again, the newest ones.
HIDDEN_MAX = 1000
_encode = msgspec.json.Encoder(order="sorted").encode


class KeptAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request under a key was answered; without a status it has not ended."""

    digest: str
    status: int = 0
    body: bytes = b""
    media_type: bytes = b""
    location: str = ""
    #: Its body is a secret, which is on no disk.
    hidden: bool = False


class KeyedRequest(NamedTuple):
    """A request that makes something: where its answer is kept, and what it asks for."""

    host: Host
    name: str
    key: str
    digest: str


class Repeating:
    """Around the routes: those that make something (``creates`` in their ``opt``)."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns = WeakValueDictionary[str, asyncio.Lock]()
        #: Answers with secrets, as long as their host lives.
        self._hidden = WeakKeyDictionary[Host, dict[str, bytes]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        opt = scope["route_handler"].opt
        if "creates" not in opt:
            await self._app(scope, receive, send)
            return
        require(scope[ACTOR], opt["right"])
        key = next((value for name, value in scope["headers"] if name == HEADER), b"")
        if not key:
            answer = await self._made(scope, receive)
            await _send(send, answer, answer.status)
            return
        body = await read_body(receive, BODY_MAX)
        turn = _turn(scope, key.decode("latin-1"), body)
        async with self._turns.setdefault(turn.name, asyncio.Lock()):
            known = await _known(turn)
            if known is not None:
                await _send(send, self._repeated(turn, known), 200)
                return
            await _keep(turn, KeptAnswer(turn.digest))
            answer = await self._made(scope, _again(body, receive))
            await self._remember(turn, answer, hidden=bool(opt.get("secret")))
        await _send(send, answer, answer.status)

    async def _made(self, scope: Scope, receive: Receive) -> KeptAnswer:
        """The answer of the route, and where what it made is."""
        status, headers, parts = 0, dict[bytes, bytes](), list[bytes]()

        async def take(message: MutableMapping[str, Any]) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], dict(message["headers"])
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, take)
        body, field = b"".join(parts), scope["route_handler"].opt["creates"]
        made = msgspec.json.decode(body).get(field) if field and status == 201 else None
        folder = scope["route_handler"].opt.get("made_in", scope["path"])
        where = f"{folder}/{made}" if made is not None else ""
        return KeptAnswer("", status, body, headers.get(b"content-type", b""), where)

    def _repeated(self, turn: KeyedRequest, known: KeptAnswer) -> KeptAnswer:
        if known.digest != turn.digest:
            raise KeyReused.of(turn.key)
        if not known.status:
            why = "Rota stopped while it worked on that request; look whether it was done"
        elif known.hidden and turn.name not in self._secrets(turn):
            why = "it made something whose secret was shown once; revoke that"
        else:
            body = self._secrets(turn)[turn.name] if known.hidden else known.body
            return msgspec.structs.replace(known, body=body)
        raise Conflict(
            f"Idempotency-Key: {why}, and use a new key",
            field="Idempotency-Key",
            value=turn.key,
            allowed="a key that was not used before",
        )

    def _secrets(self, turn: KeyedRequest) -> dict[str, bytes]:
        return self._hidden.setdefault(turn.host, {})

    async def _remember(self, turn: KeyedRequest, answer: KeptAnswer, *, hidden: bool) -> None:
        """A refusal made nothing, so its key is free again; after a bug nobody knows."""
        if answer.status >= 300:
            if answer.status != 500:
                await _keep(turn, None)
            return
        kept = msgspec.structs.replace(answer, digest=turn.digest, hidden=hidden)
        if hidden:
            secrets = self._secrets(turn)
            secrets[turn.name] = answer.body
            if len(secrets) > HIDDEN_MAX:
                del secrets[next(iter(secrets))]
            kept = msgspec.structs.replace(kept, body=b"")
        await _keep(turn, kept)


def _turn(scope: Scope, key: str, body: bytes) -> KeyedRequest:
    """The order of fields and blanks make no difference."""
    check_key(key)
    try:
        asked = _encode(msgspec.json.decode(body)) if body else b""
    except (msgspec.DecodeError, RecursionError):
        asked = body
    digest = sha256(f"{scope['method']} {scope['path']}\n".encode() + asked).hexdigest()
    host: Host = scope["litestar_app"].state["context"].host
    return KeyedRequest(host, f"{scope[ACTOR].user}\x1f{key}", key, digest[:DIGEST_LENGTH])


def _read(name: str, store: Store) -> bytes | None:
    return store.answer(name)


def _write(name: str, at_s: float, body: bytes | None, store: Store) -> None:
    store.set_answer(name, at_s, body, before_s=at_s - KEPT_S)


async def _known(turn: KeyedRequest) -> KeptAnswer | None:
    found: bytes | None = await turn.host.read(partial(_read, turn.name))
    return None if found is None else msgspec.msgpack.decode(found, type=KeptAnswer)


async def _keep(turn: KeyedRequest, kept: KeptAnswer | None) -> None:
    body = None if kept is None else msgspec.msgpack.encode(kept)
    await turn.host.write(partial(_write, turn.name, turn.host.clock.now_s(), body))


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever else the caller says."""
    left = [body]

    async def received() -> MutableMapping[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return received


async def _send(send: Send, answer: KeptAnswer, status: int) -> None:
    more = [(b"location", answer.location.encode())] if answer.location else []
    await send_whole(send, status, answer.body, answer.media_type, more)
