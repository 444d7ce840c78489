"""Processes of a step: how they are started, what they are given, how they are told apart.

Part of one script with ``relay.py`` and ``stepper.py``; see there.
"""

import errno
import os
import re
import signal
import struct
import sys
from contextlib import suppress

from rota.slurm.relay.relay import PART, write

FORWARDED = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH),
)
#: Of the job's variables these are what its node and not the caller says.
OF_NODE = ("SLURM", "ROTA_", "CUDA_", "HIP_", "ROCR_", "NVIDIA_VISIBLE")


class StepTask:
    """One process of a step, and the ends of its pipes that are ours."""

    def __init__(self, step: int, rank: int, pid: int) -> None:
        self.step = step
        self.rank = rank
        self.pid = pid
        self.stdin = -1
        self.outputs: dict[int, int] = {}
        #: Where both outputs go: ``pipe``, ``inherit``, a path, or nowhere.
        self.places: dict[int, str] = {}
        self.waiting = b""
        self.closing = False
        self.status: int | None = None
        #: How it ended, while its epilog runs.
        self.ended: int | None = None
        #: What runs when it has ended, before its end is told; none: nothing does, or did already.
        self.epilog: tuple[list[str], str, dict[str, str]] | None = None
        #: Why it never began: its output would be lost, or its input is not there.
        self.problem = ""
        self.cpu_s = 0.0
        self.memory_mib = 0

    def reap(self) -> "int | None":
        """How it ended, if it has; then it is known, too, what it and its children used."""
        status = self._reaped()
        if status is None or self.epilog is None:
            return status if self.ended is None or status is None else self._is(self.ended)
        # Its place is taken by its epilog, whose own status is nobody's affair.
        self.ended, self.status = status, None
        argv, cwd, env = self.epilog
        self.epilog = None
        self.pid = os.fork()
        if self.pid == 0:
            become(argv, cwd, env, {}, {}, "")
        return None

    def _is(self, status: int) -> int:
        self.status = status
        return status

    def _reaped(self) -> "int | None":
        try:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:
            self.status = 0
            return 0
        if pid == 0:
            return None
        self.status = status
        if self.ended is not None:
            return status
        self.cpu_s = round(used.ru_utime + used.ru_stime, 3)
        self.memory_mib = -(-used.ru_maxrss // 1024)
        return status


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
) -> StepTask:
    """A process with its own group and its own streams."""
    problem = ""
    if how.get("pty"):
        master, slave = os.openpty()
        ours, theirs = [master], {0: slave, 1: slave, 2: slave}
    else:
        ours, theirs, problem = ends(entry, how)
    pid = os.fork()
    if pid == 0 and problem:
        os._exit(1)
    if pid == 0:
        become(argv, cwd, env, theirs, how, str(how.get("node", "")))
    task = StepTask(int(str(how["step"])), int(str(entry["rank"])), pid)
    task.problem = problem
    task.places = {1: str(entry["stdout"]), 2: str(entry["stderr"])}
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


def ends(
    entry: "dict[str, object]", how: "dict[str, object]"
) -> "tuple[list[int], dict[int, int], str]":
    """Our ends of the three streams of a task, its own ends, and what could not be opened."""
    ours, theirs, problem = [], {}, ""
    opened: list[str] = how["opened"]  # type: ignore[assignment]
    for stream, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            place = str(entry[name])
            mine, other = end_of(stream, place, bool(how.get("append")) or place in opened)
            opened.append(place)
        except OSError as error:
            mine, other = -1, stream
            problem = problem or f"Could not open {name} file {entry[name]}: {error.strerror}"
        ours.append(mine)
        theirs[stream] = other
    return ours, theirs, problem


