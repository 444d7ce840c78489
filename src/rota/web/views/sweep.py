"""Sweep: the elements of an array over two of its parameters, and how its failures group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from rota.api.left.reports import last_report
from rota.api.params import split_ids
from rota.api.views.listing import Query, list_page
from rota.api.views.lookup import find, find_own, resolve
from rota.controller.commands.change import may_change_job
from rota.core.facts.array import Array
from rota.core.facts.errors import NotFound, Rejected
from rota.core.facts.job import Job

if TYPE_CHECKING:
    from rota.api.views.views import JobView
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "sweep", "read"
#: More elements than this are no grid that anybody reads.
ELEMENTS_MAX = 20_000
PAGE = 1000
#: The most elements that are asked at once for what they report.
ASKED_MAX = 100


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
        "own": array.spec.user == asked.actor.user,
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


async def said(asked: PageRequest) -> dict[str, Any]:
    """The numbers that each of ``ids`` reported last, by its id; without those that cannot be read.

    Each is a file on the node of an element.
    """
    host, ids = asked.host, split_ids(asked.query.get("ids", ""))
    array = await find_own(host, asked.actor, asked.ref, "its progress is")
    if len(ids) > ASKED_MAX:
        raise Rejected.bad("ids", len(ids), f"at most {ASKED_MAX} elements")
    found = [await find(host, word) for word in ids]
    jobs = [job for job in found if isinstance(job, Job) and job.array_id == array.id]
    if array.spec.user != asked.actor.user:
        host.audit.note(asked.actor, "result", f"job {array.id}")
    reports = await asyncio.gather(*(last_report(asked.context, job) for job in jobs))
    told = [(job.id, report) for job, report in zip(jobs, reports, strict=True)]
    return {
        "items": {
            str(number): {"fraction": report.fraction, **report.numbers}
            for number, report in told
            if report is not None
        }
    }


FEEDS = {"elements": elements, "said": said}
