"""Signing in and out: by a token that somebody has, or by a link that is good once.

The cookie holds a token, so a revoked one ends the page's rights like any other use of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from rota.api.auth import Unauthenticated, identify, new_token, still_valid
from rota.api.door.cookie import HEADER, cookie_name
from rota.controller.commands.commands import MakeToken, RevokeToken
from rota.core.facts.errors import Forbidden, Rejected
from rota.core.facts.tenant import Access, Token
from rota.web.answers import PageAnswer, as_json, redirect

if TYPE_CHECKING:
    from rota.api.asgi import Scope
    from rota.api.context import Context
    from rota.core.facts.tenant import Actor

#: Says in a list of tokens what this one is for.
NOTE = "web page"
#: So long a link's sign-in lasts.
LASTS_S = 12 * 3600
HOME = "/"


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    token: str


_sign_in = msgspec.json.Decoder(SignIn).decode


def sign_in(context: Context, scope: Scope, body: bytes) -> PageAnswer:
    """By a token; the answer sets the cookie."""
    if HEADER.encode() not in {name for name, _ in scope["headers"]}:
        raise Forbidden(f"a change from a web page needs the header {HEADER}", field=HEADER)
    try:
        shown = _sign_in(body).token.strip()
    except msgspec.MsgspecError:
        raise Rejected('expected {"token": "rota_..."}', field="token") from None
    if not shown or not shown.isascii() or not shown.isprintable() or {*shown} & set('";, \\'):
        raise Unauthenticated("the token is not valid; an admin can make one with 'rota token'")
    actor = identify(context.identities, context.host, scope["client"], b"Bearer " + shown.encode())
    assert actor is not None  # A token was shown.
    if actor.access is Access.AGENT:
        raise Forbidden("a token for agents opens no page; 'rota token create' makes one that does")
    return as_json({"user": actor.user}, set_cookie=_cookie(scope, shown))


async def enter(context: Context, scope: Scope, actor: Actor | None) -> PageAnswer:
    """By a link of ``rota web``: a token of its own, for half a day, is behind it."""
    if actor is None or not still_valid(context.host, actor):
        return redirect("/web/sign-in?used=1")
    name, secret, digest = new_token()
    now_s = context.host.clock.now_s()
    maker = context.host.cluster.accounts.tokens.get(actor.token)
    # A token makes none that outlives it.
    last_s = maker.expires_s if maker is not None and maker.expires_s else now_s + LASTS_S
    token = Token(
        id=name,
        digest=digest,
        user=actor.user,
        access=actor.access,
        created_s=now_s,
        note=NOTE,
        expires_s=min(last_s, now_s + LASTS_S),
    )
    await context.host.ask(MakeToken(actor=actor, token=token))
    return redirect(HOME, set_cookie=_cookie(scope, secret))


async def sign_out(context: Context, scope: Scope, actor: Actor) -> PageAnswer:
    """The cookie goes; a token that was made for the page goes with it."""
    token = context.host.cluster.accounts.tokens.get(actor.token)
    if token is not None and token.note == NOTE:
        await context.host.ask(RevokeToken(actor=actor, token=token.id))
    return as_json({}, set_cookie=_cookie(scope, "", "; Max-Age=0"))


def forgotten(scope: Scope, place: str) -> PageAnswer:
    """To the sign-in, without a cookie that is not good any more."""
    return redirect(place, set_cookie=_cookie(scope, "", "; Max-Age=0"))


def _cookie(scope: Scope, value: str, more: str = "") -> str:
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return f"{cookie_name(scope)}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"


def place_of(address: str) -> str:
    """A page of ours that somebody wanted to see; the first one for anything else."""
    parts = urlsplit(address)
    ours = address.startswith(("/web/", "/?")) and not parts.netloc and "\\" not in address
    return address if ours and address.isprintable() else HOME
