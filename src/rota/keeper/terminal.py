"""A pseudo-terminal for one attempt: a process between the keeper and the program of the job.

The starter bore it for the keeper. It has the rights of the job, and is the attempt's main process:
it lives as long as the program and ends as the program ended. What the program prints goes to the
log as clean text and, as it is, to everybody who is attached; what they type goes to the program.
The socket was opened with the keeper's rights, so that only the keeper's user can attach.

From a viewer come frames: a letter, a length in four bytes, and that many bytes. ``i`` is input,
``w`` the size of its window (rows and columns in two bytes each). To a viewer go plain bytes. The
keeper runs this file without the package around it.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import socket
import struct
import termios
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

#: A terminal whose socket ends so is of one visitor: it begins and ends with them.
VISIT = b".visit"
#: So long the visitor has to come.
VISITOR_S = 10.0
#: What a visitor that attaches later is shown at once.
RECENT_BYTES = 16 * 1024
#: A viewer that reads this slowly misses something; the program never waits for one.
UNSENT_BYTES_MAX = 256 * 1024
UNREAD_BYTES_MAX = 64 * 1024
SKIPPED = b"\r\n[rota: output skipped]\r\n"
#: A line without an end is written to the log after this long.
PARTIAL_S = 0.3
#: How long the last words may take to reach the viewers.
FAREWELL_S = 2.0
LINE_BYTES_MAX = 64 * 1024
_READ_BYTES = 64 * 1024
_HEAD = 5

_ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    rb"|\x1b[PX^_][^\x1b]*\x1b\\"  # device strings
    rb"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_RUBBED_OUT = re.compile(rb"[^\x08]\x08")


class CleanText:
    """Terminal output as plain lines: without colours and movements, each line as it ended up."""

    def __init__(self) -> None:
        self._line = b""
        #: The beginning of the line that is in the log already.
        self._written = b""

    @property
    def waits(self) -> bool:
        """Whether a piece of a line is not in the log yet."""
        return len(self._line) > 0

    def feed(self, piece: bytes) -> bytes:
        """What can be written now: every line that has ended."""
        *lines, self._line = (self._line + piece).split(b"\n")
        done = b"".join(self._rest_of(line) + b"\n" for line in lines)
        return done + self.flush() if len(self._line) > LINE_BYTES_MAX else done

    def flush(self) -> bytes:
        """The line so far, although it has not ended."""
        text = self._rest_of(self._line)
        self._written = clean_line(self._line)
        if len(self._line) > LINE_BYTES_MAX:
            self._line, self._written = b"", b""
        return text

    def _rest_of(self, line: bytes) -> bytes:
        written, self._written = self._written, b""
        text = clean_line(line)
        if text.startswith(written):
            return text[len(written) :]
        return b"\n" + text


def clean_line(line: bytes) -> bytes:
    """One line as a terminal would show it in the end."""
    text = _ESCAPES.sub(b"", line).rstrip(b"\r")
    text = text[text.rfind(b"\r") + 1 :]
    while (shorter := _RUBBED_OUT.sub(b"", text)) != text:
        text = shorter
    return _CONTROLS.sub(b"", text)


def open_listener(path: str) -> socket.socket:
    """Where viewers connect. Made with the keeper's rights; the path may be long."""
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(f"/proc/self/fd/{fd}/{name}")
        listener.listen(8)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
        os.close(fd)
    return listener


def run(
    listener: socket.socket,
    execute: Callable[[], NoReturn],
    kept: tuple[int, ...],
    *,
    visit: bool = False,
) -> NoReturn:
    """In a child of the keeper that has become the job's user. Ends with the program.

    ``execute`` replaces the process that it is called in. ``kept`` are descriptors that it needs
    until then, and closes by that. What ``execute`` raises is raised in that process.
    """
    _close_others({listener.fileno(), *kept})
    if visit and not select.select([listener], [], [], VISITOR_S)[0]:
        os._exit(1)
    master, slave = os.openpty()
    _set_size(master, 24, 80)
    pid = os.fork()
    if pid == 0:
        os.close(master)
        listener.close()
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for target in (0, 1, 2):
            os.dup2(slave, target)
        os.close(slave)
        execute()
    status = 1 << 8
    try:
        os.close(slave)
        for fd in kept:
            os.close(fd)
        _ignore_signals()
        status = Terminal(master, listener, 1, pid, visit=visit).run()
    finally:
        _end_like(status)


def _close_others(keep: set[int]) -> None:
    """Above all the ends of pipes: who waits for them to close must not wait for the job."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with suppress(OSError):
                os.close(int(name))


def _ignore_signals() -> None:
    """A signal to the job is meant for the program, which gets it as well; KILL takes us all."""
    signal.set_wakeup_fd(-1)
    default = {signal.SIGCHLD, signal.SIGCONT, signal.SIGKILL, signal.SIGSTOP}
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}
    for number in signal.valid_signals() - default - faults:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _end_like(status: int) -> NoReturn:
    """With the exit code of the program, or by the signal that ended it."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number:
        import resource

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if not number else 128 + number)


