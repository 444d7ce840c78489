"""The starter in Python: where there is no compiled one, and for jobs with a terminal.

    python -I -S starter.py KEEPER_PID OOM_SCORE_ADJ FOLDER

It does what ``starter.c`` does, order by order: see there. Orders come over the socket 3, reports
go into the pipe 4. Each child hangs off a process that is gone at once, so that the keeper becomes
its parent.
"""

from __future__ import annotations

import os
import pwd
import resource
import select
import signal
import stat
import sys
from contextlib import contextmanager, suppress
from errno import EACCES, EINVAL, ENOENT, ENOTDIR, EPERM
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket
    from typing import NoReturn

    from rota.keeper import failures as at
    from rota.keeper import packed
    from rota.keeper import terminal as keeper_terminal
    from rota.keeper.bond import Bond, hurry
else:
    # Last, so that no file of ours can stand in for one of the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from keeper import failures as at
    from keeper import packed
    from keeper import terminal as keeper_terminal
    from keeper.bond import Bond, hurry

ORDERS, REPORTS = 3, 4
_PART = 1 << 18
_DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC
#: A pipe without a reader fails at once.
_CAREFUL = os.O_NONBLOCK | os.O_NOCTTY


class StepFailed(Exception):
    """A step did not work; the keeper puts it into words."""

    def __init__(self, stage: int, number: int, extra: int = 0) -> None:
        super().__init__(stage, number, extra)
        self.report = (stage, number, extra)


