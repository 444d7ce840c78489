"""What jobs print: read through the node's agent, as bytes, followed to the very last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Stream

from rota.api import params
from rota.api.auth import still_valid
from rota.api.context import Asking, Context, actor_of, context_of
from rota.api.jobs import log_search
from rota.api.jobs.log_merge import last_of
from rota.api.jobs.log_reader import (
    BOTH,
    LogReader,
    LogWish,
    follow,
    followed,
    make_merger,
    read_now,
)
from rota.api.jobs.log_search import CONTEXT_MAX, HITS_MAX, LogSearch
from rota.api.views.lookup import ID_MAX, find_own, one_job
from rota.core.facts.errors import NotFound, Rejected, Unavailable
from rota.log_frames import pack
from rota.rpc.visits import NOT_IN_TIME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.tenant import Actor

TEXT = "text/plain"
#: Where the log begins if its oldest part is gone; where a search stopped before the end.
BEGINS, NEXT, NEXT_LINE = "Rota-Log-Begins", "Rota-Log-Next", "Rota-Log-Next-Line"
NOTE = "Rota-Log-Note"


Which = Annotated[
    Literal["stdout", "stderr", "both"],
    QueryParameter(description="Which of the two; both: in the order of writing"),
]
StderrOffset = Annotated[
    int, QueryParameter(description="Of both: standard error from here on", ge=0, lt=ID_MAX)
]
Frames = Annotated[
    bool, QueryParameter(description="Of both: each piece behind `o` or `e` and its length")
]


class Output(NamedTuple):
    """Pieces of output, and what is to be said about them as a whole."""

    pieces: AsyncIterator[bytes]
    headers: dict[str, str]


@get(
    "/jobs/{job_id:str}/logs",
    summary="What a job printed",
    opt={"right": "read", "errors": (403, 404, 503), "produces": "text/plain"},
)
async def logs(
    request: Asking,
    job_id: params.JobPath,
    stream: Which = "stdout",
    tail: Annotated[
        int | None, QueryParameter(description="Only the last N lines", ge=0, lt=ID_MAX)
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
        int, QueryParameter(description="How many lines beside each hit", ge=0, le=CONTEXT_MAX)
    ] = 0,
    numbers: Annotated[
        bool, QueryParameter(description="With the number of each line that was found")
    ] = False,
    limit: Annotated[int, QueryParameter(description="At most N hits", ge=1, le=HITS_MAX)] = 1000,
    line: Annotated[
        int, QueryParameter(description="The number of the line at `offset`", ge=1, lt=ID_MAX)
    ] = 1,
    offset_stderr: StderrOffset = 0,
    frames: Frames = False,
) -> Response[bytes] | Stream:
    """Bytes as the job wrote them. Empty while it has not started; `follow` waits for that.

    With `search` the node looks for lines; the headers `Rota-Log-Next` and `Rota-Log-Next-Line`
    are the `offset` and `line` from which a search goes on that was stopped by its bounds.
    `Rota-Log-Begins` is there when the oldest part of a log is gone, `Rota-Log-Note` when the
    lines of `tail` were looked for in the last megabytes only. With `frames` a piece is a letter
    (`o`, `e`), four bytes of length (the highest first) and the bytes.
    """
    wanted = (
        LogSearch(search, regex, ignore_case, context, numbers, limit, line) if search else None
    )
    wish = LogWish(
        stream, tail, follow_it, offset, task, attempt, wanted, offset_stderr, frames=frames
    )
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
    reader = LogReader(context, job, wish.stream, wish.task, wish.attempt)
    _check(wish)
    if wish.follow:
        pieces = follow(reader, lambda number, first: followed(reader, number, wish, first))
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
    if wish.stream == BOTH:
        return await _both_now(reader, tries[-1], wish)
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


async def _both_now(reader: LogReader, attempt: Attempt, wish: LogWish) -> Output:
    merger = await make_merger(reader, attempt, wish)
    await merger.look()
    if merger.trouble and not merger.has_more:
        late = f": {NOT_IN_TIME}" in merger.trouble
        raise Unavailable(merger.trouble) if late else NotFound(merger.trouble, field="id")

    async def pieces() -> AsyncIterator[bytes]:
        if wish.tail:
            chosen = last_of([piece async for piece in merger.pieces()], wish.tail)
            for piece in chosen:
                yield pack(piece) if wish.frames else piece.body
            return
        async for piece in merger.pieces():
            yield pack(piece) if wish.frames else piece.body

    gone = sum(merger.begins.values())
    return Output(pieces(), {BEGINS: str(gone)} if gone and not wish.tail else {})


async def _while_valid(
    context: Context, actor: Actor, pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Nothing more for somebody whose token was revoked in the meantime."""
    async for piece in pieces:
        if not still_valid(context.host, actor):
            return
        yield piece


async def _readable(context: Context, actor: Actor, job_id: str, wish: LogWish) -> Job:
    found = await find_own(context.host, actor, job_id, "its logs are")
    context.host.audit.note(actor, "logs", f"job {found.id}")
    job = one_job(found, "has no logs")
    if wish.task >= job.spec.task_count:
        raise NotFound(f"job {job.id} has no task {wish.task}", field="task", value=wish.task)
    return job


def _check(wish: LogWish) -> None:
    """Refuse what does not go together."""
    if wish.search is not None:
        if wish.stream == BOTH:
            raise Rejected.because("stream", BOTH, "a search looks in stdout or in stderr")
        _refuse_mixed(wish)
        log_search.check(wish.search)
    elif wish.stream == BOTH and wish.offset < 0:
        raise Rejected.because("offset", wish.offset, "of both streams: from 0; see `tail`")
    elif wish.follow and wish.tail == 0:
        raise Rejected.because("tail", 0, "with follow it must be at least 1")


def _refuse_mixed(wish: LogWish) -> None:
    for name, given in (("follow", wish.follow), ("tail", wish.tail is not None)):
        if given:
            raise Rejected(f"{name}: not together with search", field=name, allowed="one of them")


async def _searched(reader: LogReader, attempt: Attempt, search: LogSearch, offset: int) -> Output:
    found = await log_search.look_through(reader, attempt, search, offset)

    async def pieces() -> AsyncIterator[bytes]:
        yield found.body

    headers = {"Rota-Log-Hits": str(found.hits)}
    if found.next_offset >= 0:
        headers |= {NEXT: str(found.next_offset), NEXT_LINE: str(found.next_line)}
    return Output(pieces(), headers)


ROUTES = [logs]
