"""Processes of a step: how they are started, what they are given, how they are told apart.

Part of one script with ``relay.py`` and ``stepper.py``; see there.
"""

import errno
import os
import signal
import struct
import sys

from rota.slurm.relay import PART, write

FORWARDED = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH),
)


class Task:
    """One process of a step, and the ends of its pipes that are ours."""

    def __init__(self, step: int, rank: int, pid: int) -> None:
        self.step = step
        self.rank = rank
        self.pid = pid
        self.stdin = -1
        self.outputs: dict[int, int] = {}
        self.waiting = b""
        self.closing = False
        self.status: int | None = None


def drained(number: int) -> bytes:
    """What is left in a pipe of a task that has ended."""
    os.set_blocking(number, False)
    parts = []
    try:
        while part := os.read(number, PART):
            parts.append(part)
    except OSError:
        return b"".join(parts)
    return b"".join(parts)


def code_of(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def kill(pid: int, number: int) -> None:
    for target in (-pid, pid):
        try:
            os.kill(target, number)
        except OSError:
            continue
        return


def set_size(number: int, rows: int, columns: int) -> None:
    import fcntl
    import termios

    try:
        fcntl.ioctl(number, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    except OSError:
        return


def spawn(
    entry: "dict[str, object]",
    argv: "list[str]",
    cwd: str,
    env: "dict[str, str]",
    how: "dict[str, object]",
) -> Task:
    """A process with its own group and its own streams."""
    ours: list[int] = []
    theirs = {}
    if how.get("pty"):
        master, slave = os.openpty()
        ours, theirs = [master], {0: slave, 1: slave, 2: slave}
    else:
        for stream, name in enumerate(("stdin", "stdout", "stderr")):
            mine, other = end_of(stream, str(entry[name]), bool(how.get("append")))
            ours.append(mine)
            theirs[stream] = other
    pid = os.fork()
    if pid == 0:
        become(argv, cwd, env, theirs, how, str(how.get("node", "")))
    task = Task(int(str(how["step"])), int(str(entry["rank"])), pid)
    for number in {*theirs.values()}:
        if number > 2:
            os.close(number)
    if how.get("pty"):
        task.stdin = ours[0]
        task.outputs[ours[0]] = 1
        return task
    task.stdin = ours[0]
    for stream in (1, 2):
        if ours[stream] >= 0:
            task.outputs[ours[stream]] = stream
    if task.stdin >= 0:
        os.set_blocking(task.stdin, False)
    return task


def end_of(stream: int, place: str, append: bool) -> "tuple[int, int]":
    """Our end (-1: none) and the task's end of one of its streams."""
    if place == "inherit":
        return -1, stream
    if place == "pipe":
        read, wrote = os.pipe2(os.O_CLOEXEC)
        return (wrote, read) if stream == 0 else (read, wrote)
    if stream == 0:
        flags = os.O_RDONLY
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if append else os.O_TRUNC)
    try:
        return -1, os.open(place or "/dev/null", flags | os.O_CLOEXEC, 0o666)
    except OSError:
        return -1, os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)


def become(
    argv: "list[str]",
    cwd: str,
    env: "dict[str, str]",
    streams: "dict[int, int]",
    how: "dict[str, object]",
    node: str,
) -> None:
    """The child: never returns."""
    try:
        if how.get("pty"):
            os.setsid()
        elif not how.get("foreground") and not os.isatty(0):
            os.setpgid(0, 0)
        for stream, number in sorted(streams.items()):
            os.dup2(number, stream)
        if how.get("pty"):
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.set_wakeup_fd(-1)
        for one in (*FORWARDED, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(one, signal.SIG_DFL)
        try:
            os.chdir(cwd)
        except OSError as error:
            say = f"slurmstepd-{node}: error: couldn't chdir to `{cwd}': {error.strerror}"
            write(2, f"{say}: going to /tmp instead\n".encode())
            os.chdir("/tmp")
        env["SLURM_TASK_PID"] = str(os.getpid())
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        text = f"slurmstepd-{node}: error: execve(): {argv[0]}: {os.strerror(error.errno or 2)}\n"
        write(2, text.encode())
        os._exit(error.errno or errno.ENOENT)
    except BaseException:
        os._exit(1)


def batch() -> int:
    """The first node of a job that has several: its script came as standard input."""
    place = os.environ.get("TMPDIR") or "/tmp"
    path = f"{place}/slurm_script-{os.environ.get('SLURM_JOB_ID', '0')}-{os.getpid()}"
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    while part := os.read(0, PART):
        write(number, part)
    os.close(number)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    pid = os.fork()
    if pid == 0:
        os.execv(path, [path, *sys.argv[2:]])
    for one in FORWARDED:
        signal.signal(one, lambda number, _: kill(pid, number))
    status = os.waitpid(pid, 0)[1]
    os.unlink(path)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return code_of(status)
