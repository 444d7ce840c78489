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

from rota.agent import processes

KEEPER = Path(processes.__file__).with_name("keeper.py")
DEADLINE_S = 10.0
T = TypeVar("T")


def wait_until(what: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
    """The first true answer; an assertion fails when there is none in time."""
    end_s = time.monotonic() + deadline_s
    while not (answer := what()):
        assert time.monotonic() < end_s, "waited in vain"
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


def is_running(pid: int) -> bool:
    process = processes.look(pid)
    return process is not None and not process.zombie


def pid_in(file: Path) -> int:
    """The pid that a job wrote down, once it has."""
    return int(wait_until(lambda: file.exists() and file.read_text().strip()))


class Keeper:
    """One keeper and one connection to it."""

    def __init__(self, path: Path, *options: str) -> None:
        self.folder = path
        self.options = options
        self.events: list[dict[str, Any]] = []
        self.all: list[dict[str, Any]] = []
        self._socket: socket.socket | None = None
        self._unread = b""
        #: In the environment of every job, to find those that outlive the keeper.
        self._mark = f"ROTA_TEST_FOLDER={path}"
        (path / "logs").mkdir(exist_ok=True)

    def start(self) -> "Keeper":
        command = [sys.executable, "-I", "-S", str(KEEPER), str(self.folder), *self.options]
        subprocess.run(command, check=True, timeout=DEADLINE_S)
        return self.connect()

    def connect(self) -> "Keeper":
        """A fresh connection; what the first line lists is in ``all``."""
        self.disconnect()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(self.folder / "keeper.sock"))
        self.events = []
        self.all = wait_until(lambda: self._read("all"))["attempts"]
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
        assert self._socket is not None
        self._socket.sendall(json.dumps(command).encode() + b"\n")

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
        return wait_until(lambda: self._read(kind, uid))

    def _read(self, kind: str, uid: str | None = None) -> dict[str, Any] | None:
        for event in self.events:
            if event["ev"] == kind and uid in (None, event.get("uid")):
                return event
        assert self._socket is not None
        chunk = self._socket.recv(1 << 16)
        assert chunk, "the keeper closed the connection"
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        self.events += map(json.loads, lines)
        return None

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
def keeper(*options: str) -> Iterator[Keeper]:
    with folder() as path:
        one = Keeper(path, *options)
        try:
            yield one.start()
        finally:
            one.clean_up()
