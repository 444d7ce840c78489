"""Routes about working folders that travel with jobs: put one once, name it in many jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get, put
from litestar.params import PathParameter

from rota.api.context import Asking, Context, actor_of, context_of
from rota.api.errors import TooLarge
from rota.controller.agents.bundles import PART_BYTES, BundleShelf, check_digest
from rota.core.facts.errors import NotFound
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Digest = Annotated[str, PathParameter(description="Its sha256, in 64 hexadecimal digits")]


class BundleView(msgspec.Struct):
    digest: str


class BundleLimits(msgspec.Struct):
    #: The most that one may weigh here, packed, in bytes.
    max_size: int


def _shelf(context: Context, digest: str) -> BundleShelf:
    check_digest(digest)
    shelf = context.host.links.bundles
    if shelf is None:
        raise NotFound("there is no place for bundles here", field="digest", value=digest)
    return shelf


@get("/bundles", summary="What a working folder may weigh", opt={"right": "read", "errors": ()})
async def bundle_limits(request: Asking) -> BundleLimits:
    """For callers that pack one; 0 where none is taken."""
    shelf = context_of(request).host.links.bundles
    return BundleLimits(shelf.max_bytes if shelf is not None else 0)


@get(
    "/bundles/{digest:str}",
    summary="Whether a working folder is here",
    opt={"right": "submit", "errors": (404,)},
)
async def show_bundle(request: Asking, digest: Digest) -> BundleView:
    """Looked for before it is uploaded; being asked for keeps it here."""
    shelf = _shelf(context_of(request), digest)
    if not shelf.has(digest):
        raise NotFound(f"there is no bundle {digest[:12]}", field="digest", value=digest)
    return BundleView(digest)


@put(
    "/bundles/{digest:str}",
    summary="Upload a working folder",
    opt={"right": "submit", "errors": (404, 413, 429), "takes": "application/octet-stream"},
    request_max_body_size=None,
)
async def put_bundle(request: Asking, digest: Digest) -> BundleView:
    """A packed folder (tar, gzip). On disk when the answer comes; the same one twice is fine."""
    shelf = _shelf(context_of(request), digest)
    length = request.headers.get("content-length", "")
    if is_digits(length) and int(length) > shelf.max_bytes:
        raise TooLarge(
            f"bundle: it has {length} bytes; at most {shelf.max_bytes} are taken "
            "(bundles.max_size)",
            field="bundle",
            value=int(length),
            allowed=f"at most {shelf.max_bytes} bytes",
        )
    upload = shelf.begin(digest)
    actor, gate = actor_of(request), context_of(request).gate
    try:
        # A disk takes its time: what waits for it is a thread.
        async for part in _in_parts(request.stream()):
            gate.bundles(actor, len(part))
            await asyncio.to_thread(upload.add, part)
        await asyncio.to_thread(upload.keep)
    finally:
        upload.drop()
    return BundleView(digest)


async def _in_parts(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces that are worth a thread's while."""
    waiting = bytearray()
    async for piece in pieces:
        waiting += piece
        if len(waiting) >= PART_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


ROUTES = [bundle_limits, show_bundle, put_bundle]
