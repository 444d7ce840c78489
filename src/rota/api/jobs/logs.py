"""What jobs print: read through the node's agent, as bytes, followed to the very last one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Stream

from rota.api import params
from rota.api.auth import still_valid
from rota.api.context import Asking, Context, actor_of, context_of
from rota.api.jobs import log_search
from rota.api.jobs.log_search import CONTEXT_MAX, HITS_MAX, Search
from rota.api.views.lookup import ID_MAX, find, find_own
from rota.controller.launches.launch import output_path
from rota.core.facts.array import Array
from rota.core.facts.errors import NotFound, Rejected, Unavailable
from rota.core.facts.job import Attempt, Job
from rota.rpc.visits import NOT_IN_TIME, LogPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rota.core.facts.tenant import Actor
    from rota.rpc.visits import LogFound

PART_BYTES = 256 * 1024
#: A follower looks again after this time, and less often the longer nothing came.
LOOK_S_MIN, LOOK_S_MAX = 0.02, 0.25
#: How long a follower waits for a node that is not connected once the attempt has ended.
ABSENT_S = 30.0
TEXT = "text/plain"
#: Where the log begins if its oldest part is gone; where a search stopped before the end.
BEGINS, NEXT, NEXT_LINE = "Rota-Log-Begins", "Rota-Log-Next", "Rota-Log-Next-Line"
NOTE = "Rota-Log-Note"


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
    search: Search | None = None


class Output(NamedTuple):
    """Pieces of output, and what is to be said about them as a whole."""

    pieces: AsyncIterator[bytes]
    headers: dict[str, str]


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
        path = self._path()
        if path and not attempt.started_s:
            return LogPart(0, 0, b"", 0, _unwritten(attempt))
        found: LogPart = await self.context.host.links.read_log(
            self._link(attempt),
            uid=attempt.uid,
            stream=self._stream,
            offset=offset,
            limit=PART_BYTES,
            lines=lines,
            path=path,
            user=self.job.spec.user,
        )
        return found

    async def search(
        self, attempt: Attempt, search: Search, hits: int, place: tuple[int, int, int]
    ) -> LogFound:
        """Lines that the node finds, from a place on."""
        path = self._path()
        if path and not attempt.started_s:
            raise NotFound(_unwritten(attempt) or "it has not started yet", field="id")
        where = {"uid": attempt.uid, "stream": self._stream}
        where |= {"path": path, "user": self.job.spec.user}
        found: LogFound = await self.context.host.links.search_log(
            self._link(attempt),
            lambda request: log_search.message(search, request, hits, place, **where),
        )
        return found

    def _link(self, attempt: Attempt) -> int:
        node = attempt.allocation.node
        session = self.context.host.sessions.by_node.get(node)
        if session is None:
            raise Unavailable(f"node {node} is not connected, its logs cannot be read now")
        return session.link

    def _path(self) -> str:
        """Where the job asked its output to go; empty: the agent keeps it."""
        spec = self.job.spec
        pattern = spec.output if self._stream == "stdout" else spec.error
        return output_path(pattern, self.job, self._task)


def _unwritten(attempt: Attempt) -> str:
    """A file that no attempt has opened is not its output, whoever it belongs to."""
    return "" if attempt.live else "the attempt was never started, so it has written nothing"


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
    search: Annotated[str, QueryParameter(description="Only lines with this text")] = "",
    regex: Annotated[
        bool, QueryParameter(description="`search` is a regular expression, as Python reads it")
    ] = False,
    ignore_case: Annotated[
        bool, QueryParameter(description="`search` does not mind upper and lower case")
    ] = False,
    context: Annotated[
        int, QueryParameter(description="So many lines beside each hit", ge=0, le=CONTEXT_MAX)
    ] = 0,
    numbers: Annotated[
        bool, QueryParameter(description="With the number of each line that was found")
    ] = False,
    limit: Annotated[
        int, QueryParameter(description="At most so many hits", ge=1, le=HITS_MAX)
    ] = 1000,
    line: Annotated[
        int, QueryParameter(description="The number of the line at `offset`", ge=1, lt=ID_MAX)
    ] = 1,
) -> Response[bytes] | Stream:
    """Bytes as the job wrote them. Empty while it has not started; `follow` waits for that.

    With `search` the node looks for lines; the headers `Rota-Log-Next` and `Rota-Log-Next-Line`
    are the `offset` and `line` from which a search goes on that was stopped by its bounds.
    `Rota-Log-Begins` is there when the oldest part of a log is gone, `Rota-Log-Note` when the
    lines of `tail` were looked for in the last megabytes only.
    """
    wanted = Search(search, regex, ignore_case, context, numbers, limit, line) if search else None
    wish = LogWish(stream, tail, follow_it, offset, task, attempt, wanted)
    output = await open_output(context_of(request), actor_of(request), job_id, wish)
    if output is None:
        return Response(b"", media_type=TEXT)
    return Stream(output.pieces, media_type=TEXT, headers=output.headers)


async def open_log(
    context: Context, actor: Actor, job_id: str, wish: LogWish
) -> AsyncIterator[bytes] | None:
    """The output in pieces; None while there is none. A refusal comes before the first piece."""
    output = await open_output(context, actor, job_id, wish)
    return None if output is None else output.pieces


async def open_output(context: Context, actor: Actor, job_id: str, wish: LogWish) -> Output | None:
    job = await _readable(context, actor, job_id, wish)
    reader = Reader(context, job, wish.stream, wish.task, wish.attempt)
    if wish.search is not None:
        _refuse_mixed(wish)
        log_search.check(wish.search)
    elif wish.follow:
        if wish.tail == 0:
            raise Rejected.because("tail", 0, "with follow it must be at least 1")
        pieces = follow(reader, wish.offset, wish.tail or 0)
        return Output(_while_valid(context, actor, pieces), {})
    tries = reader.attempts()
    if wish.attempt is not None and not tries:
        raise NotFound(
            f"job {job.id} has no attempt {wish.attempt}", field="attempt", value=wish.attempt
        )
    if not tries or wish.tail == 0:
        return None
    if wish.search is not None:
        return await _searched(reader, tries[-1], wish.search, wish.offset)
    first = await reader.part(tries[-1], wish.offset, wish.tail or 0)
    if f": {NOT_IN_TIME}" in first.error and not first.body:
        raise Unavailable(first.error)
    if first.error and not first.body:
        raise NotFound(first.error, field="id", value=job.id)
    gone = first.offset > wish.offset >= 0 and not wish.tail
    headers = {BEGINS: str(first.offset)} if gone else {}
    if first.error:
        headers[NOTE] = first.error
    return Output(read_now(reader, tries[-1], first), headers)


async def _while_valid(
    context: Context, actor: Actor, pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Nothing more for somebody whose token was revoked in the meantime."""
    async for piece in pieces:
        if not still_valid(context.host, actor):
            return
        yield piece


async def _readable(context: Context, actor: Actor, job_id: str, wish: LogWish) -> Job:
    job = await find_own(context.host, actor, job_id, "its logs are")
    context.host.audit.note(actor, "logs", f"job {job.id}")
    if isinstance(job, Array):
        raise Rejected.because(
            "id", job.id, f"{job.id} is an array, which has no logs; name an element: {job.id}_3"
        )
    if wish.task >= job.spec.task_count:
        raise NotFound(f"job {job.id} has no task {wish.task}", field="task", value=wish.task)
    return job


def _refuse_mixed(wish: LogWish) -> None:
    for name, given in (("follow", wish.follow), ("tail", wish.tail is not None)):
        if given:
            raise Rejected(f"{name}: not together with search", field=name, allowed="one of them")


async def _searched(reader: Reader, attempt: Attempt, search: Search, offset: int) -> Output:
    found = await log_search.look_through(reader, attempt, search, offset)

    async def pieces() -> AsyncIterator[bytes]:
        yield found.body

    headers = {"Rota-Log-Hits": str(found.hits)}
    if found.next_offset >= 0:
        headers |= {NEXT: str(found.next_offset), NEXT_LINE: str(found.next_line)}
    return Output(pieces(), headers)


ROUTES = [logs]
