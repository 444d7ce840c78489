"""What a function left behind on its node: its result, and how far it says it is.

A job that finds ``ROTA_RESULT_DIR`` in its variables leaves files named after its id and task in
that folder. They are read through the node's agent, with the rights of the job's user, like an
output file that the user chose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream

from rota.api import params
from rota.api.context import Asking, Context, actor_of, context_of
from rota.api.jobs.log_reader import PART_BYTES
from rota.api.views.lookup import ID_MAX, find, find_own
from rota.core.facts.array import Array
from rota.core.facts.errors import NotFound, Rejected, Unavailable
from rota.core.facts.job import Job
from rota.core.facts.parents import DependencyKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rota.controller.loop import Host
    from rota.core.facts.tenant import Actor
    from rota.rpc.visits import LogPart

FOLDER_VARIABLE = "ROTA_RESULT_DIR"


class LeftFile:
    """One file that the last attempt of a task left."""

    def __init__(self, context: Context, job: Job, task: int, part: str) -> None:
        folder = job.spec.variables.get(FOLDER_VARIABLE, "")
        attempts = job.tasks[task].attempts if task < len(job.tasks) else []
        # One that never started has left nothing, whatever its user says where to look.
        if not folder.startswith("/") or not attempts or not attempts[-1].started_s:
            raise NotFound(f"job {job.id} has left no {part}", field="id", value=job.id)
        self._context = context
        self._path = f"{folder}/{job.id}.{task}.{part}"
        self._user = job.spec.user
        self._attempt = attempts[-1]

    async def read(self, offset: int) -> LogPart:
        """A piece of it, from the node that has it."""
        node = self._attempt.allocation.node
        session = self._context.host.sessions.by_node.get(node)
        if session is None:
            raise Unavailable(f"node {node} is not connected, its files cannot be read now")
        found: LogPart = await self._context.host.links.read_log(
            session.link,
            uid=self._attempt.uid,
            stream="stdout",
            offset=offset,
            limit=PART_BYTES,
            path=self._path,
            user=self._user,
        )
        return found

    async def pieces(self, first: LogPart) -> AsyncIterator[bytes]:
        piece = first
        while piece.body:
            yield piece.body
            piece = await self.read(piece.offset + len(piece.body))


@get(
    "/jobs/{job_id:str}/result",
    summary="What a function returned, or how far it is",
    opt={"right": "read", "errors": (403, 404, 503), "produces": "application/octet-stream"},
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
    job = await _find(context.host, actor, job_id)
    context.host.audit.note(actor, "result", f"job {job.id}")
    if isinstance(job, Array):
        raise Rejected.because(
            "id", job.id, f"{job.id} is an array, which has no result; name an element: {job.id}_3"
        )
    left = LeftFile(context, job, task, part)
    first = await left.read(0)
    if first.error:
        raise NotFound(f"job {job.id} has left no {part}: {first.error}", field="id", value=job.id)
    return Stream(left.pieces(first), media_type="application/octet-stream")


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
