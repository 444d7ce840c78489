"""The REST route behind ``rota web``: a link that opens the page, once, for the caller."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec
from litestar import post

from rota.api.context import Asking, actor_of, context_of
from rota.web.room import LINK_S, room_of

#: What a server listens on that listens everywhere: a browser on its machine reaches it here.
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})


class LinkView(msgspec.Struct):
    """``url`` opens the web page for the caller; it is good once, for ``expires_in_s``.

    ``path`` is its end, for a caller that reaches the server by another name.
    """

    url: str
    path: str
    expires_in_s: int


@post(
    "/web/links",
    summary="A link that opens the web page for the caller, once",
    opt={"right": "token", "errors": (429, 503)},
)
async def make_link(request: Asking) -> LinkView:
    """Who opens it is signed in as the caller for half a day; it ends with `rota token revoke`."""
    context = context_of(request)
    path = f"/web/enter/{room_of(context).make_link(actor_of(request))}"
    return LinkView(reachable(context.settings.url) + path, path, int(LINK_S))


def reachable(url: str) -> str:
    """The address for a browser on the server's own machine."""
    parts = urlsplit(url)
    if (parts.hostname or "") not in _EVERYWHERE:
        return url
    return f"{parts.scheme or 'http'}://localhost" + (f":{parts.port}" if parts.port else "")


ROUTES = [make_link]
