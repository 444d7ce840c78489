"""Reading what attempts wrote: parts of a file, or its last lines."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rota.rpc.visits import LogPart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.rpc.visits import ReadLog, SearchLog, WriteRemark

#: No answer is larger; the caller asks for the next part.
PART_BYTES_MAX = 1 << 20
_BLOCK_BYTES = 1 << 16
_PAGE_BYTES = 4096
#: Modes of ``fallocate``.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_ENDINGS = {"stdout": "out", "stderr": "err"}
_NOBODY = -1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.setfsuid.restype = _libc.setfsgid.restype = ctypes.c_uint32


class Unreadable(Exception):
    """There is nothing to read; in words, or without any where it is merely not there yet."""


def read_log(folder: Path, request: ReadLog) -> LogPart:
    """Answer one request. A log that does not exist yet is empty; trouble is told in words."""
    try:
        fd = open_log(folder, request)
    except Unreadable as error:
        return LogPart(request.request, max(request.offset, 0), b"", 0, str(error))
    try:
        return _read_part(fd, request)
    finally:
        os.close(fd)


def open_log(folder: Path, request: ReadLog | SearchLog) -> int:
    """A descriptor of the file that is meant, or ``Unreadable``."""
    ending = _ENDINGS.get(request.stream)
    if ending is None:
        raise Unreadable(f"stream {request.stream!r}: stdout or stderr")
    path = request.path or str(folder / "logs" / f"{os.path.basename(request.uid)}.{ending}")
    try:
        with rights_of(request):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise Unreadable(f"{path}: no such file" if request.path else "") from None
    except (OSError, LookupError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.args[0]
        raise Unreadable(f"{path}: {str(reason).lower()}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unreadable(f"{path}: not a regular file")
    return fd


@contextmanager
def rights_of(request: ReadLog | SearchLog | WriteRemark) -> Iterator[None]:
    """Open a path that a user chose with that user's rights: it may be a link to anything.

    An agent without the rights of root has but its own, which are for its own user alone.
    """
    if not request.path or (os.geteuid() == 0 and request.user == "root"):
        yield
        return
    if not request.user:
        raise LookupError("the request does not say whose file it is")
    try:
        entry = pwd.getpwnam(request.user)
    except KeyError:
        raise LookupError(f"user {request.user}: no such user on this node") from None
    if os.geteuid() != 0:
        if entry.pw_uid != os.geteuid():
            raise LookupError(f"the agent is not root and cannot read files of {request.user}")
        yield
        return
    groups = os.getgroups()
    try:
        os.setgroups(os.getgrouplist(request.user, entry.pw_gid))
        _touch_files_as(entry.pw_uid, entry.pw_gid)
        yield
    finally:
        _touch_files_as(0, 0)
        os.setgroups(groups)


def _touch_files_as(uid: int, gid: int) -> None:
    """For this thread alone: the effective ids are those of the whole program, and other threads
    of it work on files that are root's. Groups are, too, but root needs none to open a file."""
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    # The calls say nothing of failure; asked for nobody, they change nothing and say who it is.
    if (_libc.setfsuid(_NOBODY), _libc.setfsgid(_NOBODY)) != (uid, gid):
        raise OSError(errno.EPERM, "cannot act for its user")


def _read_part(fd: int, request: ReadLog) -> LogPart:
    size = os.fstat(fd).st_size
    if request.lines > 0:
        begin = start_of_last_lines(fd, size, request.lines)
    elif request.offset < 0:
        begin = max(0, size + request.offset)
    else:
        begin = request.offset
    if not request.path:
        begin = max(begin, first_kept(fd, size))
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


def first_kept(fd: int, size: int) -> int:
    """Where the log begins: of a large one the oldest part was given back to the disk."""
    try:
        return os.lseek(fd, 0, os.SEEK_DATA) if size else 0
    except OSError:
        return 0


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
