"""Routes about network credentials. A secret is shown once, when it is made."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import delete, get, post
from litestar.params import PathParameter

from rota.api import params
from rota.api.auth import new_token, require
from rota.api.bodies import checks
from rota.api.bodies.requests import Body, TokenRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.paging import Listed, ListPart
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import MakeToken, RevokeToken
from rota.core.facts.errors import Rejected
from rota.core.facts.tenant import Access, Token

_token = Body(TokenRequest)
#: How long a join token is good, where nothing else is asked for.
JOIN_S = 86_400


class TokenView(msgspec.Struct):
    id: str
    user: str
    access: Access
    note: str
    created_at: Moment | None
    expires_at: Moment | None
    #: Of a join token: how many more nodes may join with it (null: any number), whether they wait
    #: for approval, and which ones joined with it so far.
    uses_left: int | None = None
    approve: bool = False
    nodes: list[str] = []
    #: For jobs of this project only; empty: for all that its user may do.
    project: str = ""
    #: The token that it was made with and ends with; empty: none.
    by: str = ""


class TokensView(Listed):
    items: list[TokenView]


class NewTokenView(msgspec.Struct):
    """``token`` is the secret; nobody can show it again."""

    id: str
    token: str
    user: str
    access: Access
    expires_at: Moment | None
    #: The server's certificate; who puts it behind the token and a dot speaks to no other server.
    fingerprint: str = ""
    #: Where to connect.
    url: str = ""


@get("/tokens", summary="Tokens, without their secrets", opt={"right": "read"})
async def list_tokens(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> TokensView:
    """An admin sees all of them, others their own. The keys of nodes stand with the nodes."""
    actor = actor_of(request)
    if actor.job:
        require(actor, "token")
    tokens = context_of(request).host.cluster.accounts.tokens
    joined: dict[str, list[str]] = {}
    for key in tokens.values():
        if key.node:
            joined.setdefault(key.joined, []).append(key.node)
    seen = [
        name
        for name, token in sorted(tokens.items())
        if not token.node and (actor.access is Access.ADMIN or token.user == actor.user)
    ]
    page, after = ListPart(limit, cursor).of(seen, str)
    return TokensView(
        [_view(tokens[name], sorted(joined.get(name, ()))) for name in page], cursor=after
    )


def _view(token: Token, nodes: list[str]) -> TokenView:
    return TokenView(
        id=token.id,
        user=token.user,
        access=token.access,
        note=token.note,
        created_at=when(token.created_s),
        expires_at=when(token.expires_s),
        uses_left=token.uses,
        approve=token.approve,
        nodes=nodes,
        project=token.project,
        by=token.by,
    )


@post(
    "/tokens",
    summary="Make a token",
    opt={
        "right": "token",
        "body": TokenRequest,
        "creates": "",
        "secret": True,
        "errors": (404, 429, 503),
    },
)
async def make_token(request: Asking) -> NewTokenView:
    """For oneself with at most one's own role; an admin may make any.

    One with the access `agent` lets a node join: by default one node, within a day.
    """
    asked: TokenRequest = await body_of(request, _token)
    actor, host = actor_of(request), context_of(request).host
    settings = context_of(request).settings
    name, secret, digest = new_token()
    now_s = host.clock.now_s()
    joins = asked.access is Access.AGENT
    if not joins and (asked.uses is not None or asked.approve):
        field = "uses" if asked.uses is not None else "approve"
        raise Rejected.because(
            field, getattr(asked, field), "only a token with access agent has it"
        )
    lasts_s = (JOIN_S if joins else 0) if asked.expires_s is None else asked.expires_s
    uses = 1 if asked.uses is None else asked.uses
    token = Token(
        id=name,
        digest=digest,
        user=checks.word("user", asked.user) or actor.user,
        access=asked.access,
        created_s=now_s,
        note=checks.word("note", asked.note),
        expires_s=now_s + lasts_s if lasts_s else 0.0,
        uses=uses or None if joins else None,
        approve=asked.approve,
        project=checks.word("project", asked.project),
    )
    token = await host.ask(MakeToken(actor=actor, token=token))
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
    """At once, on every connection; those that its user made with it end, too."""
    await context_of(request).host.ask(RevokeToken(actor=actor_of(request), token=token_id))


ROUTES = [list_tokens, make_token, revoke_token]
