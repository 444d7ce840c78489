"""In which order the two streams of an attempt were written: noted while its files grow.

A job writes to two files by itself; nothing of ours stands between. What the kernel tells of
changes in the folder is noted in a third file beside them, a line each time the other stream goes
on: ``OUT ERR oeo`` are the sizes of both by then, and in which order they were written since the
line before. Files that a job chose by itself are not watched: they may be anywhere.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.as_user.owners import look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: How the name of the file of notes ends.
ENDING = "ord"
#: What is written within this time is told apart only where every write was one line.
NAP_S = 0.02
#: Of the agent's time at most one part in this number goes into this.
SHARE = 20
#: Notes become rarer as their file grows: a second between them at this size, two at twice of it.
DENSE_BYTES = 256 * 1024
#: A longer story of one moment is not kept.
STORY_MAX = 64
_LETTERS = {"out": "o", "err": "e"}
_IN_MODIFY = 0x2
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_libc = ctypes.CDLL(None, use_errno=True)

log = logging.getLogger("rota.agent")


class _Streams:
    """What is known of the two files of one attempt."""

    __slots__ = ("last", "noted", "noted_bytes", "noted_s", "sizes", "story")

    def __init__(self) -> None:
        self.sizes = {"o": 0, "e": 0}
        self.noted = (0, 0)
        self.story = ""
        self.last = ""
        self.noted_bytes = 0
        self.noted_s = 0.0


class LogOrder:
    """Watches the folder of logs. ``alive`` gives the uids of running attempts."""

    def __init__(self, folder: Path, alive: Callable[[], frozenset[str]]) -> None:
        self._folder = str(folder / "logs")
        self._alive = alive
        self._known: dict[str, _Streams] = {}

    async def run(self) -> None:
        """Until it is cancelled. Without a watch there are no notes, and no harm."""
        fd = _watch(self._folder)
        if fd < 0:
            why = os.strerror(ctypes.get_errno())
            log.info("the order of what jobs print is not noted: %s", why)
            return
        loop, grown = asyncio.get_running_loop(), asyncio.Event()
        try:
            while True:
                grown.clear()
                loop.add_reader(fd, grown.set)
                await grown.wait()
                loop.remove_reader(fd)
                began_s = time.monotonic()
                self.note(_stories(fd))
                await asyncio.sleep(max(NAP_S, SHARE * (time.monotonic() - began_s)))
        finally:
            loop.remove_reader(fd)
            os.close(fd)

    def note(self, stories: dict[str, str]) -> None:
        """Attempts whose files have grown, and in which order they did: ``{uid: "oeo"}``."""
        if len(self._known) > 1000:
            alive = self._alive() | stories.keys()
            self._known = {uid: one for uid, one in self._known.items() if uid in alive}
        for uid, story in stories.items():
            streams = self._known.setdefault(uid, _Streams())
            lines = self._lines(uid, streams, story)
            if lines:
                self._write(uid, streams, lines)

    def _lines(self, uid: str, streams: _Streams, story: str) -> str:
        """What is to be noted: nothing while the same stream goes on alone."""
        before = streams.sizes.copy()
        for letter, ending in (("o", "out"), ("e", "err")):
            if letter in story:
                with suppress(OSError):
                    streams.sizes[letter] = look(f"{self._folder}/{uid}.{ending}").size
        alone = not streams.story and len(story) == 1 and streams.last in ("", story)
        earlier, streams.last = streams.last, story[-1]
        if alone:
            return ""
        grown = (before["o"], before["e"])
        lines = ""
        if not streams.story and earlier and grown != streams.noted:
            lines = f"{grown[0]} {grown[1]} {earlier}\n"
        streams.story = (streams.story + story)[:STORY_MAX]
        if time.monotonic() - streams.noted_s < streams.noted_bytes / DENSE_BYTES:
            return ""
        streams.noted = (streams.sizes["o"], streams.sizes["e"])
        lines += f"{streams.noted[0]} {streams.noted[1]} {streams.story}\n"
        streams.story = ""
        return lines

    def _write(self, uid: str, streams: _Streams, lines: str) -> None:
        try:
            fd = os.open(f"{self._folder}/{uid}.{ENDING}", _APPEND, 0o600)
        except OSError:
            return
        try:
            streams.noted_bytes += os.write(fd, lines.encode())
            streams.noted_s = time.monotonic()
        except OSError:
            log.debug("no room for the order of %s", uid)
        finally:
            os.close(fd)


def _watch(folder: str) -> int:
    """A descriptor that tells of files that grow in the folder; -1: there is none to be had."""
    fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0 and _libc.inotify_add_watch(fd, os.fsencode(folder), _IN_MODIFY) < 0:
        number = ctypes.get_errno()
        os.close(fd)
        ctypes.set_errno(number)
        return -1
    return fd


def _stories(fd: int) -> dict[str, str]:
    """Which streams of which attempts grew, in order: ``{uid: "oeo"}``."""
    stories: dict[str, str] = {}
    while True:
        try:
            body = os.read(fd, _READ_BYTES)
        except OSError as error:
            if error.errno == errno.EINTR:
                continue
            return stories
        at = 0
        while at < len(body):
            *_, length = _EVENT.unpack_from(body, at)
            at += _EVENT.size + length
            name = os.fsdecode(body[at - length : at].rstrip(b"\0"))
            uid, _, ending = name.rpartition(".")
            letter = _LETTERS.get(ending)
            if letter is not None and not stories.get(uid, "").endswith(letter):
                stories[uid] = stories.get(uid, "") + letter
