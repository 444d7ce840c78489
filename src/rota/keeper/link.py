"""The keeper's end of a starter: the process that bears the keeper's children.

Two kinds of starter do the same: a compiled one, and one in Python for machines without a compiler
and for jobs with a terminal. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from rota.keeper.means import PYTHON, Means
    from rota.keeper.packed import take_reports
else:
    from keeper.means import PYTHON
    from keeper.packed import take_reports

_PYTHON_STARTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "starter.py")
_ORDERS, _REPORTS = 3, 4
#: Descriptors of our own must not lie where the starter expects its two.
_ABOVE = 10
#: The starter writes the uid of an attempt over this: it is what /proc shows of a child.
_ROOM = {"ROTA_STARTER": "-" * 512}
#: A starter that takes no orders for so long is stuck.
_SEND_S = 5.0
_PART = 1 << 16
#: What Python ignores; a job does not.
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


class StarterGone(Exception):
    """It takes no more orders."""


class Link:
    """One starter: orders go to it in one write, reports are read as they come."""

    def __init__(self, kind: str, means: Means) -> None:
        """``kind`` is the path of a compiled one, or ``PYTHON``."""
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        fds = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in (theirs.fileno(), write)]
        words = [kind] if kind != PYTHON else [sys.executable, "-I", "-S", _PYTHON_STARTER]
        try:
            self.pid = os.fork()
            if self.pid == 0:
                # The folder says to people whose starter it is.
                words += [str(os.getppid()), means.score, means.folder]
                _become_starter(words, fds)
        except OSError:
            ours.close()
            os.close(read)
            raise
        finally:
            theirs.close()
            for fd in (write, *fds):
                os.close(fd)
        self.kind = kind
        #: It has borne a child, or found that it could not.
        self.proved = False
        self.reports = read
        self._socket = ours
        self._unread = bytearray()
        ours.setblocking(False)
        os.set_blocking(read, False)

    def send(self, orders: bytes) -> None:
        """All of it, or ``StarterGone``. Reports are taken meanwhile: the starter never waits."""
        rest = memoryview(orders)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                wanted, room = [self.reports], [self._socket]
                if not any(select.select(wanted, room, [], _SEND_S)):
                    self.kill()
                    raise StarterGone from None
                self._fill()
            except OSError:
                raise StarterGone from None

    def _fill(self) -> bool:
        """False when nobody is left who could report."""
        try:
            while piece := os.read(self.reports, _PART):
                self._unread += piece
                if len(piece) < _PART:
                    return True
        except BlockingIOError:
            return True
        return False

    def take(self) -> tuple[list[tuple[int, int, int, int, tuple[int, ...]]], bool]:
        """The reports so far, and whether there can be more."""
        more = self._fill()
        reports = take_reports(self._unread)
        self.proved = self.proved or bool(reports)
        return reports, more

    def kill(self) -> None:
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self._socket.close()
        os.close(self.reports)


def _become_starter(words: list[str], fds: list[int]) -> NoReturn:
    """In a child of the keeper."""
    try:
        for ignored in _IGNORED:
            signal.signal(ignored, signal.SIG_DFL)
        os.dup2(fds[0], _ORDERS)
        os.dup2(fds[1], _REPORTS)
        os.execve(words[0], words, _ROOM)
    finally:
        os._exit(127)


class Starters:
    """One of each kind, as far as they are needed."""

    def __init__(
        self, means: Means, poll: select.epoll, own: set[int], say: Callable[[str], None]
    ) -> None:
        """``own`` gets the pids of starters that live."""
        self._kind = means.starter or PYTHON
        self._means = means
        self._poll = poll
        self._own = own
        self._say = say
        self._of_kind: dict[str, Link] = {}
        #: By the descriptor that reports come from, until nobody can report there any more.
        self.links: dict[int, Link] = {}
        #: Whether a report wakes the keeper.
        self.listening = False

    def listen(self, on: bool) -> None:
        if on != self.listening:
            self.listening = on
            for fd in self.links:
                if on:
                    self._poll.register(fd, select.EPOLLIN)
                else:
                    self._poll.unregister(fd)

    def link(self, *, terminal: bool) -> Link:
        """A starter that lives, or ``OSError`` when no process is to be had."""
        kind = PYTHON if terminal else self._kind
        link = self._of_kind.get(kind)
        if link is not None and link.pid in self._own:
            return link
        link = Link(kind, self._means)
        self._of_kind[kind] = self.links[link.reports] = link
        self._own.add(link.pid)
        if self.listening:
            self._poll.register(link.reports, select.EPOLLIN)
        return link

    def lose(self, link: Link) -> None:
        """Nobody can report there any more. One that never did is of no use on this machine."""
        if self.listening:
            self._poll.unregister(link.reports)
        del self.links[link.reports]
        link.close()
        if self._of_kind.get(link.kind) is link:
            del self._of_kind[link.kind]
        if link.kind == self._kind != PYTHON and not link.proved:
            self._say(f"starter {link.kind}: ended at once; the one in Python is used")
            self._kind = PYTHON
