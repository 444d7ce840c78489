"""Both streams of a job as one, in the order in which they were written.

The node notes the order while the agent's own files grow (``OUT ERR oeo`` a line: the sizes of
both by then, and which was written in which order since the line before). Where there are no notes
(files that the job named itself, engines) standard output comes first, and a follower gets
what comes as it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.digits import is_digits
from rota.log_frames import ERR, OUT, Piece

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rota.api.jobs.log_reader import LogReader
    from rota.core.facts.job import Attempt
    from rota.rpc.visits import LogPart

#: Longer pieces of one moment are not taken apart line by line.
WEAVE_BYTES = 64 * 1024
_FIRST = {"o": (OUT, ERR), "e": (ERR, OUT)}


class Note(NamedTuple):
    """Both sizes at a moment, and the order of the writes before it."""

    out: int
    err: int
    story: str


class Merger:
    """One attempt, from two places on. Places only grow; what is behind them was given."""

    def __init__(
        self, out: LogReader, err: LogReader | None, order: LogReader | None, attempt: Attempt
    ) -> None:
        """Without ``err`` both go to one file; without ``order`` nobody notes it."""
        self._readers = {OUT: out} if err is None else {OUT: out, ERR: err}
        self._order = order
        self.attempt = attempt
        self.places = {OUT: 0, ERR: 0}
        #: How much of the files there is to give.
        self.sizes = {OUT: 0, ERR: 0}
        #: Where the files begin whose oldest part is gone.
        self.begins = {OUT: 0, ERR: 0}
        self._notes_read = 0
        self._last = "o"
        self._parts: dict[bytes, LogPart] = {}
        self.trouble = ""

    async def look(self) -> None:
        """How much there is now."""
        for stream, reader in self._readers.items():
            part = await reader.part(self.attempt, self.places[stream])
            self._take(stream, part)
            self.sizes[stream] = max(part.size, self.places[stream])
            self.trouble = self.trouble or part.error

    async def last_lines(self, count: int) -> None:
        """Begin with the last lines of each."""
        for stream, reader in self._readers.items():
            part = await reader.part(self.attempt, 0, count)
            if part.body:
                self.places[stream] = part.offset

    def _take(self, stream: bytes, part: LogPart) -> None:
        self._parts[stream] = part
        if part.body and part.offset > self.places[stream]:
            self.begins[stream] = part.offset
            self.places[stream] = part.offset

    @property
    def has_more(self) -> bool:
        return any(self.places[stream] < self.sizes[stream] for stream in (OUT, ERR))

    async def pieces(self) -> AsyncIterator[Piece]:
        """All that there was when we last looked, in order."""
        async for note in self._notes():
            if note.out <= self.places[OUT] and note.err <= self.places[ERR]:
                self._last = note.story[-1]
                continue
            ends = {OUT: min(note.out, self.sizes[OUT]), ERR: min(note.err, self.sizes[ERR])}
            async for piece in self._moment(note.story, ends):
                yield piece
            self._last = note.story[-1]
        # What nobody noted since belongs to the stream that went on alone.
        for stream in _FIRST[self._last]:
            async for piece in self._until(stream, self.sizes[stream]):
                yield piece

    async def _moment(self, story: str, ends: dict[bytes, int]) -> AsyncIterator[Piece]:
        lengths = {stream: ends[stream] - self.places[stream] for stream in ends}
        if len(story) > 2 and all(0 < length <= WEAVE_BYTES for length in lengths.values()):
            grown = {stream: b"" for stream in ends}
            for stream in ends:
                async for piece in self._until(stream, ends[stream]):
                    grown[stream] += piece.body
            for piece in woven(story, grown):
                yield piece
            return
        for stream in _FIRST[story[0]]:
            async for piece in self._until(stream, ends[stream]):
                yield piece

    async def _until(self, stream: bytes, end: int) -> AsyncIterator[Piece]:
        while (place := self.places[stream]) < end:
            part = self._parts.get(stream)
            if part is None or not part.offset <= place < part.offset + len(part.body):
                part = await self._readers[stream].part(self.attempt, place)
                self._take(stream, part)
                place = self.places[stream]
            body = part.body[place - part.offset : end - part.offset]
            if not body:
                return
            self.places[stream] = place + len(body)
            yield Piece(stream, body)

    async def _notes(self) -> AsyncIterator[Note]:
        """Those that were not read yet; half a line is read again."""
        while self._order is not None:
            part = await self._order.part(self.attempt, self._notes_read)
            lines, _, _ = part.body.rpartition(b"\n")
            if not lines:
                return
            self._notes_read = part.offset + len(lines) + 1
            for line in lines.split(b"\n"):
                note = _read(line)
                if note is not None:
                    yield note


def _read(line: bytes) -> Note | None:
    out, _, rest = line.decode("ascii", "replace").partition(" ")
    err, _, story = rest.partition(" ")
    if not (is_digits(out) and is_digits(err) and story and set(story) <= set("oe")):
        return None
    return Note(int(out), int(err), story)


def woven(story: str, grown: dict[bytes, bytes]) -> list[Piece]:
    """What was written in one moment: line by line where each write was one line, else apart."""
    lines = {stream: grown[stream].splitlines(keepends=True) for stream in (OUT, ERR)}
    if any(len(lines[stream]) != story.count(stream.decode()) for stream in (OUT, ERR)):
        return [Piece(stream, grown[stream]) for stream in _FIRST[story[0]] if grown[stream]]
    return [Piece(stream, lines[stream].pop(0)) for stream in map(str.encode, story)]


def last_of(pieces: list[Piece], count: int) -> list[Piece]:
    """The last lines of both together."""
    kept: list[Piece] = []
    for piece in reversed(pieces):
        for line in reversed(piece.body.splitlines(keepends=True)):
            if count <= 0:
                return kept[::-1]
            kept.append(Piece(piece.stream, line))
            count -= 1
    return kept[::-1]
