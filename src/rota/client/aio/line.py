"""HTTP to the server without blocking the loop: one kept connection, one more for each stream."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx

from rota.client.errors import Unreachable
from rota.client.http import (
    ANSWER_TIMEOUT_S,
    API,
    BUSY_PATIENCE_S,
    CONNECT_TIMEOUT_S,
    HEADS_PATIENCE_S,
    HEADS_PAUSE_S,
)
from rota.client.wire.answers import refusal
from rota.client.wire.leading import LOOK_S, leads
from rota.client.wire.sending import encode, given
from rota.fingerprints import WrongCertificate, check, context_for, explain
from rota.heads import LEADER_HEADER, MAX_LAG_HEADER
from rota.pretended import HEADER, REMARK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from rota.client.http import Client

#: There is no server, or not the one that is meant.
NOBODY = (httpx.ConnectError, httpx.ConnectTimeout, WrongCertificate)


class AsyncLine:
    """The way to the server that a client for threads knows, too."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {client.token}"} if client.token else {}
        self._headers |= {MAX_LAG_HEADER: client.max_lag} if client.max_lag else {}
        self._addresses = list(client.addresses)
        self._has_heads = len(self._addresses) > 1 and not client.is_local
        self._http = self._open()
        #: Calls go one after the other, so that one connection is enough for all of them.
        self._turn = asyncio.Lock()
        #: So do results, on another one: a large one holds up no call.
        self._reading = asyncio.Lock()

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._addresses[0]

    def _open(self) -> httpx.AsyncClient:
        address = self._addresses[0]
        path = address.removeprefix("unix://") if address.startswith("unix:") else None
        secure = pinned(self._client.fingerprint) if address.startswith("https:") else False
        return httpx.AsyncClient(
            base_url=("http://localhost" if path else address.rstrip("/")) + API,
            headers=self._headers,
            transport=httpx.AsyncHTTPTransport(uds=path, verify=secure),
            timeout=httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            trust_env=False,
        )

    async def close(self) -> None:
        """Let go of every connection."""
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str = "",
        parameters: Mapping[str, object] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """One call and its decoded answer. A full inbox (429) is waited out for a while.

        A call that changes something is repeated only under a key: it might have been done.
        """
        give_up_s = asyncio.get_running_loop().time() + BUSY_PATIENCE_S
        while True:
            response = await self._exchange(method, path, body, key, parameters or {}, self._turn)
            if response.status_code < 400:
                return response.json() if response.content else None
            said = refusal(response.status_code, response.content, _pause(response))
            pause_s = max(said.retry_after_s, 0.05)
            late = asyncio.get_running_loop().time() + pause_s > give_up_s
            if said.status != 429 or late:
                raise said
            await asyncio.sleep(pause_s)

    async def left_by(self, job: int, task: int = 0, part: str = "result") -> bytes | None:
        """What a task left on its node; None where it left nothing, or that is gone."""
        path, asked = f"/jobs/{job}/result", {"task": task, "part": part}
        response = await self._exchange("GET", path, None, "", asked, self._reading)
        if response.status_code == 404:
            return None
        if response.status_code >= 400:
            raise refusal(response.status_code, response.content, _pause(response))
        return response.content

    async def _exchange(
        self,
        method: str,
        path: str,
        body: object,
        key: str,
        parameters: Mapping[str, object],
        turn: asyncio.Lock,
    ) -> httpx.Response:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        headers |= {"Idempotency-Key": key} if key else {}
        content = None if body is None else encode(body)
        repeatable = method in {"GET", "PUT", "DELETE"} or bool(key)
        repeats = int(repeatable)
        give_up_s = _now_s() + HEADS_PATIENCE_S
        async with turn:
            while True:
                try:
                    response = await self._unless_another_leads(
                        self._http.request(
                            method, path, content=content, headers=headers, params=given(parameters)
                        )
                    )
                    if HEADER in response.headers:
                        self._client.remark(REMARK)
                    if not await self._elsewhere(response, give_up_s, key):
                        return response
                except NOBODY as error:
                    if not await self._next_head(give_up_s):
                        await self._next_address(error)
                except httpx.TransportError as error:
                    if repeatable and await self._next_head(give_up_s):
                        continue
                    # The server may have closed the kept connection meanwhile.
                    if not repeats or not isinstance(error, httpx.RemoteProtocolError):
                        raise self._broken(error) from None
                    repeats -= 1

    async def _unless_another_leads(
        self, call: Coroutine[Any, Any, httpx.Response]
    ) -> httpx.Response:
        """The answer. A head that hangs, or was cut off, will not give one."""
        if not self._has_heads:
            return await call
        asking = asyncio.ensure_future(call)
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK_S))[0]:
                for other in self._addresses[1:]:
                    if await asyncio.to_thread(leads, other, self._client.fingerprint):
                        raise httpx.ReadError("another head leads by now")
            return await asking
        finally:
            asking.cancel()

    async def _elsewhere(self, response: httpx.Response, give_up_s: float, key: str = "") -> bool:
        """Whether another head is to be asked. The one that leads may be a new one to us."""
        if response.status_code != 503:
            return False
        leader = response.headers.get(LEADER_HEADER, "")
        if leader.startswith("http") and self._client.token and leader not in self._addresses:
            self._addresses.append(leader)
            self._has_heads = True
        # A leader that lost its database says 503, too: under a key it is safe to ask the next.
        return bool(leader or key) and await self._next_head(give_up_s)

    async def _next_head(self, give_up_s: float) -> bool:
        """Turn to the next of several heads; False where there is no other, or it took too long."""
        if not self._has_heads or _now_s() > give_up_s:
            return False
        self._addresses.append(self._addresses.pop(0))
        await self._http.aclose()
        self._http = self._open()
        await asyncio.sleep(HEADS_PAUSE_S)
        return True

    async def _next_address(self, error: Exception) -> None:
        """Where else the server may be; a server that answered once is not looked for elsewhere."""
        if len(self._addresses) == 1:
            raise self._nobody(error) from None
        del self._addresses[0]
        await self._http.aclose()
        self._http = self._open()

    @asynccontextmanager
    async def stream(
        self, path: str, parameters: Mapping[str, object], silence_s: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a streamed answer as it arrives, on a connection of its own."""
        patience = httpx.Timeout(CONNECT_TIMEOUT_S, read=silence_s)
        give_up_s = _now_s() + HEADS_PATIENCE_S
        try:
            while True:
                async with self._http.stream(
                    "GET", path, params=given(parameters), timeout=patience
                ) as response:
                    if response.status_code < 400:
                        yield response.aiter_bytes()
                        return
                    body = await response.aread()
                if not await self._elsewhere(response, give_up_s):
                    raise refusal(response.status_code, body, _pause(response))
        except NOBODY as error:
            raise self._nobody(error) from None
        except httpx.TransportError as error:
            raise self._broken(error) from None

    def _nobody(self, error: Exception) -> Unreachable:
        if self.url.startswith("unix:"):
            looked = self.url.removeprefix("unix://")
            return Unreachable(
                f"rota is not running here: start it with 'rota up --detach' (looked at {looked})"
            )
        return Unreachable(f"nothing answers at {self.url}: {_words(error)}")

    def _broken(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"the connection to {self.url} broke: {_words(error)}; is rota still running?"
        )


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _pause(response: httpx.Response) -> str | None:
    said: str | None = response.headers.get("Retry-After")
    return said


def _words(error: Exception) -> str:
    """What the system said first, where several libraries have wrapped it."""
    first: BaseException = error
    while not isinstance(first, OSError) and (below := first.__cause__ or first.__context__):
        first = below
    return (explain(first) if isinstance(first, OSError) else str(error)) or type(error).__name__


def pinned(fingerprint: str) -> ssl.SSLContext:
    """Says nothing before the certificate was looked at."""

    class Looking(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            check(self.getpeercert(binary_form=True), fingerprint)

    context = context_for(fingerprint)
    context.sslobject_class = Looking
    return context
