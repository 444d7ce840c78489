"""Sweep: the elements of an array over two of its parameters, and how its failures group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.api.params import split_ids
from rota.api.views.listing import Query, list_page
from rota.api.views.lookup import find, resolve
from rota.controller.commands.change import may_change_job
from rota.core.facts.array import Array
from rota.core.facts.errors import NotFound

if TYPE_CHECKING:
    from rota.api.views.views import JobView
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "sweep", "read"
#: More elements than this are no grid that anybody reads.
ELEMENTS_MAX = 20_000
PAGE = 1000


class Element(msgspec.Struct, omit_defaults=True):
    """One element. ``parameters`` is null where they are not the caller's to see."""

    id: int
    index: int
    state: str
    parameters: dict[str, str] | None = None
    cause: str | None = None
    exit_code: int | None = None
    started_at: str | None = None
    ended_at: str | None = None


async def _array(asked: PageRequest) -> Array:
    found = await find(asked.host, asked.ref)
    if not isinstance(found, Array):
        raise NotFound(f"job {found.id} is no array; see /web/job/{found.id}")
    return found


async def words(asked: PageRequest) -> dict[str, Any]:
    array = await _array(asked)
    return {
        "job": array.id,
        "name": array.spec.name,
        "count": array.count,
        "mine": may_change_job(asked.actor, array.spec, array.id),
    }


async def elements(asked: PageRequest) -> dict[str, Any]:
    """Every element, or those among ``ids``: what changed since the page was drawn."""
    array = await _array(asked)
    given = split_ids(asked.query.get("ids", ""))
    ids = [await resolve(asked.host, word) for word in given]
    query = Query(array=array.id, ids=tuple(ids), limit=PAGE)
    found: list[Element] = []
    while len(found) < ELEMENTS_MAX:
        page = await list_page(asked.host, query, asked.actor)
        found += [_element(view) for view in page.items if view.array_index is not None]
        if page.cursor is None:
            break
        query = msgspec.structs.replace(query, after=int(page.cursor))
    return {"id": array.id, "count": array.count, "items": found}


def _element(view: JobView) -> Element:
    return Element(
        id=view.id,
        index=view.array_index or 0,
        state=str(view.state),
        parameters=view.parameters,
        cause=view.cause,
        exit_code=view.exit_code,
        started_at=view.started_at,
        ended_at=view.ended_at,
    )


FEEDS = {"elements": elements}
