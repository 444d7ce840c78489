"""What a function left behind on its node, as bytes; how far it says it is, of every job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream

from rota.api import params
from rota.api.context import Asking, actor_of, context_of
from rota.api.left.left_files import FOLDER_VARIABLE, LeftFile
from rota.api.left.reports import LINE_BYTES, last_try, parsed, read_lines
from rota.api.views.lookup import ID_MAX, find, find_own, one_job
from rota.core.facts.errors import NotFound
from rota.core.facts.job import Job
from rota.core.facts.parents import DependencyKind

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.controller.loop import Host
    from rota.core.facts.array import Array
    from rota.core.facts.tenant import Actor

_BYTES = "application/octet-stream"


@get(
    "/jobs/{job_id:str}/result",
    summary="What a function returned, or how far it is",
    opt={"right": "read", "errors": (403, 404, 503), "produces": _BYTES},
)
async def result(
    request: Asking,
    job_id: params.JobPath,
    task: Annotated[int, QueryParameter(description="Of this task", ge=0, lt=ID_MAX)] = 0,
    part: Annotated[
        Literal["result", "progress"], QueryParameter(description="Which of the two")
    ] = "result",
) -> Stream:
    """The bytes that the job left on its node; only the Python client can make sense of them."""
    context, actor = context_of(request), actor_of(request)
    found = await _find(context.host, actor, job_id)
    context.host.audit.note(actor, "result", f"job {found.id}")
    job = one_job(found, "has no result")
    if part == "progress" and FOLDER_VARIABLE not in job.spec.variables:
        return Stream(iter([await _said(context, job, task)]), media_type=_BYTES)
    left = LeftFile(context, job, task, part)
    first = await left.read(0)
    if first.error:
        raise NotFound(f"job {job.id} has left no {part}: {first.error}", field="id", value=job.id)
    return Stream(left.pieces(first), media_type=_BYTES)


async def _said(context: Context, job: Job, task: int) -> bytes:
    """The last line that is a report."""
    attempt = last_try(job, task)
    lines = await read_lines(context, job, attempt, LINE_BYTES) if attempt is not None else []
    for line in reversed(lines):
        if parsed(line) is not None:
            return line
    raise NotFound(f"job {job.id} has left no progress", field="id", value=job.id)


async def _find(host: Host, actor: Actor, job_id: str) -> Job | Array:
    """The job, if the caller may read its result: a job may read what it was to wait for, too."""
    asking = host.cluster.jobs.get(actor.job)
    found = await find(host, job_id)
    if asking is not None and asking.spec.user == found.spec.user and _needs(asking, found):
        return found
    return await find_own(host, actor, job_id, "its result is")


def _needs(asking: Job, found: Job | Array) -> bool:
    """Whether the other one had to complete before this one could begin."""
    ids = (found.id, found.array_id) if isinstance(found, Job) else (found.id,)
    return any(
        parent.kind is DependencyKind.AFTER_OK and parent.parent in ids
        for parent in asking.spec.dependencies
    )


ROUTES = [result]
