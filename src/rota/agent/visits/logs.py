"""What attempts wrote: parts of it, searches in it, and how much of it is kept."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rota.agent.files.reports import place_of
from rota.agent.visits import log_order
from rota.as_user.children import ErrandFailed, NotInTime, Readers, named
from rota.as_user.owners import look, owner_of
from rota.paths import log_file
from rota.rpc.visits import FoundLine, LogFound, LogPart, SearchLog

if TYPE_CHECKING:
    from pathlib import Path

    from rota.rpc.visits import ReadLog, WriteRemark

#: No answer is larger; the caller asks for the next part.
PART_BYTES_MAX = 1 << 20
#: No read and no search takes longer; ordinary searches stop by themselves before.
LIMIT_S = 8.0
_PAGE_BYTES = 4096
#: Modes of ``fallocate``.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_OTHERS = 0o077
#: The third one is ours: in which order the two were written.
_ENDINGS = {"stdout": "out", "stderr": "err", "order": log_order.ENDING}
#: What an attempt says of itself is read in the same way, from a folder of its user.
PROGRESS = "progress"
_libc = ctypes.CDLL(None, use_errno=True)

log = logging.getLogger("rota.agent")


class Unreadable(Exception):
    """There is nothing to read; in words, or without any where it is merely not there yet."""


class Logs:
    """Reads and searches in what attempts wrote, each in a child that is the attempt's user."""

    def __init__(self, folder: Path, limit_s: float = LIMIT_S) -> None:
        self._folder = folder / "logs"
        self._agent = str(folder)
        self._limit_s = limit_s
        self._readers = Readers()

    def close(self) -> None:
        self._readers.close()

    async def read(self, request: ReadLog) -> LogPart:
        """One part. A log that does not exist yet is empty; trouble is told in words."""
        limit = min(request.limit, PART_BYTES_MAX) if request.limit > 0 else PART_BYTES_MAX
        asked = {"offset": request.offset, "lines": request.lines, "limit": limit}
        try:
            told, body = await self._ask(request, "read", asked)
        except Unreadable as error:
            return LogPart(request.request, max(request.offset, 0), b"", 0, str(error))
        return LogPart(request.request, told["offset"], body, told["size"], told["note"])

    async def search(self, request: SearchLog) -> LogFound:
        """What was found; trouble is told in words."""
        names = "pattern regex ignore_case context hits offset line fresh"
        asked = {name: getattr(request, name) for name in names.split()}
        try:
            _, body = await self._ask(request, "search", asked)
        except Unreadable as error:
            return LogFound(request.request, error=str(error))
        found = json.loads(body)
        lines = tuple(
            FoundLine(number, hit, text.encode("latin-1")) for number, hit, text in found["lines"]
        )
        return LogFound(
            request.request, lines, found["over"], found["offset"], found["line"], found["fresh"]
        )

    async def remark(self, message: WriteRemark) -> None:
        """A last word of ours; where it cannot be written, nobody is harmed."""
        try:
            await self._readers.ask(
                named(message.user), "remark", self._limit_s, path=message.path, text=message.text
            )
        except ErrandFailed as error:
            log.debug("no remark in %s: %s", message.path, error)

    async def _ask(
        self, request: ReadLog | SearchLog, errand: str, asked: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        path, who = self._place(request)
        try:
            return await self._readers.ask(who, errand, self._limit_s, path=path, **asked)
        except NotInTime as error:
            if isinstance(request, SearchLog) and request.regex:
                raise Unreadable(f"regex: {request.pattern!r} takes too long on this log") from None
            raise Unreadable(f"{path}: {error}") from None
        except ErrandFailed as error:
            if error.missing:
                raise Unreadable(f"{path}: no such file" if request.path else "") from None
            text = str(error)
            raise Unreadable(
                text if text.startswith((path, "regex: ")) else f"{path}: {text}"
            ) from None

    def _place(self, request: ReadLog | SearchLog) -> tuple[str, str]:
        """The file that is meant, and whom it is read as: a chosen path may be a link to anything.

        A file of our own folder belongs to the attempt's user, and nobody else can make one there.
        """
        if request.stream == PROGRESS and request.user:
            path = place_of(self._agent, request.user, request.uid)
            try:
                look(os.path.dirname(path))
            except OSError:
                raise Unreadable("") from None
            return path, named(request.user)
        ending = _ENDINGS.get(request.stream)
        if ending is None:
            raise Unreadable(f"stream {request.stream!r}: stdout or stderr")
        if request.path:
            if not request.user:
                raise Unreadable(f"{request.path}: the request does not say whose file it is")
            return request.path, named(request.user)
        path = str(log_file(self._folder, f"{os.path.basename(request.uid)}.{ending}"))
        try:
            return path, owner_of(path)
        except FileNotFoundError:
            raise Unreadable("") from None


def drop_beginning(path: str, most_bytes: int) -> int:
    """Keep about the newest ``most_bytes`` of a log on disk; how many bytes were given back.

    The oldest part becomes a hole: a job that goes on writing and people who follow it keep their
    place in the file, and no byte is lost between them.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_blocks * 512 <= most_bytes:
            return 0
        # A quarter more than needed goes: it is not worth doing for every page.
        end = (status.st_size - most_bytes * 3 // 4) // _PAGE_BYTES * _PAGE_BYTES
        if end <= 0 or not _punch(fd, end):
            return 0
        return status.st_blocks * 512 - os.fstat(fd).st_blocks * 512
    finally:
        os.close(fd)


def _punch(fd: int, length: int) -> bool:
    """Whether the file system could make a hole of the first ``length`` bytes."""
    mode = _KEEP_SIZE | _PUNCH_HOLE
    done = _libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(length))
    return bool(done == 0)


def close_to_others(folder: Path) -> None:
    """What an earlier version left readable for everybody."""
    with suppress(OSError), os.scandir(folder / "logs") as entries:
        for entry in entries:
            with suppress(OSError):
                mode = entry.stat(follow_symlinks=False).st_mode
                if mode & _OTHERS and not stat.S_ISDIR(mode):
                    fd = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                    try:
                        os.fchmod(fd, 0o600)
                    finally:
                        os.close(fd)
