"""Questions whose answer may never come: each is asked by a child of ours, with a deadline.

What only the memory of a user's process can say is as large as that user makes it, and the read
may hang. A child hangs instead of the keeper, and is killed. One user's questions stand in a row,
so that they delay nobody else's. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    Heard = Callable[[bytes, bool], None]

ANSWER_S = 1.0
#: The child goes by itself after this, should its keeper be gone.
_ALARM_S = 5
_PART = 1 << 18


class Aside:
    """One question, and the child that asks it."""

    __slots__ = ("body", "fd", "heard", "pid", "until_s", "whose", "words")

    def __init__(self, whose: int, words: Iterable[bytes], heard: Heard) -> None:
        self.whose = whose
        self.words = words
        self.heard = heard
        self.body = bytearray()
        self.fd = self.pid = -1
        self.until_s = 0.0


class Asides:
    """All questions that are being asked, by the descriptor where the answer comes."""

    def __init__(self, poll: select.epoll, own: set[int]) -> None:
        """``own`` gets the pids of the children."""
        self._poll = poll
        self._own = own
        self._open: dict[int, Aside] = {}
        #: What waits for the question before it of the same user.
        self._rows: dict[int, deque[Aside]] = {}

    def ask(self, whose: int, words: Iterable[bytes], heard: Heard) -> None:
        """``words`` are said in the child, piece by piece.

        ``heard`` gets what came of them, and whether the child had to be killed before the end.
        """
        aside = Aside(whose, words, heard)
        row = self._rows.get(whose)
        if row is not None:
            row.append(aside)
            return
        self._rows[whose] = deque()
        self._begin(aside)

    def _begin(self, aside: Aside) -> None:
        ends: tuple[int, ...] = ()
        try:
            ends = os.pipe()
            aside.pid = os.fork()
            if aside.pid == 0:
                _say(aside.words, ends[1])
            os.close(ends[1])
        except OSError:
            for fd in ends:
                os.close(fd)
            self._end(aside, hung=False)
            return
        os.set_blocking(ends[0], False)
        aside.fd, aside.until_s = ends[0], time.monotonic() + ANSWER_S
        self._own.add(aside.pid)
        self._open[aside.fd] = aside
        self._poll.register(aside.fd, select.EPOLLIN)

    def take(self, fd: int) -> bool:
        """A part of an answer, if this is where one comes."""
        aside = self._open.get(fd)
        if aside is None:
            return False
        try:
            while piece := os.read(fd, _PART):
                aside.body += piece
        except BlockingIOError:
            return True
        self._close(aside, hung=False)
        return True

    def wait_s(self) -> float | None:
        """How long the loop may sleep."""
        if not self._open:
            return None
        return max(0.0, min(one.until_s for one in self._open.values()) - time.monotonic())

    def enforce(self) -> None:
        """Who has not answered in time does not answer."""
        now_s = time.monotonic()
        for aside in [one for one in self._open.values() if now_s >= one.until_s]:
            # It may be the keeper that was slow.
            self.take(aside.fd)
            if self._open.get(aside.fd) is aside:
                with suppress(OSError):
                    os.kill(aside.pid, signal.SIGKILL)
                self._close(aside, hung=True)

    def settle(self, limit_s: float) -> None:
        """Until all is answered, and no longer than this."""
        until_s = time.monotonic() + limit_s
        while self._open and (left_s := until_s - time.monotonic()) > 0:
            poll = select.poll()
            for fd in self._open:
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(1000 * min(left_s, self.wait_s() or 0)):
                self.take(fd)
            self.enforce()

    def _close(self, aside: Aside, *, hung: bool) -> None:
        self._poll.unregister(aside.fd)
        os.close(aside.fd)
        del self._open[aside.fd]
        self._end(aside, hung=hung)

    def _end(self, aside: Aside, *, hung: bool) -> None:
        aside.heard(bytes(aside.body), hung)
        row = self._rows[aside.whose]
        if row:
            self._begin(row.popleft())
        else:
            del self._rows[aside.whose]


def _say(words: Iterable[bytes], write: int) -> NoReturn:
    """In a child of the keeper: it has nothing of the keeper's but the end of the pipe."""
    try:
        signal.set_wakeup_fd(-1)
        signal.alarm(_ALARM_S)
        os.dup2(write, 0)
        os.closerange(1, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        for piece in words:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(0, rest) :]
    finally:
        os._exit(0)