def end_of(stream: int, place: str, append: bool) -> "tuple[int, int]":
    """Our end (-1: none) and the task's end of one of its streams."""
    if place == "inherit":
        return -1, stream
    if place == "pipe":
        read, wrote = os.pipe2(os.O_CLOEXEC)
        return (wrote, read) if stream == 0 else (read, wrote)
    if stream == 0:
        return -1, os.open(place or "/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    return -1, open_output(place, append)


def open_output(place: str, append: bool) -> int:
    """A file for what tasks print; it begins anew only for the first of them that opens it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if append else os.O_TRUNC)
    folder = os.path.dirname(place)
    if folder and not os.path.exists(folder):
        os.makedirs(folder, exist_ok=True)
    return os.open(place or "/dev/null", flags | os.O_CLOEXEC, 0o666)


def offer(number: int, body: bytes) -> None:
    """Print for a reader that may have left: the rest is lost then, and the program goes on."""
    with suppress(BrokenPipeError):
        write(number, body)


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
        enter(cwd, node)
        env["SLURM_TASK_PID"] = str(os.getpid())
        prepare(str(how.get("prolog") or ""), env)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        why = os.strerror(error.errno or errno.ENOENT)
        if how.get("foreground"):
            text = f'salloc: error: Unable to exec command "{argv[0]}": {why}\n'
        else:
            text = f"slurmstepd-{node}: error: execve(): {argv[0]}: {why}\n"
        write(2, text.encode())
        os._exit(error.errno or errno.ENOENT)
    except BaseException:
        os._exit(1)


def enter(cwd: str, node: str) -> None:
    """The folder of a task; where it is missing, another one that is there for certain."""
    try:
        os.chdir(cwd)
    except OSError as error:
        say = f"slurmstepd-{node}: error: couldn't chdir to `{cwd}': {error.strerror}"
        write(2, f"{say}: going to /tmp instead\n".encode())
        os.chdir("/tmp")


def prepare(program: str, env: "dict[str, str]") -> None:
    """The prolog of a task: what it prints sets and takes away variables, or is printed."""
    if not program:
        return
    import subprocess

    done = subprocess.run([program], env=env, stdout=subprocess.PIPE, check=False)
    for line in done.stdout.decode(errors="replace").splitlines():
        word, _, rest = line.partition(" ")
        name, mark, value = rest.partition("=")
        if word == "export" and mark:
            env[name.strip()] = value
        elif word == "unset":
            env.pop(rest.strip(), None)
        elif word == "print":
            write(1, rest.encode() + b"\n")
    if done.returncode:
        write(2, f"slurmstepd: error: TaskProlog failed status={done.returncode}\n".encode())
        os._exit(done.returncode & 0xFF or 1)


def input_name() -> str:
    """The file that ``sbatch -i`` names, with its marks filled in as far as this node knows."""
    env = os.environ
    job = env.get("SLURM_JOB_ID", "0")
    marks = {"j": job, "J": job, "A": env.get("SLURM_ARRAY_JOB_ID", job), "%": "%"}
    marks["a"] = env.get("SLURM_ARRAY_TASK_ID", "4294967294")
    marks["x"] = env.get("SLURM_JOB_NAME", "")
    marks["u"] = env.get("SLURM_JOB_USER", "")
    marks["N"] = env.get("SLURMD_NODENAME", "")

    def value(mark: "re.Match[str]") -> str:
        known = marks[mark[2]]
        return known.zfill(int(mark[1])) if mark[1] and known.isdecimal() else known

    return re.sub("%([0-9]?)([jJAaxuN%])", value, env.get("SLURM_JOB_STDIN", "/dev/null"))


def batch() -> int:
    """A job with several nodes, or with ``-i``: its script came as standard input."""
    place = os.environ.get("TMPDIR") or "/tmp"
    path = f"{place}/slurm_script-{os.environ.get('SLURM_JOB_ID', '0')}-{os.getpid()}"
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    while part := os.read(0, PART):
        write(number, part)
    os.close(number)
    source = input_name()
    try:
        os.dup2(os.open(source, os.O_RDONLY), 0)
    except OSError as error:
        os.unlink(path)
        text = f"slurmstepd: error: Could not open stdin file {source}: {error.strerror}\n"
        write(2, text.encode())
        return 1
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


def surroundings(env: "dict[str, str] | None") -> "dict[str, str]":
    """The caller's environment, with what this node says of the job; None: our own."""
    if env is None:
        return dict(os.environ)
    here = {name: value for name, value in os.environ.items() if name.startswith(OF_NODE)}
    return {**env, **here}


def take_as_input(path: str) -> "dict[str, int]":
    """Open a file in the place of standard input; its mode and its time, or why that failed."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(number, 0)
        os.close(number)
        known = os.fstat(0)
    except OSError as error:
        return {"errno": error.errno or 5}
    return {"errno": 0, "mode": known.st_mode & 0o7777, "at": int(known.st_mtime)}
