"""A keeper under test: started for real on a folder of its own, spoken to over its socket."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rota.keeper import processes

KEEPER = Path(processes.__file__).with_name("keeper.py")
#: Only against hanging for ever: nothing that is waited for takes seconds on an idle machine.
DEADLINE_S = 60.0
T = TypeVar("T")


def wait_until(what: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
    """The first true answer; an assertion fails when there is none in time."""
    end_s = time.monotonic() + deadline_s
    while not (answer := what()):
        assert time.monotonic() < end_s, f"waited {deadline_s:g} s in vain: last it was {answer!r}"
        time.sleep(0.005)
    return answer


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that every user may look into, with a path short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="rota-agent-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def of_this_run(uid: str) -> str:
    """A uid that no other test process uses at the same time.

    A keeper that follows a killed one looks for its attempts among all processes of the machine.
    """
    return f"{uid}-{os.getpid()}"


def is_running(pid: int) -> bool:
    process = processes.look(pid)
    return process is not None and not process.zombie


def pid_in(file: Path) -> int:
    """The pid that a job wrote down, once it has."""
    return int(wait_until(lambda: file.exists() and file.read_text().strip()))


class HungUp(ConnectionError):
    """The keeper ended the connection."""


class Keeper:
    """One keeper and one connection to it."""

    def __init__(self, path: Path, *options: str, before: tuple[str, ...] = ()) -> None:
        """``before`` stands before its command line: a program that starts it."""
        self.folder = path
        self.before = before
        self.options = options
        self.events: list[dict[str, Any]] = []
        self.all: list[dict[str, Any]] = []
        self._socket: socket.socket | None = None
        self._unread = b""
        #: In the environment of every job, to find those that outlive the keeper.
        self._mark = f"ROTA_TEST_FOLDER={path}"
        (path / "logs").mkdir(exist_ok=True)

    def start(self) -> "Keeper":
        command = [*self.before, sys.executable, "-I", "-S", str(KEEPER), str(self.folder)]
        command += self.options
        # One with little patience may have left again before we come: then another one is started.
        end_s = time.monotonic() + DEADLINE_S
        while True:
            subprocess.run(command, check=True, timeout=DEADLINE_S)
            try:
                return self.connect()
            except (ConnectionError, FileNotFoundError):
                assert time.monotonic() < end_s, "keepers start, and leave before they are met"

    def connect(self) -> "Keeper":
        """A fresh connection; what the first line lists is in ``all``."""
        self.disconnect()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(self.folder / "keeper.sock"))
        self.events = []
        self.all = self._hear("all")["attempts"]
        return self

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._unread = b""

    @property
    def pid(self) -> int:
        return int(json.loads((self.folder / "keeper.json").read_text())["pid"])

    def send(self, **command: Any) -> None:
        self.send_all(command)

    def send_all(self, *commands: dict[str, Any]) -> None:
        """Several commands that arrive together."""
        assert self._socket is not None
        self._socket.sendall(b"".join(json.dumps(one).encode() + b"\n" for one in commands))

    def spawn(self, uid: str, *argv: str, **fields: Any) -> None:
        order = {
            "op": "spawn",
            "uid": uid,
            "argv": list(argv),
            "env": [f"PATH={os.environ['PATH']}", self._mark],
            "cwd": str(self.folder),
            "stdin": None,
            "stdout": self.output(uid),
            "stderr": self.output(uid, "err"),
            "umask": 0o022,
            "user": None,
            "cpus": [],
            "ulimits": {},
            "cgroup": None,
        }
        self.send(**(order | fields))

    def shell(self, uid: str, script: str, **fields: Any) -> None:
        self.spawn(uid, "/bin/sh", "-c", script, **fields)

    def output(self, uid: str, ending: str = "out") -> str:
        return str(self.folder / "logs" / f"{uid}.{ending}")

    def text(self, uid: str, ending: str = "out") -> str:
        return Path(self.output(uid, ending)).read_text()

    def started(self, uid: str) -> dict[str, Any]:
        return self.event("started", uid)

    def ended(self, uid: str) -> dict[str, Any]:
        return self.event("ended", uid)

    def event(self, kind: str, uid: str) -> dict[str, Any]:
        return self._hear(kind, uid)

    def _hear(self, kind: str, uid: str | None = None) -> dict[str, Any]:
        """The first event of this kind, once it was told."""
        while True:
            for event in self.events:
                if event["ev"] == kind and uid in (None, event.get("uid")):
                    return event
            self._read(f"{kind} {uid or ''}")

    def _read(self, awaited: str) -> None:
        assert self._socket is not None
        try:
            chunk = self._socket.recv(1 << 16)
        except TimeoutError:
            heard = [(event["ev"], event.get("uid")) for event in self.events]
            raise AssertionError(f"the keeper did not tell {awaited}; it told {heard}") from None
        if not chunk:
            raise HungUp("the keeper closed the connection")
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        self.events += map(json.loads, lines)

    def kill(self) -> None:
        """As the kernel would under memory pressure; its children live on."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))

    def clean_up(self) -> None:
        """Nothing that a test started outlives it."""
        if not (self.folder / "keeper.json").exists():
            return
        pid = self.pid
        for process in processes.snapshot().values():
            environ = processes.read(f"/proc/{process.pid}/environ")
            if process.parent == pid or self._mark.encode() in environ:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.disconnect()


@contextlib.contextmanager
def keeper(*options: str, before: tuple[str, ...] = ()) -> Iterator[Keeper]:
    with folder() as path:
        one = Keeper(path, *options, before=before)
        try:
            yield one.start()
        finally:
            one.clean_up()
