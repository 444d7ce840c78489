"""What a browser shows: a cookie that holds a token.

A browser sends its cookie along with whatever a page makes it ask for, and the page may be of
another site. So a change counts only with a header that no other site can make it send, and a
WebSocket only from a page of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.errors import Forbidden

if TYPE_CHECKING:
    from rota.api.asgi import Scope

#: Every change that a page asks for carries it.
HEADER = "x-rota-page"
_HEADER = HEADER.encode()
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name(scope: Scope) -> str:
    """Browsers do not tell the ports of a host apart: two Rotas there have a cookie each."""
    port = _header(scope, b"host").rpartition(b":")[2]
    return f"rota_{port.decode()}" if port.isdigit() else "rota"


def authorization_of(scope: Scope, cookie: bytes) -> bytes | None:
    """The cookie's token as a header has it; None: there is none, or it does not count."""
    shown = _shown(cookie, cookie_name(scope).encode())
    if not shown:
        return None
    if scope["type"] == "websocket":
        origin = _header(scope, b"origin").partition(b"://")[2]
        if origin != _header(scope, b"host"):
            return None
    elif scope["method"] not in _READS and not _header(scope, _HEADER):
        raise Forbidden(f"a change from a web page needs the header {HEADER}", field=HEADER)
    return b"Bearer " + shown


def _shown(cookie: bytes, wanted: bytes) -> bytes:
    """The token in a cookie, as we set it: plain, without quotes.

    Anybody may send one, of any form: Python's own reader takes seconds for some that are long.
    """
    for part in cookie.split(b";"):
        name, _, value = part.partition(b"=")
        if name.strip() == wanted:
            return value.strip()
    return b""


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")
