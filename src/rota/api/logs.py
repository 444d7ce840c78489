"""What jobs print: read through the node's agent, as bytes, followed to the very last one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Stream

from rota.api import params
from rota.api.context import Asking, Context, actor_of, context_of
from rota.api.lookup import ID_MAX, find
from rota.api.views import may_look_into
from rota.controller.launch import output_path
from rota.core.errors import Forbidden, NotFound, Rejected, Unavailable
from rota.core.job import Array, Attempt, Job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rota.core.tenant import Actor
    from rota.rpc.messages import LogPart

PART_BYTES = 256 * 1024
#: A follower looks again after this time, and less often the longer nothing came.
LOOK_S_MIN, LOOK_S_MAX = 0.02, 0.25
#: How long a follower waits for a node that is not connected once the attempt has ended.
ABSENT_S = 30.0
TEXT = "text/plain"


class LogWish(NamedTuple):
    """Which bytes of a job's output somebody wants."""

    stream: str = "stdout"
    #: Only the last so many lines.
    tail: int | None = None
    follow: bool = False
    offset: int = 0
    task: int = 0
    #: None: the last one.
    attempt: int | None = None


class Reader:
    """Reads one stream of one task of a job, over all its attempts or one of them."""

    def __init__(
        self, context: Context, job: Job, stream: str, task: int, attempt: int | None
    ) -> None:
        self.context = context
        self.job_id = job.id
        self.job = job
        self._stream = stream
        self._task = task
        self.only = attempt

    async def refresh(self) -> None:
        """The job as it is now; once finished it does not change any more."""
        if self.job.outcome is not None:
            return
        job = self.context.host.cluster.jobs.get(self.job_id)
        if job is None:
            found = await find(self.context.host, self.job_id)
            assert isinstance(found, Job)
            job = found
        self.job = job

    def attempts(self) -> list[Attempt]:
        tasks = self.job.tasks
        tries = tasks[self._task].attempts if self._task < len(tasks) else []
        return [a for a in tries if self.only in (None, a.number)]

    async def part(self, attempt: Attempt, offset: int, lines: int = 0) -> LogPart:
        """One piece, from the node that has it."""
        node = attempt.allocation.node
        session = self.context.host.sessions.by_node.get(node)
        if session is None:
            raise Unavailable(f"node {node} is not connected, its logs cannot be read now")
        spec = self.job.spec
        pattern = spec.output if self._stream == "stdout" else spec.error
        found: LogPart = await self.context.host.links.read_log(
            session.link,
            uid=attempt.uid,
            stream=self._stream,
            offset=offset,
            limit=PART_BYTES,
            lines=lines,
            path=output_path(pattern, self.job, self._task),
            user=spec.user,
        )
        return found


async def read_now(reader: Reader, attempt: Attempt, first: LogPart) -> AsyncIterator[bytes]:
    """From the first part on to where the file ended when we began."""
    part = first
    while part.body:
        yield part.body
        offset = part.offset + len(part.body)
        if offset >= first.size:
            return
        part = await reader.part(attempt, offset)


async def follow(reader: Reader, offset: int, tail: int) -> AsyncIterator[bytes]:
    """Every byte until the job has ended (or the one attempt that was asked for)."""
    context = reader.context
    number, wait_s = 0, LOOK_S_MIN
    while not context.closing.is_set():
        await reader.refresh()
        final = reader.job.outcome is not None
        tries = [a for a in reader.attempts() if a.number > number]
        attempt = next(iter(tries) if number else reversed(tries), None)
        if attempt is None:
            if final:
                # Whoever has read the last byte finds the job ended when they ask.
                await context.host.on_disk()
                return
            await _nap(reader, wait_s)
            wait_s = min(2 * wait_s, LOOK_S_MAX)
            continue
        async for piece in _follow_one(reader, attempt.number, offset, tail):
            yield piece
        number, offset, tail, wait_s = attempt.number, 0, 0, LOOK_S_MIN
        if reader.only is not None:
            return


