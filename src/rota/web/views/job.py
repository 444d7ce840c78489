"""Job: what it does and why, its log, its terminal, its tries, and the buttons to change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from rota.api.auth import may_look_into
from rota.api.jobs.results import LeftFile
from rota.api.views.lookup import find, find_own
from rota.api.views.views import ref_of
from rota.controller.commands.change import may_change_job
from rota.core.facts.array import Array
from rota.core.facts.errors import NotFound, Unavailable
from rota.web.advised import call_of
from rota.web.views.asked import MovedPage

if TYPE_CHECKING:
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "job", "read"
_said = msgspec.json.Decoder(dict[str, Any]).decode


async def words(asked: PageRequest) -> dict[str, Any]:
    found = await find(asked.host, asked.ref)
    if isinstance(found, Array):
        raise MovedPage(f"/web/sweep/{quote(str(found.id))}")
    return {
        "job": found.id,
        "ref": ref_of(found),
        "name": found.spec.name,
        "mine": may_change_job(asked.actor, found.spec, found.id),
        "open": may_look_into(asked.actor, found.spec.user),
        "pty": found.spec.pty,
    }


async def call(asked: PageRequest) -> dict[str, Any]:
    """The REST call behind the command of an advice; null: a page cannot make it."""
    return {"call": call_of(asked.query.get("command", "")[:2000])}


async def progress(asked: PageRequest) -> dict[str, Any]:
    """What the job last said of itself; null: nothing, or it cannot be read now."""
    job = await find_own(asked.host, asked.actor, asked.ref, "its progress is")
    if isinstance(job, Array):
        return {"progress": None}
    if job.spec.user != asked.actor.user:
        asked.host.audit.note(asked.actor, "result", f"job {job.id}")
    try:
        found = await LeftFile(asked.context, job, 0, "progress").read(0)
        said = _said(found.body)
    except (NotFound, Unavailable, msgspec.MsgspecError):
        return {"progress": None}
    return {"progress": said}


FEEDS = {"call": call, "progress": progress}
