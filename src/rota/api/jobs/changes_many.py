"""Routes that change several jobs at once: by ids, all, or those of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import post

from rota.api import params
from rota.api.bodies.requests import SelectRequest, decode_select
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.jobs.changes import VERBS
from rota.api.views.lookup import resolve
from rota.api.views.refs import known_ref
from rota.controller.commands.rehearse import rehearse_selected
from rota.core.facts.errors import Rejected
from rota.core.facts.tenant import Access, Actor

if TYPE_CHECKING:
    from rota.controller.commands.commands import ChangedJobs


class RefusalView(msgspec.Struct):
    id: int | str
    reason: str


class ChangedView(msgspec.Struct):
    """Each job by itself: changed, or refused with a reason."""

    changed: list[int]
    #: The same as people name them: 15_3 for an element of an array.
    refs: list[str]
    refused: list[RefusalView]


async def _select(request: Asking, verb: str, preview: bool) -> ChangedView:
    context, actor = context_of(request), actor_of(request)
    asked: SelectRequest = await body_of(request, decode_select)
    ways = sum((bool(asked.ids), asked.all, bool(asked.user)))
    if ways != 1:
        raise Rejected.because("ids", asked.ids, "give exactly one of ids, all and user")
    if asked.hold and verb != "requeue":
        raise Rejected.because("hold", True, "only :requeue takes it")
    refused: list[RefusalView] = []
    ids: list[int] = []
    named: dict[int, str] = {}
    for ref in asked.ids:
        try:
            ids.append(await resolve(context.host, ref))
            named[ids[-1]] = str(ref)
        except Rejected as error:
            refused.append(RefusalView(ref, error.detail))
    extra: dict[str, Any] = {"hold": asked.hold} if verb == "requeue" else {}
    changed: tuple[int, ...] = ()
    if ids or not asked.ids:
        command = VERBS[verb](
            actor=actor, ids=tuple(dict.fromkeys(ids)), of_user=_whose(actor, asked), **extra
        )
        host = context.host
        done: ChangedJobs = (
            rehearse_selected(host.cluster, command, host.clock.now_s())
            if preview
            else await host.ask(command)
        )
        changed = done.changed
        # Of an array that is over nothing here knows its elements by name but who asked.
        refused += [
            RefusalView(
                entry.id,
                entry.reason.replace(
                    f"job {entry.id} ", f"job {named.get(entry.id, entry.id)} ", 1
                ),
            )
            for entry in done.refused
        ]
    cluster = context.host.cluster
    return ChangedView(list(changed), [known_ref(cluster, item) for item in changed], refused)


def _whose(actor: Actor, asked: SelectRequest) -> str:
    """``all`` means everything that the caller may change."""
    if asked.ids:
        return ""
    if asked.user:
        return asked.user
    return "*" if actor.access in (Access.ADMIN, Access.OPERATOR) else actor.user


_SELECT: dict[str, Any] = {
    "opt": {"right": "change", "body": SelectRequest, "errors": (400, 403, 429, 503)},
    "status_code": 200,
}


@post("/jobs:cancel", summary="Cancel several jobs", **_SELECT)
async def cancel_many(request: Asking, preview: params.Preview = False) -> ChangedView:
    """By ids, all, or of a user; each job succeeds or is refused by itself."""
    return await _select(request, "cancel", preview)


@post("/jobs:hold", summary="Keep several jobs from starting", **_SELECT)
async def hold_many(request: Asking, preview: params.Preview = False) -> ChangedView:
    """Waiting jobs only."""
    return await _select(request, "hold", preview)


@post("/jobs:release", summary="Let several held jobs go", **_SELECT)
async def release_many(request: Asking, preview: params.Preview = False) -> ChangedView:
    """The opposite of hold."""
    return await _select(request, "release", preview)


@post("/jobs:requeue", summary="Put several running jobs back into the queue", **_SELECT)
async def requeue_many(request: Asking, preview: params.Preview = False) -> ChangedView:
    """In their old place; with `hold` they wait there for a release."""
    return await _select(request, "requeue", preview)


@post("/jobs:suspend", summary="Stop several running jobs where they are", **_SELECT)
async def suspend_many(request: Asking, preview: params.Preview = False) -> ChangedView:
    """They keep their room and their state; the time does not count against their limits."""
    return await _select(request, "suspend", preview)


@post("/jobs:resume", summary="Let several suspended jobs go on", **_SELECT)
async def resume_many(request: Asking, preview: params.Preview = False) -> ChangedView:
    """The opposite of suspend."""
    return await _select(request, "resume", preview)


ROUTES = [cancel_many, hold_many, release_many, requeue_many, suspend_many, resume_many]
