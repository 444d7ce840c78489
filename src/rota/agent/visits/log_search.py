"""Searching logs on the node: a process for each search, bounded in time and in number."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.agent.visits.logs import Unreadable, first_kept, open_log
from rota.rpc.visits import FoundLine, LogFound

if TYPE_CHECKING:
    from rota.rpc.visits import SearchLog

SCAN = Path(__file__).with_name("log_scan.py")
#: A search that takes longer hangs on one line: ordinary ones stop by themselves before.
LIMIT_S = 8.0
#: So many at once; who comes later waits for a turn.
AT_ONCE = 2


class LogSearch:
    """Searches in the logs of one node."""

    def __init__(self, folder: Path, limit_s: float = LIMIT_S) -> None:
        self._folder = folder
        self._limit_s = limit_s
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def answer(self, request: SearchLog) -> LogFound:
        """What was found; trouble is told in words."""
        try:
            async with self._turn:
                found = await self._search(request)
        except Unreadable as error:
            return LogFound(request.request, error=str(error))
        lines = tuple(
            FoundLine(number, hit, text.encode("latin-1")) for number, hit, text in found["lines"]
        )
        return LogFound(
            request.request, lines, found["over"], found["offset"], found["line"], found["fresh"]
        )

    async def _search(self, request: SearchLog) -> dict[str, Any]:
        fd = open_log(self._folder, request)
        try:
            size = os.fstat(fd).st_size
            begins = 0 if request.path else first_kept(fd, size)
            asked = {
                "pattern": request.pattern,
                "regex": request.regex,
                "ignore_case": request.ignore_case,
                "context": request.context,
                "hits": request.hits,
                "offset": max(request.offset, begins),
                "line": request.line,
                "fresh": request.fresh,
                "size": size,
            }
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(SCAN),
                json.dumps(asked),
                stdin=fd,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
            )
        finally:
            os.close(fd)
        try:
            async with asyncio.timeout(self._limit_s):
                said, _ = await process.communicate()
        except TimeoutError:
            raise Unreadable(f"regex: {request.pattern!r} takes too long on this log") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise Unreadable("the search failed on the node")
        found: dict[str, Any] = json.loads(said)
        return found
