"""Looking for lines in what a job printed: done on its node, told as ``grep`` would."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.errors import NotFound, Rejected
from rota.rpc.visits import SearchLog

if TYPE_CHECKING:
    from rota.api.jobs.log_reader import LogReader
    from rota.core.facts.job import Attempt
    from rota.rpc.visits import FoundLine

#: A search goes on over parts of a log for so long; then it says where it stopped.
SEARCH_S = 20.0
#: The most that goes into one answer.
ANSWER_BYTES_MAX = 1 << 20
PATTERN_MAX, CONTEXT_MAX, HITS_MAX = 1000, 100, 10_000
SEPARATOR = b"--\n"


class LogSearch(NamedTuple):
    """Which lines somebody looks for."""

    pattern: str
    regex: bool = False
    ignore_case: bool = False
    context: int = 0
    #: With the number of each line before it.
    numbers: bool = False
    hits: int = 1000
    #: The number of the line where it begins.
    line: int = 1


class FoundLines(NamedTuple):
    """Lines as text, how many of them are hits, and where to go on; -1: nothing was left out."""

    body: bytes
    hits: int
    next_offset: int = -1
    next_line: int = 1


def check(search: LogSearch) -> None:
    """Refuse what no node could carry out.

    An expression is read on the node: to compile one can take as long as to search with it.
    """
    if len(search.pattern) > PATTERN_MAX:
        raise Rejected.many("search", len(search.pattern), PATTERN_MAX, "characters")
    if "\n" in search.pattern or "\0" in search.pattern:
        raise Rejected.bad("search", search.pattern, "one line of text")


async def look_through(
    reader: LogReader, attempt: Attempt, search: LogSearch, offset: int
) -> FoundLines:
    """Ask the node, part by part, until the log is over or the answer is full."""
    lines: list[FoundLine] = []
    hits = size = 0
    line, fresh = search.line, max(offset, 0)
    offset = fresh
    until_s = time.monotonic() + SEARCH_S
    while True:
        found = await reader.search(attempt, search, search.hits - hits, (offset, line, fresh))
        if found.error:
            raise _refusal(reader, found.error)
        lines += found.lines
        size += sum(len(one.body) for one in found.lines)
        hits += sum(one.hit for one in found.lines)
        offset, line, fresh = found.offset, found.line, found.fresh
        if found.over:
            return FoundLines(as_text(lines, search), hits)
        if hits >= search.hits or size >= ANSWER_BYTES_MAX or time.monotonic() > until_s:
            return FoundLines(as_text(lines, search), hits, offset, line)


def _refusal(reader: LogReader, problem: str) -> Exception:
    if problem.startswith("regex: "):
        return Rejected(problem, field="search")
    return NotFound(problem, field="id", value=reader.job_id)


def as_text(lines: list[FoundLine], search: LogSearch) -> bytes:
    """As ``grep`` prints it: groups that are apart have a line between them."""
    parts: list[bytes] = []
    last = 0
    for line in lines:
        if search.context and last and line.number > last + 1:
            parts.append(SEPARATOR)
        last = line.number
        if search.numbers:
            parts.append(f"{line.number}{':' if line.hit else '-'}".encode())
        parts.append(line.body if line.body.endswith(b"\n") else line.body + b"\n")
    return b"".join(parts)


def message(
    search: LogSearch, request: int, hits: int, place: tuple[int, int, int], **where: str
) -> SearchLog:
    offset, line, fresh = place
    return SearchLog(
        request=request,
        pattern=search.pattern,
        regex=search.regex,
        ignore_case=search.ignore_case,
        context=search.context,
        hits=hits,
        offset=offset,
        line=line,
        fresh=fresh,
        **where,
    )
