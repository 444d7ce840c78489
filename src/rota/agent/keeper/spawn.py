"""Starting one process for an attempt, the fast way where possible.

An attempt of the keeper's own user goes through ``vfork``: the keeper opens the files, changes
folder, pins itself and puts all of that back. Another user, limits or a cgroup need ``fork``: the
child then does everything with the rights of that user, so that no path is ever opened with more
rights than the job has. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os
import pwd
import resource
import signal
import sys
import time
from _posixsubprocess import fork_exec
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import Any, NoReturn

    from rota.agent.keeper import terminal as keeper_terminal
    from rota.agent.keeper.exec import (
        NOT_FOUND,
        SpawnFailed,
        candidates_of,
        execute_or_fail,
        not_executed,
    )
    from rota.agent.keeper.files import open_as_asked
    from rota.agent.keeper.limits import LimitFailed, join_cgroup, raise_limits
    from rota.agent.keeper.processes import UID_VARIABLE
    from rota.agent.keeper.spares import Spares
else:
    from keeper import terminal as keeper_terminal
    from keeper.exec import NOT_FOUND, SpawnFailed, candidates_of, execute_or_fail, not_executed
    from keeper.files import open_as_asked
    from keeper.limits import LimitFailed, join_cgroup, raise_limits
    from keeper.processes import UID_VARIABLE
    from keeper.spares import Spares

#: The last arguments of ``fork_exec``: whether it may use vfork was one until 3.14.
_LAST = (None,) if sys.version_info >= (3, 14) else (None, True)
_USER_CACHE_S = 60.0
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
#: A pipe without a reader must fail, not hold the keeper for ever.
_CAREFUL = os.O_NONBLOCK | os.O_NOCTTY
_ERROR_BYTES = 65536
#: What a job prints is for its user, whatever the umask; the folder can be passed by everybody.
_PRIVATE = 0o077


class Account:
    """A user of this machine, ready to become."""

    __slots__ = ("gid", "groups", "known_s", "uid")

    def __init__(self, name: str, known_s: float) -> None:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise SpawnFailed(f"user {name}: no such user on this node") from None
        self.uid = entry.pw_uid
        self.gid = entry.pw_gid
        self.groups = os.getgrouplist(name, entry.pw_gid)
        self.known_s = known_s


class Spawner:
    """Starts processes for the keeper, and remembers what is costly to find out."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.spares = Spares()
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._euid = os.geteuid()
        self._accounts: dict[str, Account] = {}
        self._all_cpus = os.sched_getaffinity(0)
        self._pinned = False

    def start(self, order: dict[str, Any]) -> int:
        """The pid of the new process, or ``SpawnFailed``."""
        argv = order["argv"]
        if not argv or not argv[0]:
            raise SpawnFailed("no command")
        account = self._account(order.get("user"))
        try:
            plain = not (order.get("ulimits") or order.get("cgroup") or order.get("terminal"))
            if account is None and plain:
                return self._start_fast(order, argv)
            return self._start_careful(order, argv, account)
        except ValueError as error:
            raise SpawnFailed(f"command or environment: {error}") from None

    def _account(self, name: str | None) -> Account | None:
        """Whom to become; None for ourselves."""
        if not name:
            return None
        now_s = time.monotonic()
        account = self._accounts.get(name)
        if account is None or now_s - account.known_s > _USER_CACHE_S:
            account = self._accounts[name] = Account(name, now_s)
        if account.uid == self._euid:
            return None
        if self._euid != 0:
            raise SpawnFailed(f"user {name}: the agent is not root and cannot start their jobs")
        return account

    def _start_fast(self, order: dict[str, Any], argv: list[str]) -> int:
        candidates = candidates_of(argv[0], order["env"])
        opened: list[int] = []
        try:
            self._pin(order.get("cpus"))
            _enter(order["cwd"])
            stdin, stdout, stderr = self._open_all(order, opened)
            error_read, error_write = os.pipe()
            opened += (error_read, error_write)
            pid = fork_exec(
                [os.fsencode(word) for word in argv],
                candidates,
                True,
                (error_write,),
                None,  # type: ignore[arg-type]
                _environment(order),
                stdin,
                -1,
                -1,
                stdout,
                -1,
                stderr,
                error_read,
                error_write,
                True,
                True,
                -1,
                None,
                None,
                None,
                order["umask"],
                *_LAST,
            )
            # At once: our CPU is the job's by now.
            self._unpin()
            os.close(error_write)
            opened.remove(error_write)
            report = os.read(error_read, _ERROR_BYTES)
            if report:
                os.waitpid(pid, 0)
                number = int(report.split(b":")[1], 16)
                raise not_executed(order, candidates, number, stderr)
            return pid
        finally:
            self._unpin()
            for fd in opened:
                os.close(fd)
            os.chdir("/")

    def _pin(self, cpus: list[int] | None) -> None:
        """Children inherit it, so that a program never sees more CPUs than it got."""
        if not cpus or self._all_cpus == (wanted := set(cpus)):
            return
        try:
            os.sched_setaffinity(0, wanted)
        except OSError:
            raise SpawnFailed(f"CPUs {sorted(wanted)}: not available on this node") from None
        self._pinned = True

    def _unpin(self) -> None:
        if self._pinned:
            os.sched_setaffinity(0, self._all_cpus)
            self._pinned = False

    def _open_all(self, order: dict[str, Any], opened: list[int]) -> tuple[int, int, int]:
        before = os.umask(order["umask"])
        try:
            stdin = self._null
            if order.get("stdin"):
                stdin = _open(order["stdin"], "input", os.O_RDONLY | os.O_CLOEXEC, False)
                opened.append(stdin)
            stdout = self._open_output(order, "stdout", "output")
            opened.append(stdout)
            if order["stderr"] == order["stdout"]:
                return stdin, stdout, stdout
            stderr = self._open_output(order, "stderr", "error output")
            opened.append(stderr)
            return stdin, stdout, stderr
        finally:
            os.umask(before)

    def _open_output(self, order: dict[str, Any], stream: str, what: str) -> int:
        path, umask = order[stream], order["umask"]
        if path not in self._own_paths(order):
            return _open(path, what, _APPEND, True, order.get("outputs", ""))
        self.spares.lend(order["uid"], umask, path)
        fd = self.spares.open(path, umask)
        if fd < 0:
            before = os.umask(_PRIVATE)
            try:
                fd = _open(path, what, _APPEND, False)
            finally:
                os.umask(before)
        return fd

    def _own_paths(self, order: dict[str, Any]) -> tuple[str, ...]:
        """The agent's own files for this very attempt, in folders where users cannot plant links.

        Any other path is the user's word, even one that points into our folder.
        """
        uid = order["uid"]
        return (
            f"{self._folder}/logs/{uid}.out",
            f"{self._folder}/logs/{uid}.err",
            f"{self._folder}/scripts/{uid}.in",
        )

    def _start_careful(
        self, order: dict[str, Any], argv: list[str], account: Account | None
    ) -> int:
        candidates, environment = candidates_of(argv[0], order["env"]), _environment(order)
        words = [os.fsencode(word) for word in argv]
        own = self._open_own(order, account)
        terminal = _open_terminal(order)
        error_read, error_write = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become(order, account, own)
                # A keeper that died meanwhile has told nobody of this process: it must not run.
                if os.getppid() != parent:
                    os._exit(NOT_FOUND)
                execute = partial(execute_or_fail, order, candidates, words, environment)
                if terminal is not None:
                    keeper_terminal.run(terminal, execute, error_write)
                execute()
            except SpawnFailed as failure:
                _tell(error_write, failure)
            except BaseException as failure:
                _tell(error_write, SpawnFailed(f"{type(failure).__name__}: {failure}"))
        os.close(error_write)
        if terminal is not None:
            terminal.close()
        for fd in set(own.values()):
            os.close(fd)
        report = os.read(error_read, _ERROR_BYTES)
        os.close(error_read)
        if report:
            os.waitpid(pid, 0)
            code, _, message = report.decode("utf-8", "replace").partition(":")
            raise SpawnFailed(message, int(code) if code else None)
        return pid

    def _open_own(self, order: dict[str, Any], account: Account | None) -> dict[str, int]:
        """The agent's own files, opened with our rights and given to the user."""
        ours = self._own_paths(order)
        own: dict[str, int] = {}
        before = os.umask(_PRIVATE)
        try:
            for path in {order["stdout"], order["stderr"]}:
                if path in ours:
                    own[path] = _open(path, "output", _APPEND | os.O_NOFOLLOW, False)
                    if account is not None:
                        os.fchown(own[path], account.uid, account.gid)
            path = order.get("stdin")
            if path in ours:
                own[path] = _open(path, "input", os.O_RDONLY | os.O_CLOEXEC, False)
        except SpawnFailed:
            for fd in own.values():
                os.close(fd)
            raise
        finally:
            os.umask(before)
        return own

    def _become(self, order: dict[str, Any], account: Account | None, own: dict[str, int]) -> None:
        """In the child: everything between fork and exec, with the rights of the job."""
        os.setsid()
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        self._pin(order.get("cpus"))
        try:
            if order.get("cgroup"):
                join_cgroup(order["cgroup"])
            limits = raise_limits(order.get("ulimits") or {})
        except LimitFailed as failure:
            raise SpawnFailed(str(failure)) from None
        if account is not None:
            os.setgroups(account.groups)
            os.setgid(account.gid)
            os.setuid(account.uid)
        _enter(order["cwd"])
        os.umask(order["umask"])
        stdin = own.get(order.get("stdin") or "", self._null)
        if order.get("stdin") and order["stdin"] not in own:
            stdin = _open(order["stdin"], "input", os.O_RDONLY | os.O_CLOEXEC, True)
        stdout, stderr = (
            own.get(path) or _open(path, "output", _APPEND, True, order.get("outputs", ""))
            for path in (order["stdout"], order["stderr"])
        )
        for target, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, target)
        for number, soft, hard in limits:
            resource.setrlimit(number, (soft, hard))


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except FileNotFoundError:
        raise SpawnFailed(f"working folder {folder}: no such directory") from None
    except OSError as error:
        raise SpawnFailed(f"working folder {folder}: {_words(error)}") from None


def _open(path: str, what: str, flags: int, careful: bool, mode: str = "") -> int:
    try:
        fd = open_as_asked(path, flags | _CAREFUL if careful else flags, mode)
        if careful:
            os.set_blocking(fd, True)
    except OSError as error:
        raise SpawnFailed(f"{what} file {path}: {_words(error)}") from None
    return fd


def _words(error: OSError) -> str:
    return (error.strerror or "failed").lower()


def _environment(order: dict[str, Any]) -> list[bytes]:
    environment = [entry.encode() for entry in order["env"]]
    environment.append(f"{UID_VARIABLE}={order['uid']}".encode())
    return environment


def _open_terminal(order: dict[str, Any]) -> socket | None:
    """With our own rights: nobody else may attach."""
    path = order.get("terminal")
    if not path:
        return None
    try:
        return keeper_terminal.open_listener(path)
    except OSError as error:
        raise SpawnFailed(f"terminal: {_words(error)}") from None


def _tell(fd: int, failure: SpawnFailed) -> NoReturn:
    """In the child: hand the reason to the keeper and be gone."""
    code = "" if failure.code is None else failure.code
    os.write(fd, f"{code}:{failure.message}".encode("utf-8", "replace"))
    os._exit(NOT_FOUND)
