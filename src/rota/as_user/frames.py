"""Pieces of bytes on a pipe, each behind its length. Both ends use it; it needs no package."""

from __future__ import annotations

import os
import select
import struct
import time

#: No piece is longer.
FRAME_BYTES_MAX = 16 << 20
_LENGTH = struct.Struct("!I")


class Broken(Exception):
    """The other end has gone, says nothing in time, or does not keep to the form."""


def send(fd: int, body: bytes, limit_s: float | None = None) -> None:
    """One piece; with a limit the pipe must not block."""
    until_s = None if limit_s is None else time.monotonic() + limit_s
    left = memoryview(_LENGTH.pack(len(body)) + body)
    while left:
        if until_s is not None:
            _wait(fd, select.POLLOUT, until_s)
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise Broken(str(error)) from None


def receive(fd: int, limit_s: float | None = None) -> bytes:
    """The next piece. Without one because the other end is done: ``Broken``."""
    until_s = None if limit_s is None else time.monotonic() + limit_s
    (length,) = _LENGTH.unpack(_read(fd, _LENGTH.size, until_s))
    if length > FRAME_BYTES_MAX:
        raise Broken(f"a piece of {length} bytes")
    return _read(fd, length, until_s)


def _read(fd: int, count: int, until_s: float | None) -> bytes:
    parts: list[bytes] = []
    while count:
        if until_s is not None:
            _wait(fd, select.POLLIN, until_s)
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise Broken("it has ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _wait(fd: int, event: int, until_s: float) -> None:
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(max(0.0, until_s - time.monotonic()) * 1000):
        raise TimeoutError