async def _follow_one(reader: Reader, number: int, offset: int, tail: int) -> AsyncIterator[bytes]:
    """One attempt to its end. Whether it has ended is asked before reading: then the end of the
    file is the end of the output."""
    wait_s, silent_since_s = LOOK_S_MIN, time.monotonic()
    while not reader.context.closing.is_set():
        await reader.refresh()
        attempt = next(a for a in reader.attempts() if a.number == number)
        ended = not attempt.live
        try:
            part = await reader.part(attempt, offset, tail)
        except Unavailable:
            if ended and time.monotonic() - silent_since_s > ABSENT_S:
                return
            await _nap(reader, LOOK_S_MAX)
            continue
        silent_since_s = time.monotonic()
        if part.body:
            tail, offset, wait_s = 0, part.offset + len(part.body), LOOK_S_MIN
            yield part.body
        elif ended:
            return
        else:
            await _nap(reader, wait_s)
            wait_s = min(2 * wait_s, LOOK_S_MAX)


async def _nap(reader: Reader, wait_s: float) -> None:
    """Wait a little, or until the job has ended."""
    context = reader.context
    await context.until_closing(context.host.watch.settled([reader.job_id], wait_s))


@get(
    "/jobs/{job_id:str}/logs",
    summary="What a job printed",
    opt={"right": "read", "errors": (403, 404, 503), "produces": "text/plain"},
)
async def logs(
    request: Asking,
    job_id: params.JobPath,
    stream: Annotated[
        Literal["stdout", "stderr"], QueryParameter(description="Which of the two")
    ] = "stdout",
    tail: Annotated[
        int | None, QueryParameter(description="Only the last so many lines", ge=0, lt=ID_MAX)
    ] = None,
    follow_it: Annotated[
        bool, QueryParameter(name="follow", description="Go on until the job has ended")
    ] = False,
    offset: Annotated[
        int,
        QueryParameter(
            description="From this byte on; negative: from the end", gt=-ID_MAX, lt=ID_MAX
        ),
    ] = 0,
    task: Annotated[int, QueryParameter(description="Of this task", ge=0, lt=ID_MAX)] = 0,
    attempt: Annotated[
        int | None, QueryParameter(description="Of this attempt; absent: the last", ge=1, lt=ID_MAX)
    ] = None,
) -> Response[bytes] | Stream:
    """Bytes as the job wrote them. Empty while it has not started; `follow` waits for that."""
    wish = LogWish(stream, tail, follow_it, offset, task, attempt)
    pieces = await open_log(context_of(request), actor_of(request), job_id, wish)
    return Response(b"", media_type=TEXT) if pieces is None else Stream(pieces, media_type=TEXT)


async def open_log(
    context: Context, actor: Actor, job_id: str, wish: LogWish
) -> AsyncIterator[bytes] | None:
    """The output in pieces; None while there is none. A refusal comes before the first piece."""
    job = await find(context.host, job_id)
    if not may_look_into(actor, job.spec.user):
        raise Forbidden(
            f"job {job.id} belongs to {job.spec.user}; its logs are theirs",
            field="id",
            value=job.id,
        )
    if isinstance(job, Array):
        raise Rejected.bad("id", job.id, "an array has no logs; name an element, as in 5_3")
    if wish.task >= job.spec.task_count:
        raise NotFound(f"job {job.id} has no task {wish.task}", field="task", value=wish.task)
    reader = Reader(context, job, wish.stream, wish.task, wish.attempt)
    if wish.follow:
        if wish.tail == 0:
            raise Rejected.bad("tail", 0, "with follow: at least 1")
        return follow(reader, wish.offset, wish.tail or 0)
    tries = reader.attempts()
    if wish.attempt is not None and not tries:
        raise NotFound(
            f"job {job.id} has no attempt {wish.attempt}", field="attempt", value=wish.attempt
        )
    if not tries or wish.tail == 0:
        return None
    first = await reader.part(tries[-1], wish.offset, wish.tail or 0)
    if first.error and not first.body:
        raise NotFound(first.error, field="id", value=job.id)
    return read_now(reader, tries[-1], first)


ROUTES = [logs]
