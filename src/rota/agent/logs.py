"""Reading what attempts wrote: parts of a file, or its last lines."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rota.rpc.messages import LogPart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.rpc.messages import ReadLog

#: No answer is larger; the caller asks for the next part.
PART_BYTES_MAX = 1 << 20
_BLOCK_BYTES = 1 << 16
_ENDINGS = {"stdout": "out", "stderr": "err"}


def read_log(folder: Path, request: ReadLog) -> LogPart:
    """Answer one request. A log that does not exist yet is empty; trouble is told in words."""
    ending = _ENDINGS.get(request.stream)
    if ending is None:
        return _refuse(request, f"stream {request.stream!r}: stdout or stderr")
    path = request.path or str(folder / "logs" / f"{os.path.basename(request.uid)}.{ending}")
    try:
        with _rights_of(request):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return _refuse(request, f"{path}: no such file" if request.path else "")
    except (OSError, LookupError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.args[0]
        return _refuse(request, f"{path}: {str(reason).lower()}")
    try:
        return _read_part(fd, path, request)
    finally:
        os.close(fd)


def _refuse(request: ReadLog, error: str) -> LogPart:
    return LogPart(request.request, max(request.offset, 0), b"", 0, error)


@contextmanager
def _rights_of(request: ReadLog) -> Iterator[None]:
    """Open a path that a user chose with that user's rights: it may be a link to anything.

    The effective ids belong to the whole program, which is why nothing may wait in between.
    """
    if os.geteuid() != 0 or not request.path or request.user == "root":
        yield
        return
    if not request.user:
        raise LookupError("the request does not say whose file it is")
    try:
        entry = pwd.getpwnam(request.user)
    except KeyError:
        raise LookupError(f"user {request.user}: no such user on this node") from None
    groups = os.getgroups()
    os.setgroups(os.getgrouplist(request.user, entry.pw_gid))
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _read_part(fd: int, path: str, request: ReadLog) -> LogPart:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return _refuse(request, f"{path}: not a regular file")
    size = status.st_size
    if request.lines > 0:
        begin = start_of_last_lines(fd, size, request.lines)
    elif request.offset < 0:
        begin = max(0, size + request.offset)
    else:
        begin = request.offset
    limit = min(request.limit, PART_BYTES_MAX) if request.limit > 0 else PART_BYTES_MAX
    body = os.pread(fd, limit, begin) if begin < size else b""
    return LogPart(request.request, begin, body, size)


def start_of_last_lines(fd: int, size: int, lines: int) -> int:
    """Where the last ``lines`` lines begin; a last line without an end counts as one."""
    end = size
    left = lines
    if size and os.pread(fd, 1, size - 1) == b"\n":
        end -= 1
    while end > 0:
        begin = max(0, end - _BLOCK_BYTES)
        block = os.pread(fd, end - begin, begin)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            left -= 1
            if left == 0:
                return begin + at + 1
        end = begin
    return 0


def drop_old_logs(folder: Path, before_s: float, alive: frozenset[str]) -> int:
    """Remove logs that nobody has written to since, but those of living attempts. How many."""
    went = 0
    with suppress(FileNotFoundError), os.scandir(folder / "logs") as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                uid = entry.name.rpartition(".")[0]
                if uid not in alive and entry.stat(follow_symlinks=False).st_mtime < before_s:
                    os.unlink(entry.path)
                    went += 1
    return went