def main(keeper: int, score: str) -> None:
    """Until the keeper hangs up."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    bond = Bond(keeper)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(score)
    hurry()
    bond.die_with_keeper()
    for fd in (ORDERS, REPORTS):
        os.set_inheritable(fd, False)
    unread = bytearray()
    births: dict[int, int] = {}
    poll = select.poll()
    poll.register(ORDERS, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == ORDERS:
                piece = os.read(ORDERS, _PART)
                if not piece:
                    os._exit(0)
                unread += piece
                for order in packed.take_orders(unread):
                    if (birth := _start(order, bond)) >= 0:
                        births[birth] = order.id
                        poll.register(birth, select.POLLIN)
            else:
                poll.unregister(fd)
                os.close(fd)
                _tell(births.pop(fd), packed.EXECUTED)


def _tell(number: int, kind: int, stage: int = 0, value: int = 0, extra: int = 0) -> None:
    os.write(REPORTS, packed.REPORT.pack(number, kind, stage, value, extra))


def _start(order: packed.Packed, bond: Bond) -> int:
    """The end of a pipe that is read when the child has executed; -1: there is no process."""
    try:
        read, write = os.pipe()
    except OSError as error:
        _tell(order.id, packed.NO_PROCESS, value=error.errno or 0)
        return -1
    bond.mark(order.texts["uid"])
    try:
        pid = os.fork()
        if pid == 0:
            _bear(order, bond, write)
    except OSError as error:
        _tell(order.id, packed.NO_PROCESS, value=error.errno or 0)
        os.close(read)
        read = -1
    else:
        os.waitpid(pid, 0)
    bond.mark(b"")
    os.close(write)
    return read


def _bear(order: packed.Packed, bond: Bond, birth: int) -> NoReturn:
    try:
        pid = os.fork()
    except OSError as error:
        _tell(order.id, packed.NO_PROCESS, value=error.errno or 0)
        os._exit(0)
    if pid:
        os._exit(0)
    try:
        bond.await_keeper()
        _tell(order.id, packed.BORN, value=os.getpid())
        JobChild(order, bond).run(birth)
    except StepFailed as failure:
        _tell(order.id, packed.FAILED, *failure.report)
    except BaseException as error:
        sys.stderr.write(f"starter: {type(error).__name__}: {error}\n")
        _tell(order.id, packed.FAILED, at.BECOME, EINVAL)
    os._exit(at.NOT_FOUND)


class JobChild:
    """Everything between the birth of a process and its program."""

    def __init__(self, order: packed.Packed, bond: Bond) -> None:
        self._order = order
        self._bond = bond
        self._uid, self._gid, self._groups = order.uid, order.gid, order.groups
        self._files: dict[int, int] = {}

    def run(self, birth: int) -> NoReturn:
        """``birth`` is the end of a pipe that is closed when the program takes over."""
        order, texts = self._order, self._order.texts
        os.setsid()
        self._find_user()
        another = self._uid != os.geteuid()
        if another and os.geteuid() != 0:
            raise StepFailed(at.NOT_ROOT, 0)
        terminal = self._open_terminal()
        self._pin()
        if texts["cgroup"]:
            self._join(texts["cgroup"])
        limits = self._find_limits()
        os.umask(0)
        self._open_own()
        if another:
            # The real user stays root until the end: nobody else can stop or signal us so long.
            with step(at.BECOME):
                os.setgroups(self._groups)
                os.setresgid(self._gid, self._gid, self._gid)
                os.setresuid(-1, self._uid, -1)
            self._bond.die_with_keeper()
        missing = self._enter()
        self._open_named()
        if missing:
            os.write(2, b"%s: %s: going to /tmp instead\n" % (texts["elsewhere"], missing))
        program = self._find_program()
        for each, (number, soft, hard) in enumerate(limits):
            with step(at.LIMIT, each):
                resource.setrlimit(number, (soft, hard))
        if another:
            with step(at.BECOME):
                os.setresuid(self._uid, self._uid, self._uid)
        # From here on the mark in our environment is how the next keeper would find us.
        self._bond.live_on()
        table = dict(entry.split(b"=", 1) for entry in order.env if b"=" in entry)
        if terminal is not None:
            with step(at.TERMINAL):
                execute = partial(self._execute, program, table)
                visit = texts["terminal"].endswith(keeper_terminal.VISIT)
                keeper_terminal.run(terminal, execute, (birth, REPORTS), visit=visit)
        self._execute(program, table)

    def _find_user(self) -> None:
        order = self._order
        name = os.fsdecode(order.texts["user"])
        if not name:
            self._uid = os.geteuid()
        elif not order.flags & packed.KNOWN:
            try:
                entry = pwd.getpwnam(name)
                self._groups = os.getgrouplist(name, entry.pw_gid)
            except KeyError:
                raise StepFailed(at.USER, 0) from None
            except OSError as error:
                raise StepFailed(at.USER, error.errno or EINVAL) from None
            self._uid, self._gid = entry.pw_uid, entry.pw_gid
            if len(self._groups) <= packed.GROUPS_TOLD_MAX:
                os.write(REPORTS, packed.account(order.id, self._uid, self._gid, self._groups))

    def _open_terminal(self) -> socket | None:
        """With our own rights: nobody else may attach."""
        path = self._order.texts["terminal"]
        if not path:
            return None
        with step(at.TERMINAL):
            return keeper_terminal.open_listener(os.fsdecode(path))

    def _pin(self) -> None:
        if self._order.cpus:
            with step(at.CPUS):
                os.sched_setaffinity(0, self._order.cpus)

    def _join(self, cgroup: bytes) -> None:
        with step(at.CGROUP), open(cgroup + b"/cgroup.procs", "wb", buffering=0) as procs:
            procs.write(b"0")

    def _find_limits(self) -> list[tuple[int, int, int]]:
        """Nobody gets more than the keeper has, which root could lift."""
        limits = []
        for each, (number, _, asked) in enumerate(self._order.limits):
            _, hard = resource.getrlimit(number)
            soft = resource.RLIM_INFINITY if asked >= 1 << 63 else asked
            if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
                raise StepFailed(at.LIMIT, EPERM, each)
            limits.append((number, soft, hard))
        return limits

    def _open_own(self) -> None:
        """Files of the agent, in folders where no user can plant a link."""
        flags, texts = self._order.flags, self._order.texts
        if flags & at.OWN_IN:
            with step(at.STDIN):
                self._files[0] = os.open(texts["stdin"], _READ | os.O_NOFOLLOW)
        for fd, own, name, spare, stage in (
            (1, at.OWN_OUT, "stdout", "spare_out", at.STDOUT),
            (2, at.OWN_ERR, "stderr", "spare_err", at.STDERR),
        ):
            if not flags & own or (fd == 2 and texts["stdout"] == texts["stderr"]):
                continue
            if texts[spare] and not os.path.lexists(texts[name]):
                with suppress(OSError):
                    os.rename(texts[spare], texts[name])
            with step(stage):
                self._files[fd] = os.open(texts[name], _APPEND | os.O_NOFOLLOW, 0o600)
                if self._uid != os.geteuid():
                    os.fchown(self._files[fd], self._uid, self._gid)

    def _enter(self) -> bytes:
        """Why the folder of a job that may begin elsewhere is none; its output is not there."""
        texts = self._order.texts
        folder = texts["cwd"].rstrip(b"/") + b"/"
        outputs = (texts["stdout"], texts["stderr"])
        with step(at.CWD):
            try:
                os.chdir(texts["cwd"])
            except OSError as error:
                if not texts["elsewhere"] or any(path.startswith(folder) for path in outputs):
                    raise
                os.chdir("/tmp")
                return os.strerror(error.errno or ENOENT).encode()
        return b""

    def _open_named(self) -> None:
        order, texts, files = self._order, self._order.texts, self._files
        os.umask(order.umask)
        if 0 not in files:
            with step(at.STDIN):
                files[0] = _open(texts["stdin"] or b"/dev/null", _READ, 0)
        if 1 not in files:
            with step(at.STDOUT):
                files[1] = _open(texts["stdout"], _APPEND, order.flags)
        if texts["stdout"] == texts["stderr"]:
            files[2] = files[1]
        elif 2 not in files:
            with step(at.STDERR):
                files[2] = _open(texts["stderr"], _APPEND, order.flags)
        for target, fd in sorted(files.items()):
            os.dup2(fd, target)

    def _find_program(self) -> bytes:
        """Where a shell would look, and what it would take."""
        name = self._order.argv[0]
        listed = next((each[5:] for each in self._order.env if each.startswith(b"PATH=")), b"")
        folders = (listed or _DEFAULT_PATH).split(b":")
        paths = [(folder or b".") + b"/" + name for folder in folders]
        exists, saved = False, ENOENT
        for path in [name] if b"/" in name else paths:
            try:
                mode = os.stat(path).st_mode
            except OSError as error:
                if error.errno not in (ENOENT, ENOTDIR) or b"/" in name:
                    saved = error.errno or saved
                continue
            exists = True
            if stat.S_ISREG(mode) and os.access(path, os.X_OK, effective_ids=True):
                return path
            saved = EACCES
        return self._give_up(saved, at.CANNOT if exists else at.NO_FILE)

    def _execute(self, program: bytes, table: dict[bytes, bytes]) -> NoReturn:
        try:
            os.execve(program, self._order.argv, table)
        except OSError as error:
            number = error.errno or EINVAL
        self._give_up(number, at.NO_INTERPRETER if number == ENOENT else at.CANNOT)

    def _give_up(self, number: int, how: int) -> NoReturn:
        """Said in the job's error output, too."""
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_IGN)
        command = self._order.argv[0].decode("utf-8", "surrogateescape")
        line = f"rota: {at.not_executed(command, number, how).message}\n"
        with suppress(OSError):
            os.write(2, line.encode("utf-8", "surrogateescape"))
        raise StepFailed(at.EXEC, number, how)


@contextmanager
def step(stage: int, extra: int = 0) -> Iterator[None]:
    """What goes wrong inside is told as a failure of this stage."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise StepFailed(stage, getattr(error, "errno", None) or EINVAL, extra) from None


def _open(path: bytes, flags: int, asked: int) -> int:
    """As the user; what is made is for the user alone, whatever the umask."""
    if asked & packed.TRUNCATE and not path.startswith(b"/dev/"):
        flags |= os.O_TRUNC
    for folders in (asked & packed.FOLDERS, 0):
        before = os.umask(0)
        try:
            fd = os.open(path, flags | _CAREFUL, 0o600)
            os.set_blocking(fd, True)
            return fd
        except FileNotFoundError:
            if not folders:
                raise
        finally:
            os.umask(before)
        with suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
    raise AssertionError("unreachable")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