def _set_size(fd: int, rows: int, columns: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Viewer:
    """A visitor that is attached."""

    def __init__(self, sock: socket.socket, recent: bytes) -> None:
        self.sock = sock
        self.unread = b""
        self.unsent = bytearray(recent)

    def show(self, piece: bytes) -> None:
        if len(self.unsent) > UNSENT_BYTES_MAX:
            self.unsent[:] = SKIPPED
        self.unsent += piece

    def send(self) -> bool:
        """Send what can be sent; False when the viewer has gone."""
        try:
            while self.unsent:
                del self.unsent[: self.sock.send(self.unsent)]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


class Terminal:
    """The loop between the program, the log and the viewers."""

    def __init__(
        self, master: int, listener: socket.socket, log: int, pid: int, *, visit: bool = False
    ) -> None:
        """Of a visit nothing is left out, and its program is hung up on when nobody looks."""
        self._visit = visit
        self._paused = self._saying_farewell = False
        self._master = master
        self._listener = listener
        self._log = log
        self._pid = pid
        self._end = os.pidfd_open(pid)
        self._text = CleanText()
        self._partial_s = 0.0
        self._recent = bytearray()
        self._input = bytearray()
        self._viewers: dict[int, Viewer] = {}
        os.set_blocking(master, False)
        listener.setblocking(False)
        self._poll = select.poll()
        for fd in (master, listener.fileno(), self._end):
            self._poll.register(fd, select.POLLIN)

    def run(self) -> int:
        """Until the program has ended; its status."""
        ended = False
        while not ended:
            for fd, mask in self._poll.poll(self._wait_ms()):
                ended = ended or fd == self._end
                self._take(fd, mask)
            if self._text.waits and time.monotonic() >= self._partial_s:
                self._write(self._text.flush())
                self._partial_s = float("inf")
        self._say_farewell()
        return os.waitpid(self._pid, 0)[1]

    def _wait_ms(self) -> float | None:
        if not self._text.waits or self._partial_s == float("inf"):
            return None
        return max(0.0, (self._partial_s - time.monotonic()) * 1000)

    def _take(self, fd: int, mask: int) -> None:
        if fd == self._master:
            if mask & select.POLLOUT:
                self._type()
            if mask & ~select.POLLOUT and not self._read():
                # Every process has closed the terminal; the program itself may live on.
                self._poll.unregister(self._master)
        elif fd == self._listener.fileno():
            self._accept()
        elif fd in self._viewers:
            self._hear(fd, mask)

    def _read(self) -> bool:
        """Take what the program printed; False when it cannot print any more."""
        try:
            piece = os.read(self._master, _READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._recent += piece
        del self._recent[:-RECENT_BYTES]
        self._write(self._text.feed(piece))
        self._partial_s = time.monotonic() + PARTIAL_S
        for fd, viewer in list(self._viewers.items()):
            viewer.show(piece)
            self._send(fd, viewer)
        slow = self._visit and not self._saying_farewell
        if slow and any(len(one.unsent) > UNREAD_BYTES_MAX for one in self._all()):
            self._poll.unregister(self._master)
            self._paused = True
        return bool(piece)

    def _all(self) -> list[Viewer]:
        return list(self._viewers.values())

    def _write(self, text: bytes) -> None:
        with suppress(OSError):  # A full disk: the program goes on as if it had been written.
            while text:
                text = text[os.write(self._log, text) :]

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        viewer = self._viewers[sock.fileno()] = Viewer(sock, bytes(self._recent))
        self._poll.register(sock, select.POLLIN)
        self._send(sock.fileno(), viewer)

    def _send(self, fd: int, viewer: Viewer) -> None:
        if not viewer.send():
            self._drop(fd)
            return
        more = select.POLLOUT if viewer.unsent else 0
        self._poll.modify(fd, select.POLLIN | more)
        if self._paused and not more:
            self._paused = False
            self._poll.register(self._master, select.POLLIN)

    def _drop(self, fd: int) -> None:
        viewer = self._viewers.pop(fd)
        self._poll.unregister(fd)
        viewer.sock.close()
        if self._visit and not self._viewers:
            # The terminal is gone, as when a line is cut: its programs hear a SIGHUP.
            with suppress(KeyError):
                self._poll.unregister(self._master)
            os.close(self._master)

    def _hear(self, fd: int, mask: int) -> None:
        viewer = self._viewers[fd]
        if mask & select.POLLOUT:
            self._send(fd, viewer)
        if fd not in self._viewers or not mask & ~select.POLLOUT:
            return
        try:
            piece = viewer.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._drop(fd)
            return
        viewer.unread += piece
        while len(viewer.unread) >= _HEAD:
            length = int.from_bytes(viewer.unread[1:_HEAD], "big")
            if len(viewer.unread) < _HEAD + length:
                break
            self._obey(viewer.unread[:1], viewer.unread[_HEAD : _HEAD + length])
            viewer.unread = viewer.unread[_HEAD + length :]

    def _obey(self, kind: bytes, body: bytes) -> None:
        if kind == b"i" and len(self._input) < UNREAD_BYTES_MAX:
            self._input += body
            self._type()
        elif kind == b"w" and len(body) == 4:
            _set_size(self._master, *struct.unpack(">HH", body))

    def _type(self) -> None:
        """Hand what was typed to the program, as fast as it reads."""
        try:
            while self._input:
                del self._input[: os.write(self._master, self._input)]
        except BlockingIOError:
            pass
        except OSError:
            self._input.clear()
        with suppress(OSError):
            self._poll.modify(self._master, select.POLLIN | (select.POLLOUT if self._input else 0))

    def _say_farewell(self) -> None:
        """What the program printed last reaches the log and, if they read, the viewers."""
        if self._visit and not self._viewers:
            return
        self._saying_farewell = True
        while select.select([self._master], [], [], 0)[0] and self._read():
            pass
        self._write(self._text.flush())
        give_up_s = time.monotonic() + (VISITOR_S if self._visit else FAREWELL_S)
        for viewer in self._viewers.values():
            viewer.sock.settimeout(max(0.01, give_up_s - time.monotonic()))
            with suppress(OSError):
                viewer.sock.sendall(viewer.unsent)
            viewer.sock.close()
