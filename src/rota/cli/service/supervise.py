"""Watching over the two processes of one machine: whichever dies is started again at once.

Children are forked from here, after everything they need was imported, so that a new one answers
within a tenth of a second. Each has a session of its own: when the supervisor dies they live on,
and the next supervisor adopts them by their locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

from rota import sd_notify
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: A process that lived this long is started again without a pause; one that was killed from outside
#: is not to blame, so of it less is asked.
STEADY_S, STEADY_KILLED_S = 5.0, 0.2
PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 5.0
#: The most deaths soon after the start that are taken for bad luck.
EARLY_DEATHS = 3
#: How long a process may take to end after TERM, before KILL.
STOP_S = 20.0
#: So often it is looked whether the state folder is still there.
LOOK_S = 10.0


class Ward:
    """One process to keep alive: how to start it, how to find one that lives already."""

    def __init__(
        self,
        name: str,
        start: Callable[[], int],
        find: Callable[[], int],
        keep: int = 2,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        #: Whether there is anything for it to do.
        self.wanted = wanted
        #: A descriptor that the process inherits, besides the standard three.
        self._keep = keep
        self.pid = 0
        self.started_s = 0.0
        self._early = 0
        self._start = start
        self._find = find
        self._fd = -1
        self._ours = False

    def begin(self) -> None:
        """Adopt the one that runs, else start one."""
        self.pid = self._find()
        self._ours = not self.pid
        if self._ours:
            self.pid = fork(self._start, self._keep)
        self.started_s = time.monotonic()
        try:
            self._fd = os.pidfd_open(self.pid)
        except OSError:
            # An adopted one died this very moment; ours cannot, as nobody has reaped it.
            self.pid = 0

    def fileno(self) -> int:
        return self._fd

    @property
    def alive(self) -> bool:
        return self._fd >= 0

    def reap(self) -> int | None:
        """It has ended: with which code, if it was our child."""
        os.close(self._fd)
        self._fd = -1
        code = None
        if self._ours:
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        lived_s = time.monotonic() - self.started_s
        steady_s = STEADY_KILLED_S if code == -signal.SIGKILL else STEADY_S
        self._early = 0 if lived_s >= steady_s else self._early + 1
        return code

    @property
    def pause_s(self) -> float:
        """How long to wait before the next start: not at all, unless it keeps dying early."""
        if self._early <= EARLY_DEATHS:
            return 0.0
        return float(min(PAUSE_S_MIN * 2 ** (self._early - EARLY_DEATHS), PAUSE_S_MAX))

    def tell(self, number: signal.Signals) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)


def fork(work: Callable[[], int], keep: int) -> int:
    """Run something in a child with a session of its own and without our descriptors."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        sd_notify.take_over({})
        os.closerange(3, keep)
        os.closerange(keep + 1, 4096)
        code = work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


class Supervisor:
    """Keeps wards alive until it is told to stop."""

    def __init__(self, wards: list[Ward], say: Callable[[str], None]) -> None:
        self._wards = wards
        self._say = say
        self._stopping = False
        self._due: dict[Ward, float] = {}
        self._bell, ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)
        # It only wakes us: there may be something new to start.
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)

    def _told(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def start(self, is_ready: Callable[[], bool], patience_s: float) -> int:
        """Start all wards and wait until they are ready: 0, or the code of the one that failed."""
        for ward in self._wards:
            if ward.wanted():
                ward.begin()
        until_s = time.monotonic() + patience_s
        while not self._stopping and not is_ready() and time.monotonic() < until_s:
            for ward in self._ended(0.01):
                return ward.reap() or 1
        return 0

    def watch(self, is_gone: Callable[[], bool]) -> None:
        """Start again what dies, until told to stop, or until our state folder is gone."""
        while not self._stopping and not is_gone():
            wait_s = LOOK_S
            for ward in self._wards:
                if not ward.alive and ward.wanted():
                    self._due.setdefault(ward, time.monotonic())
            if self._due:
                wait_s = min(LOOK_S, max(0.0, min(self._due.values()) - time.monotonic()))
            for ward in self._ended(wait_s):
                code = ward.reap()
                if not code and not ward.wanted():
                    continue
                self._say(f"the {ward.name} (pid {ward.pid}) died ({_how(code)}); starting another")
                self._due[ward] = time.monotonic() + ward.pause_s
            now_s = time.monotonic()
            for ward in [ward for ward, due_s in self._due.items() if due_s <= now_s]:
                del self._due[ward]
                ward.begin()
                if not ward.alive:
                    self._due[ward] = now_s + PAUSE_S_MIN

    def stop(self) -> None:
        """TERM to all, KILL to a process that does not listen."""
        for number, wait_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
            for ward in self._wards:
                ward.tell(number)
            until_s = time.monotonic() + wait_s
            while any(ward.alive for ward in self._wards) and time.monotonic() < until_s:
                for ward in self._ended(max(0.0, until_s - time.monotonic())):
                    ward.reap()

    def _ended(self, wait_s: float | None) -> list[Ward]:
        """The wards that have ended; returns early when a signal came."""
        alive = {ward.fileno(): ward for ward in self._wards if ward.alive}
        ready, _, _ = select.select([self._bell, *alive], [], [], wait_s)
        if self._bell in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._bell, 512)
        return [alive[fd] for fd in ready if fd in alive]


def _how(code: int | None) -> str:
    if code is None:
        return "not our child"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class PidLock:
    """A lock file with the holder's pid in it; the kernel lets go when the holder dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def take(self) -> int:
        """0 when we hold it now, else the pid of who does."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _number(os.pread(fd, 32, 0))
            os.close(fd)
            return pid or -1
        self._fd = fd
        self.rewrite()
        return 0

    def rewrite(self) -> None:
        """Our pid in a lock that our parent took: a lock belongs to the open file."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def holder(self) -> int:
        """The pid of who holds it; 0 when nobody does. The disk may have become read-only."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _number(os.pread(fd, 32, 0)) or -1
        finally:
            os.close(fd)
        return 0

    def is_gone(self) -> bool:
        """Whether the file that we hold was removed: the next one to come would not find us."""
        try:
            return not os.path.samestat(os.fstat(self._fd), os.stat(self.path))
        except OSError:
            return True

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _number(text: bytes) -> int:
    word = text.decode(errors="replace").strip()
    return int(word) if is_digits(word) else 0
