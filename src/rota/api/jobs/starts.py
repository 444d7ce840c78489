"""When jobs that wait will probably start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import get
from msgspec.structs import asdict

from rota.api import params
from rota.api.context import Asking, context_of
from rota.api.views.foretold import ForetoldView, foretold_view
from rota.api.views.paging import Listed, ListPart

if TYPE_CHECKING:
    from rota.api.context import Context


class StartView(ForetoldView):
    """What is said of one job; of an array, of its first element that waits."""

    id: int


class StartsView(Listed):
    """In the order of their numbers."""

    items: list[StartView]


@get("/jobs/starts", summary="When jobs that wait will probably start", opt={"right": "read"})
async def starts(
    request: Asking, limit: params.PartSize = None, cursor: params.Cursor = ""
) -> StartsView:
    """Every job that waits for room, as of a moment ago."""
    await context_of(request).foretelling.look()
    found = sorted(_starts(context_of(request)), key=lambda one: one.id)
    page, after = ListPart(limit, cursor).of(found, lambda one: (one.id,))
    return StartsView(page, cursor=after)


def _starts(context: Context) -> list[StartView]:
    cluster, now_s = context.host.cluster, context.host.clock.now_s()
    found: dict[int, StartView] = {}
    for job in context.foretelling.jobs:
        view = foretold_view(context.foretelling.of(job), now_s, context.foretelling.bands)
        array = cluster.array_of(job)
        for number in (job, array.id if array is not None else job):
            if view is not None and number not in found:
                found[number] = StartView(**asdict(view), id=number)
    return [*found.values()]


ROUTES = [starts]
