"""How far running jobs are, as they said themselves; of many at once."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import get

from rota.api import params
from rota.api.auth import may_look_into
from rota.api.context import Asking, actor_of, context_of
from rota.api.jobs.results import FOLDER_VARIABLE, LeftFile
from rota.api.views.lookup import resolve
from rota.api.views.refs import known_ref
from rota.api.views.times import Moment, when
from rota.core.facts.errors import Rejected, RotaError
from rota.core.facts.states import JobState

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Actor

JOBS_MAX = 200
#: A node that does not answer so soon is not waited for.
READ_S = 2.0
_SAID = frozenset({"fraction", "message", "at_s"})


class ProgressView(msgspec.Struct):
    """What the first task of a job last said."""

    id: int
    ref: str
    #: From 0 to 1.
    fraction: float
    message: str
    said_at: Moment | None
    #: When it ends if it goes on as until then; null: it has not come far enough to tell.
    ends_at: Moment | None
    figures: dict[str, Any]


class ProgressList(msgspec.Struct):
    items: list[ProgressView]


@get("/jobs/progress", summary="How far running jobs are", opt={"right": "read", "errors": (404,)})
async def progress(request: Asking, ids: params.Ids) -> ProgressList:
    """Of those jobs that run and said something: functions that call `rota.context().progress`."""
    context, actor = context_of(request), actor_of(request)
    wanted = [await resolve(context.host, word) for word in params.split_ids(ids)]
    if len(wanted) > JOBS_MAX:
        raise Rejected.bad("ids", len(wanted), f"at most {JOBS_MAX} jobs")
    jobs = [context.host.cluster.jobs.get(item) for item in dict.fromkeys(wanted)]
    found = await asyncio.gather(*(_read(context, actor, job) for job in jobs if job is not None))
    return ProgressList([view for view in found if view is not None])


async def _read(context: Context, actor: Actor, job: Job) -> ProgressView | None:
    reports = FOLDER_VARIABLE in job.spec.variables and job.state is JobState.RUNNING
    if not reports or not may_look_into(actor, job.spec.user):
        return None
    try:
        async with asyncio.timeout(READ_S):
            part = await LeftFile(context, job, 0, "progress").read(0)
        said = json.loads(part.body)
        fraction, at_s = float(said["fraction"]), float(said["at_s"])
    except (RotaError, TimeoutError, ValueError, KeyError, TypeError):
        return None
    if not 0.0 <= fraction <= 1.0 or at_s < job.started_s:
        # Nonsense, or what a try before this one said.
        return None
    return ProgressView(
        id=job.id,
        ref=known_ref(context.host.cluster, job.id),
        fraction=fraction,
        message=str(said.get("message") or ""),
        said_at=when(at_s),
        ends_at=when(job.started_s + (at_s - job.started_s) / fraction) if fraction > 0 else None,
        figures={key: value for key, value in said.items() if key not in _SAID},
    )


ROUTES = [progress]
