"""What jobs on an engine printed: asked of the engine, or of a copy where the engine drops it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rota.as_user.children import OURSELVES, ErrandFailed, NotInTime, Readers
from rota.backends.api import EngineError, Feature
from rota.rpc.visits import FoundLine, LogFound, LogPart, SearchLog

if TYPE_CHECKING:
    from rota.backends.api import Driver, EngineJob
    from rota.rpc.visits import ReadLog

PART_BYTES_MAX = 1 << 20
#: The most of each stream that is copied; what comes after it is lost with the job.
COPY_BYTES_MAX = 64 << 20
STREAMS = ("stdout", "stderr")
#: What a job says of how far it is.
PROGRESS = "progress"
#: No search takes longer.
LIMIT_S = 8.0
_SEARCHED = ("pattern", "regex", "ignore_case", "context", "hits", "offset", "line", "fresh")


class EngineLogs:
    """Reads what attempts printed, while the engine has it and after."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self._driver, self._folder = driver, folder
        self._readers = Readers()

    def close(self) -> None:
        self._readers.close()

    async def keep(self, job: EngineJob) -> None:
        """Copy what the engine is about to drop."""
        if Feature.KEEPS_LOGS in self._driver.features or not job.started_s:
            return
        streams = STREAMS if Feature.STREAMS in self._driver.features else STREAMS[:1]
        for stream in streams:
            body = await self._whole(job, stream)
            await asyncio.to_thread(self._write, job.uid, stream, body)

    async def _whole(self, job: EngineJob, stream: str) -> bytes:
        body = b""
        while len(body) < COPY_BYTES_MAX:
            part, size = await self._driver.read_log(job, stream, len(body), PART_BYTES_MAX)
            body += part
            if not part or len(body) >= size:
                break
        return body

    def _write(self, uid: str, stream: str, body: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{uid}.{stream}"
        if path.is_file() and path.stat().st_size > len(body):
            return  # Copied before, and the engine has dropped it since.
        path.touch(mode=0o600)
        path.write_bytes(body)

    async def answer(
        self, job: EngineJob | None, request: ReadLog | SearchLog
    ) -> LogPart | LogFound:
        if isinstance(request, SearchLog):
            return await self._search(job, request)
        return await self._read(job, request)

    async def _search(self, job: EngineJob | None, request: SearchLog) -> LogFound:
        """In a copy, by a child that is stopped when a pattern takes too long."""
        copy = self._folder / f"{request.uid}.{request.stream}"
        try:
            if copy.is_file():
                return await self._search_in(str(copy), request)
            if job is None or not job.started_s:
                return LogFound(request.request)
            body = await self._whole(job, request.stream)
            with tempfile.NamedTemporaryFile(prefix="rota-search-") as draft:
                await asyncio.to_thread(Path(draft.name).write_bytes, body)
                return await self._search_in(draft.name, request)
        except EngineError as error:
            return LogFound(request.request, error=str(error))

    async def _search_in(self, path: str, request: SearchLog) -> LogFound:
        asked = {name: getattr(request, name) for name in _SEARCHED}
        try:
            _, body = await self._readers.ask(OURSELVES, "search", LIMIT_S, path=path, **asked)
        except NotInTime:
            return LogFound(request.request, error="the search takes too long on this log")
        except ErrandFailed as error:
            return LogFound(request.request, error=str(error))
        found = json.loads(body)
        lines = tuple(
            FoundLine(number, hit, text.encode("latin-1")) for number, hit, text in found["lines"]
        )
        went_on = (found["over"], found["offset"], found["line"], found["fresh"])
        return LogFound(request.request, lines, *went_on)

    async def _read(self, job: EngineJob | None, request: ReadLog) -> LogPart:
        """One part. What does not exist yet is empty; trouble is told in words."""
        start, number = max(request.offset, 0), request.request
        copy = self._folder / f"{request.uid}.{request.stream}"
        limit = min(request.limit, PART_BYTES_MAX) if request.limit > 0 else PART_BYTES_MAX
        if copy.is_file():
            body = await asyncio.to_thread(copy.read_bytes)
            start = first_of(body, request.offset, request.lines)
            return LogPart(number, start, body[start : start + limit], len(body))
        if job is None or not job.started_s or not self._has(request.stream):
            return LogPart(number, start, b"", 0)
        try:
            body, size = await self._driver.read_log(
                job, request.stream, request.offset, limit, request.lines
            )
        except EngineError as error:
            return LogPart(number, start, b"", 0, str(error))
        if request.offset < 0 or request.lines:
            start = max(size - len(body), 0)
        return LogPart(number, start, body, size)

    def _has(self, stream: str) -> bool:
        reports = Feature.REPORTS in self._driver.features
        return stream in STREAMS or (reports and stream == PROGRESS)


def first_of(body: bytes, offset: int, lines: int) -> int:
    """Where a part begins: a negative offset counts from the end, with ``lines`` in lines."""
    if lines:
        at = len(body)
        for _ in range(lines + body.endswith(b"\n")):
            at = body.rfind(b"\n", 0, at)
            if at < 0:
                return 0
        return at + 1
    return offset if offset >= 0 else max(0, len(body) + offset)
