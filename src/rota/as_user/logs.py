"""Reads, searches and remarks in files that jobs print to, with the rights of their user.

Holes are left out: a file may be said to have terabytes that nobody ever wrote. The child runs
this file without the package around it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.as_user.child import ChildRefusal
    from rota.as_user.scan import Scan, finder
else:
    from as_user.child import ChildRefusal
    from as_user.scan import Scan, finder

#: How much of the end is searched for the beginning of the last lines.
TAIL_BYTES_MAX = 4 << 20
_BLOCK_BYTES = 1 << 16
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
#: The file of a job that runs is there; one that its user has removed is not made again.
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def _open(order: dict[str, Any], flags: int = _READ) -> int:
    fd = os.open(order["path"], flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ChildRefusal(f"{order['path']}: not a regular file")
    return fd


def read(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A part of the file: its last lines, or from an offset on, which may count from the end."""
    fd = _open(order)
    try:
        size = os.fstat(fd).st_size
        note = ""
        if order["lines"] > 0:
            begin, note = start_of_last_lines(fd, size, order["lines"])
        elif order["offset"] < 0:
            begin = max(0, size + order["offset"])
        else:
            begin = order["offset"]
        begin, end = _written(fd, begin, size)
        body = os.pread(fd, min(order["limit"], end - begin), begin) if begin < end else b""
        return {"offset": begin, "size": size, "note": note}, body
    finally:
        os.close(fd)


def search(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    try:
        finder(order["pattern"], regex=order["regex"], ignore_case=order["ignore_case"])
    except (re.error, OverflowError, RecursionError) as error:
        raise ChildRefusal(
            f"regex: {order['pattern']!r} is no regular expression: {error}"
        ) from None
    fd = _open(order)
    # To look for holes moves the place in the file: nothing may be read ahead.
    with open(fd, "rb", buffering=0) as file:
        size = os.fstat(fd).st_size
        asked = order | {"size": size, "offset": _written(fd, order["offset"], size)[0]}
        scan = Scan(file, asked, lambda offset: _written(fd, offset, size)[0])
        return {}, json.dumps(scan.run()).encode()


def remark(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A last word behind what is there."""
    fd = _open(order, _APPEND)
    try:
        os.write(fd, order["text"].encode())
    finally:
        os.close(fd)
    return {}, b""


def _seek(fd: int, place: int, what: int, otherwise: int) -> int:
    """Where the next data or the next hole begins; not every file system knows."""
    try:
        return os.lseek(fd, place, what)
    except OSError as error:
        return otherwise if error.errno == errno.ENXIO else place


def _written(fd: int, begin: int, size: int) -> tuple[int, int]:
    """The first stretch from a place on that was written: where it begins, and its hole."""
    if begin >= size:
        return begin, begin
    begin = _seek(fd, begin, os.SEEK_DATA, size)
    end = _seek(fd, begin, os.SEEK_HOLE, size) if begin < size else size
    return begin, end if end > begin else size


def _end_of_data(fd: int, size: int) -> int:
    """Where the last hole begins, if the file ends with one: found by halves."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if _seek(fd, middle, os.SEEK_DATA, size) < size:
            low = middle + 1
        else:
            high = middle
    if low < size:
        # The file system keeps whole pages: what was not written of the last one is zeros.
        block = os.pread(fd, min(low, _BLOCK_BYTES), max(0, low - _BLOCK_BYTES))
        low -= len(block) - len(block.rstrip(b"\0"))
    return low


def start_of_last_lines(fd: int, size: int, lines: int) -> tuple[int, str]:
    """Where the last ``lines`` lines begin, and a word where that is not quite true.

    A last line without an end counts as one; a hole ends a line.
    """
    end = _end_of_data(fd, size)
    floor = max(0, end - TAIL_BYTES_MAX)
    left = lines
    if end and os.pread(fd, 1, end - 1) == b"\n":
        end -= 1
    while end > floor:
        begin = wanted = max(floor, end - _BLOCK_BYTES)
        while (stretch := _written(fd, begin, end))[1] < end:
            begin = stretch[1]
        begin = stretch[0]
        block = os.pread(fd, end - begin, begin)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            left -= 1
            if left == 0:
                return begin + at + 1, ""
        if begin > wanted:
            # Here, too, the beginning of the first page may never have been written.
            return begin + len(block) - len(block.lstrip(b"\0")), ""
        end = begin
    if floor and end <= floor:
        return floor, f"only the last {TAIL_BYTES_MAX >> 20} MiB were looked at for lines"
    return 0, ""
