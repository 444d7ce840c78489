"""Routes about network credentials. A secret is shown once, when it is made."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import delete, get, post
from litestar.params import PathParameter

from rota.api.auth import new_token
from rota.api.bodies import checks
from rota.api.bodies.requests import Body, TokenRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.times import when
from rota.controller.commands.commands import MakeToken, RevokeToken
from rota.core.facts.tenant import Access, Token

_token = Body(TokenRequest)


class TokenView(msgspec.Struct):
    id: str
    user: str
    access: str
    note: str
    created_at: str | None
    expires_at: str | None


class TokensView(msgspec.Struct):
    items: list[TokenView]


class NewTokenView(msgspec.Struct):
    """``token`` is the secret; nobody can show it again."""

    id: str
    token: str
    user: str
    access: str
    expires_at: str | None
    #: The server's certificate; who puts it behind the token and a dot speaks to no other server.
    fingerprint: str = ""
    #: Where to connect.
    url: str = ""


@get("/tokens", summary="Tokens, without their secrets", opt={"right": "read"})
async def list_tokens(request: Asking) -> TokensView:
    """An admin sees all of them, others their own."""
    actor = actor_of(request)
    tokens = context_of(request).host.cluster.accounts.tokens
    return TokensView(
        [
            TokenView(t.id, t.user, t.access, t.note, when(t.created_s), when(t.expires_s))
            for _, t in sorted(tokens.items())
            if actor.access is Access.ADMIN or t.user == actor.user
        ]
    )


@post(
    "/tokens",
    summary="Make a token",
    opt={"right": "token", "body": TokenRequest, "errors": (429, 503)},
)
async def make_token(request: Asking) -> NewTokenView:
    """For oneself with at most one's own role; an admin may make any."""
    asked: TokenRequest = await body_of(request, _token)
    actor, host = actor_of(request), context_of(request).host
    settings = context_of(request).settings
    name, secret, digest = new_token()
    now_s = host.clock.now_s()
    token = Token(
        id=name,
        digest=digest,
        user=checks.word("user", asked.user) or actor.user,
        access=asked.access,
        created_s=now_s,
        note=checks.word("note", asked.note),
        expires_s=now_s + asked.expires_s if asked.expires_s else 0.0,
    )
    await host.ask(MakeToken(actor=actor, token=token))
    return NewTokenView(
        token.id,
        secret,
        token.user,
        token.access,
        when(token.expires_s),
        settings.fingerprint,
        settings.url,
    )


@delete(
    "/tokens/{token_id:str}",
    summary="Make a token invalid",
    opt={"right": "token", "errors": (404, 429, 503)},
)
async def revoke_token(
    request: Asking, token_id: Annotated[str, PathParameter(description="The id of the token")]
) -> None:
    """At once, on every connection."""
    await context_of(request).host.ask(RevokeToken(actor=actor_of(request), token=token_id))


ROUTES = [list_tokens, make_token, revoke_token]
