"""Reads and follows what the attempts of a job printed, through the agents of their nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rota.api.jobs import log_search
from rota.api.jobs.log_merge import Merger, last_of
from rota.api.views.lookup import find
from rota.controller.launches.launch import output_path
from rota.core.facts.errors import NotFound, Unavailable
from rota.core.facts.job import Job
from rota.log_frames import ERR, OUT, pack
from rota.rpc.visits import LogPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rota.api.context import Context
    from rota.api.jobs.log_search import LogSearch
    from rota.core.facts.job import Attempt
    from rota.rpc.visits import LogFound

PART_BYTES = 256 * 1024
#: A follower looks again after this time, and less often the longer nothing came.
LOOK_S_MIN, LOOK_S_MAX = 0.02, 0.25
#: How long a follower waits for a node that is not connected once the attempt has ended.
ABSENT_S = 30.0
BOTH = "both"


class LogWish(NamedTuple):
    """Which bytes of a job's output somebody wants."""

    stream: str = "stdout"
    #: Only the last lines, this number of them.
    tail: int | None = None
    follow: bool = False
    offset: int = 0
    task: int = 0
    #: None: the last one.
    attempt: int | None = None
    search: LogSearch | None = None
    #: Of both: where standard error goes on, and whether each piece says where it came from.
    offset_stderr: int = 0
    frames: bool = False


class LogReader:
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
        path = self.path()
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
        self, attempt: Attempt, search: LogSearch, hits: int, place: tuple[int, int, int]
    ) -> LogFound:
        """Lines that the node finds, from a place on."""
        path = self.path()
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

    def of(self, stream: str) -> LogReader:
        """The same of another stream."""
        return LogReader(self.context, self.job, stream, self._task, self.only)

    def path(self) -> str:
        """Where the job asked its output to go; empty: the agent keeps it."""
        spec = self.job.spec
        pattern = {"stdout": spec.output, "stderr": spec.error}.get(self._stream, "")
        return output_path(pattern, self.job, self._task)


def _unwritten(attempt: Attempt) -> str:
    """A file that no attempt has opened is not its output, whatever user owns it."""
    return "" if attempt.live else "the attempt was never started, so it has written nothing"


async def read_now(reader: LogReader, attempt: Attempt, first: LogPart) -> AsyncIterator[bytes]:
    """From the first part on to where the file ended when we began."""
    part = first
    while part.body:
        yield part.body
        offset = part.offset + len(part.body)
        if offset >= first.size:
            return
        part = await reader.part(attempt, offset)


async def follow(
    reader: LogReader, follow_one: Callable[[int, bool], AsyncIterator[bytes]]
) -> AsyncIterator[bytes]:
    """Every byte until the job has ended (or the one attempt that was asked for).

    ``follow_one`` gives those of one attempt by its number, and is told whether it is the first.
    """
    context = reader.context
    number, wait_s = 0, LOOK_S_MIN
    while not context.closing.is_set():
        await reader.refresh()
        final = reader.job.outcome is not None
        tries = [a for a in reader.attempts() if a.number > number]
        attempt = next(iter(tries) if number else reversed(tries), None)
        if attempt is None:
            if final:
                # A reader of the last byte finds the job ended when it asks.
                await context.host.on_disk()
                return
            await _nap(reader, wait_s)
            wait_s = min(2 * wait_s, LOOK_S_MAX)
            continue
        async for piece in follow_one(attempt.number, not number):
            yield piece
        number, wait_s = attempt.number, LOOK_S_MIN
        if reader.only is not None:
            return


async def _follow_one(
    reader: LogReader, number: int, offset: int, tail: int
) -> AsyncIterator[bytes]:
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


async def _follow_both(reader: LogReader, number: int, wish: LogWish) -> AsyncIterator[bytes]:
    """The same for both streams together."""
    wait_s, silent_since_s = LOOK_S_MIN, time.monotonic()
    merger: Merger | None = None
    while not reader.context.closing.is_set():
        await reader.refresh()
        attempt = next(a for a in reader.attempts() if a.number == number)
        ended, pieces = not attempt.live, []
        try:
            if merger is None:
                merger = await make_merger(reader, attempt, wish)
            merger.attempt = attempt
            await merger.look()
            pieces = [piece async for piece in merger.pieces()]
        except Unavailable:
            if ended and time.monotonic() - silent_since_s > ABSENT_S:
                return
            await _nap(reader, LOOK_S_MAX)
            continue
        silent_since_s = time.monotonic()
        if pieces:
            pieces = last_of(pieces, wish.tail) if wish.tail else pieces
            wish, wait_s = wish._replace(tail=None), LOOK_S_MIN
            for piece in pieces:
                yield pack(piece) if wish.frames else piece.body
        elif ended:
            return
        else:
            await _nap(reader, wait_s)
            wait_s = min(2 * wait_s, LOOK_S_MAX)


async def make_merger(reader: LogReader, attempt: Attempt, wish: LogWish) -> Merger:
    """Both streams of an attempt, from where the caller wants them on."""
    out, err = reader.of("stdout"), reader.of("stderr")
    ours = not out.path() and not err.path()
    merger = Merger(
        out,
        None if out.path() and out.path() == err.path() else err,
        reader.of("order") if ours else None,
        attempt,
    )
    if wish.tail:
        await merger.last_lines(wish.tail)
    else:
        merger.places.update({OUT: wish.offset, ERR: wish.offset_stderr})
    return merger


async def _nap(reader: LogReader, wait_s: float) -> None:
    """Wait a little, or until the job has ended."""
    context = reader.context
    await context.until_closing(context.host.watch.settled([reader.job_id], wait_s))


def followed(reader: LogReader, number: int, wish: LogWish, first: bool) -> AsyncIterator[bytes]:
    """One attempt; only in the first one the caller's place counts."""
    if not first:
        wish = wish._replace(offset=0, offset_stderr=0, tail=None)
    if wish.stream == BOTH:
        return _follow_both(reader, number, wish)
    return _follow_one(reader, number, wish.offset, wish.tail or 0)
