"""Job: what it does and why, its log, its terminal, its tries, and the buttons to change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rota.api.auth import may_look_into
from rota.api.views.lookup import find
from rota.api.views.views import ref_of
from rota.controller.commands.change import may_change_job
from rota.core.facts.array import Array
from rota.web.advised import call_of
from rota.web.views.asked import MovedPage

if TYPE_CHECKING:
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "job", "read"


async def words(asked: PageRequest) -> dict[str, Any]:
    found = await find(asked.host, asked.ref)
    if isinstance(found, Array):
        raise MovedPage(f"/web/sweep/{quote(str(found.id))}")
    return {
        "job": found.id,
        "ref": ref_of(found),
        "name": found.spec.name,
        "mine": may_change_job(asked.actor, found.spec, found.id),
        "own": found.spec.user == asked.actor.user,
        "open": may_look_into(asked.actor, found.spec.user),
        "pty": found.spec.pty,
        "tasks": found.spec.task_count,
    }


async def call(asked: PageRequest) -> dict[str, Any]:
    """The REST call behind the command of an advice; null: a page cannot make it."""
    return {"call": call_of(asked.query.get("command", "")[:2000])}


FEEDS = {"call": call}
