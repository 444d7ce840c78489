"""What goes back over ASGI, with the headers that keep a page safe."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from rota.api.asgi import Receive, Send

HTML, JSON = "text/html; charset=utf-8", "application/json"
#: Scripts and styles come from files of ours only; nobody may put the page into a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
FRESH = {"cache-control": "no-store"}
#: The address of a file changes with what is in it.
KEPT = {"cache-control": "max-age=31536000, immutable"}


class PageAnswer(NamedTuple):
    """One answer that is there as a whole."""

    body: bytes = b""
    media: str = HTML
    status: int = 200
    headers: dict[str, str] = FRESH


def as_json(value: Any, status: int = 200, **headers: str) -> PageAnswer:  # noqa: ANN401
    return PageAnswer(msgspec.json.encode(value), JSON, status, {**FRESH, **headers})


def redirect(place: str, **headers: str) -> PageAnswer:
    """To another page, with a GET."""
    return PageAnswer(b"", HTML, 303, {**FRESH, "location": place, **headers})


async def give(send: Send, answer: PageAnswer, *, head: bool = False) -> None:
    """Send an answer; of a HEAD no more than its headers."""
    length = {"content-length": str(len(answer.body))}
    await _begin(send, answer.status, {"content-type": answer.media, **length, **answer.headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})


async def stream(receive: Receive, send: Send, pieces: AsyncGenerator[bytes]) -> None:
    """Server-sent events, as they come, until the page has gone."""
    await _begin(send, 200, {"content-type": "text/event-stream", **FRESH})
    telling = asyncio.create_task(_tell(send, pieces))
    leaving = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        telling.cancel()
        leaving.cancel()
        await asyncio.gather(telling, leaving, return_exceptions=True)


async def _tell(send: Send, pieces: AsyncGenerator[bytes]) -> None:
    async with aclosing(pieces):
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _begin(send: Send, status: int, headers: dict[str, str]) -> None:
    named = {**SAFE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
