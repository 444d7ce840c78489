"""Routes about the audit: who did what to which object."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from rota.api import params
from rota.api.context import Asking, context_of
from rota.api.views.lookup import ID_MAX
from rota.api.views.paging import Listed
from rota.api.views.times import Moment, when
from rota.core.facts.errors import Rejected
from rota.moments import parse_last
from rota.store.api import AuditFilter


class AuditView(msgspec.Struct):
    """One record. ``refused`` says why it was not done; null: it was."""

    seq: int
    at: Moment | None
    user: str
    #: `local`, `token ID` or `job ID`.
    via: str
    address: str
    action: str
    object: str
    refused: str | None


class AuditPage(Listed):
    """The newest first; ``before`` is an older name of ``cursor``."""

    items: list[AuditView]
    before: int | None


Word = Annotated[str, QueryParameter(max_length=500)]


@get("/audit", summary="Who did what to which object", opt={"right": "administer", "errors": ()})
async def show_audit(
    request: Asking,
    user: Word = "",
    action: Annotated[str, QueryParameter(description="Such as `cancel`, `logs`, `attach`")] = "",
    object: Annotated[str, QueryParameter(description="Such as `job 12`, `node n1`")] = "",
    since: Annotated[str, QueryParameter(description="Not before 2026-11-15T18:00:00Z")] = "",
    before: Annotated[int, QueryParameter(description="Older than this one", ge=0, lt=ID_MAX)] = 0,
    limit: params.Limit = 100,
    cursor: params.Cursor = "",
) -> AuditPage:
    """Reads of logs and requests, visits to terminals and refusals are in it, too."""
    host = context_of(request).host
    try:
        since_s = parse_last(since, host.clock.now_s(), UTC) if since else 0.0
    except ValueError as error:
        raise Rejected(f"since: {error}", field="since", value=since) from None
    await host.audit.flush()
    wanted = AuditFilter(user, action, object, since_s)
    older = params.parse_cursor(cursor) or before
    found = await host.read(lambda store: store.audit(wanted, before=older, limit=limit))
    items = [
        AuditView(r.seq, when(r.at_s), r.user, r.via, r.address, r.action, r.object, r.refused)
        for r in found
    ]
    for item in items:
        item.refused = item.refused or None
    after = items[-1].seq if len(items) == limit else None
    return AuditPage(items, after, cursor=None if after is None else str(after))


ROUTES = [show_audit]
