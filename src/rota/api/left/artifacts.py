"""What a job leaves behind, as one list: output, results, saved work, data that it made.

Rota stores none of it a second time. The list says where each thing is and how to get it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from litestar import get

from rota.api import params
from rota.api.asgi import API
from rota.api.context import Asking, actor_of, context_of
from rota.api.left.left_files import FOLDER_VARIABLE
from rota.api.views.lookup import find_own, one_job
from rota.api.views.paging import Listed, ListPart
from rota.controller.launches.launch import output_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.facts.job import Attempt, Job, Task


ArtifactKind = Literal["stdout", "stderr", "result", "checkpoint", "data"]


class ArtifactView(msgspec.Struct, kw_only=True):
    """One thing. ``url`` is where to get it, if Rota serves it; ``path`` is on the node."""

    #: `stdout`, `stderr`, `result`, `checkpoint`, or `data` that others may wait for.
    kind: ArtifactKind
    name: str
    task: int | None = None
    attempt: int | None = None
    node: str | None = None
    path: str | None = None
    #: In bytes, where the job said so.
    size: int | None = None
    url: str | None = None


class ArtifactsView(Listed):
    items: list[ArtifactView]


@get(
    "/jobs/{job_id:str}/artifacts",
    summary="What a job has left, and where it is",
    opt={"right": "read", "errors": (403, 404)},
)
async def artifacts(
    request: Asking,
    job_id: params.JobPath,
    limit: params.PartSize = None,
    cursor: params.Cursor = "",
) -> ArtifactsView:
    """Output of every try, results of functions, reported checkpoints, named data."""
    host = context_of(request).host
    found = await find_own(host, actor_of(request), job_id, "what it left is")
    host.audit.note(actor_of(request), "artifacts", f"job {found.id}")
    job = one_job(found, "leaves nothing")
    page, after = ListPart(limit, cursor).of_numbered((*_of_tasks(job), *_saved(job)))
    return ArtifactsView(page, cursor=after)


def _of_tasks(job: Job) -> Iterator[ArtifactView]:
    for task in job.tasks:
        started = [attempt for attempt in task.attempts if attempt.started_s]
        for attempt in started:
            yield from _output(job, task, attempt)
        if started and job.spec.variables.get(FOLDER_VARIABLE):
            yield ArtifactView(
                kind="result",
                name="result",
                task=task.index,
                attempt=started[-1].number,
                node=started[-1].allocation.node,
                url=f"{API}/jobs/{job.id}/result?task={task.index}",
            )


def _output(job: Job, task: Task, attempt: Attempt) -> Iterator[ArtifactView]:
    where = f"{API}/jobs/{job.id}/logs?task={task.index}&attempt={attempt.number}"
    streams: tuple[tuple[ArtifactKind, str], ...] = (
        ("stdout", job.spec.output),
        ("stderr", job.spec.error),
    )
    for stream, pattern in streams:
        yield ArtifactView(
            kind=stream,
            name=stream,
            task=task.index,
            attempt=attempt.number,
            node=attempt.allocation.node,
            path=output_path(pattern, job, task.index) or None,
            url=f"{where}&stream={stream}",
        )


def _saved(job: Job) -> Iterator[ArtifactView]:
    for record in job.checkpoints:
        yield ArtifactView(
            kind="checkpoint",
            name=record.note or (f"step {record.step}" if record.step is not None else ""),
            attempt=record.attempt,
            path=record.path or None,
            size=record.size_bytes or None,
            url=f"{API}/jobs/{job.id}/checkpoint",
        )
    for name in job.made:
        yield ArtifactView(kind="data", name=name)


ROUTES = [artifacts]
