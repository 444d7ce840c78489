"""What a head that stands by can be asked: lists, pages of jobs, and metrics, as of a moment ago.

It answers a caller that says how far behind is good enough (``Rota-Max-Lag``, in seconds), and
programs that read metrics. Each answer says how far behind it is (``Rota-Lag``).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from rota import __version__
from rota.api.app import make_app
from rota.api.auth import LOCAL
from rota.api.context import Settings
from rota.api.people import PEOPLE
from rota.controller.chores.garbage import quiet_collector
from rota.controller.follower import Follower, SharedClock
from rota.core.facts.errors import RotaError
from rota.heads import LAG_HEADER, MAX_LAG_HEADER
from rota.store.open import open_frozen
from rota.store.readonly import open_readonly

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

    from rota.api.door.front import Front
    from rota.api.plan import ControllerPlan
    from rota.core.derived.ids import Ledger
    from rota.store.api import Store
    from rota.store.sql import SqlStore

log = logging.getLogger("rota.controller")

#: How often it looks for news.
LOOK_S = 0.5
#: It begins anew so often, from what is on disk.
ANEW_S = 3600.0
#: Further behind it answers nobody: a token may have been revoked since.
LAG_MAX_S = 60.0
METRICS = "/metrics"
_ABOUT_ALL = "queue|queues|groups|nodes|stats|usage|projects|users|reservations|allocations"
#: All that needs no agent, and no word that is yet to come.
READABLE = re.compile(
    rf"/api/v1/(?:(?:{_ABOUT_ALL})(?:/[^/]+)?|jobs(?:/[0-9][^/]*(?:/(?:events|attempts))?)?)"
)
LOGS = re.compile(r"/api/v1/jobs/[^/]+/logs")


class RequestHead(msgspec.Struct):
    """The head of a request."""

    method: str
    target: str
    headers: list[tuple[bytes, bytes]]

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def wants_logs(self) -> bool:
        """Whether it asks for what a job printed: on disk here there is nothing of it."""
        return bool(LOGS.fullmatch(self.path))

    def header(self, name: str) -> str:
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key == wanted), "")


def parsed(head: bytes) -> RequestHead | None:
    """None: it is no HTTP."""
    first, *lines = head.partition(b"\r\n\r\n")[0].split(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3 or not all(b":" in line for line in lines):
        return None
    pairs = (line.split(b":", 1) for line in lines)
    return RequestHead(
        words[0], words[1], [(key.strip().lower(), value.strip()) for key, value in pairs]
    )


def _follower(snapshot: SqlStore, ahead: SqlStore) -> Follower:
    return Follower(snapshot, ahead, SharedClock(ahead.now_s))


class Reader:
    """Answers from a state that follows the one on disk."""

    def __init__(self, plan: ControllerPlan) -> None:
        self._plan = plan
        self._follower: Follower | None = None
        #: Made once: to build all routes takes longer than to read the state of a small site.
        self.app: Front | None = None

    @property
    def lag_s(self) -> float | None:
        """How far it is behind; None: it cannot be read."""
        return self._follower.lag_s if self._follower is not None else None

    async def follow(self) -> None:
        """For a while, after which it is begun anew."""
        try:
            async for follower in self._opened():
                end_s = time.monotonic() + ANEW_S
                while time.monotonic() < end_s:
                    await follower.catch_up()
                    self._serve(follower)
                    await asyncio.sleep(LOOK_S)
        except Exception:
            self._drop()
            raise

    async def ended(self, store: Store) -> Ledger | None:
        """How all jobs ended, once nobody else writes: of millions this is most of the state.

        None: it is not known. ``follow`` must not run beside it.
        """
        follower, self._follower = self._follower, None
        if follower is None:
            return None
        follower.store = store
        try:
            if follower.lag_s > LAG_MAX_S:
                return None
            await follower.catch_up()
            return follower.cluster.ids.ended
        except RotaError as error:
            log.warning("the state is read anew: %s", error)
            return None
        finally:
            follower.let_go()

    def _drop(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.let_go()

    async def _opened(self) -> AsyncIterator[Follower]:
        ahead = await asyncio.to_thread(open_readonly, self._plan.database)
        try:
            snapshot = await asyncio.to_thread(open_frozen, self._plan.database)
            try:
                follower = await asyncio.to_thread(_follower, snapshot, ahead)
            finally:
                snapshot.close()
            yield follower
        finally:
            ahead.close()

    def _serve(self, follower: Follower) -> None:
        if self._follower is not follower:
            settings = Settings(
                version=__version__, database=follower.store.name, limits=self._plan.limits
            )
            fresh = self.app is None
            self.app = make_app(follower, settings, self.app)
            self._drop()
            self._follower = follower
            if fresh:
                quiet_collector()

    def answers(self, asked: RequestHead) -> bool:
        """Whether it may, and is not too far behind."""
        if asked.method != "GET" or self.lag_s is None:
            return False
        if asked.path == METRICS:
            return self.lag_s <= LAG_MAX_S
        try:
            wanted_s = float(asked.header(MAX_LAG_HEADER) or -1)
        except ValueError:
            return False
        return self.lag_s <= min(wanted_s, LAG_MAX_S) and bool(READABLE.fullmatch(asked.path))

    async def answer(self, asked: RequestHead, client: tuple[str, int] | None) -> bytes:
        """The whole answer, as it goes over the line."""
        if client is not None and client[0].startswith(LOCAL):
            await PEOPLE.look_up([int(client[0].removeprefix(LOCAL))], again=True)
        lag = f"{self.lag_s or 0.0:.1f}"
        path, _, query = asked.target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": asked.path,
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": asked.headers,
            "client": client,
            "server": None,
            "state": {},
        }
        assert self.app is not None
        status, headers, parts = 500, list[tuple[bytes, bytes]](), list[bytes]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], list(message.get("headers", ()))
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive, send)
        body = b"".join(parts)
        kept = [pair for pair in headers if pair[0].lower() != b"content-length"]
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(),
            *(name + b": " + value for name, value in kept),
            f"Content-Length: {len(body)}\r\n{LAG_HEADER}: {lag}\r\nConnection: close".encode(),
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body
