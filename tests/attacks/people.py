"""The people of the attacks: each a Unix user of its own, with a folder and a way in."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.journeys.box import DEADLINE_S, Box, UnixConnection, until
from tests.support.machine import REPOSITORY, missing

#: What is not held up takes no longer, on a loaded machine too.
SOON_S = 20.0
#: Every user may run the system's programs.
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="rota-attack-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def new_user(role: str) -> Iterator[str]:
    """A Unix user that nobody else uses: what it does to all of its processes is its own."""
    if os.geteuid() != 0:
        missing("needs the rights of root")
    if shutil.which("useradd") is None:
        missing("needs useradd")
    name = f"rota-{role}-{os.getpid()}"
    # Somebody else may hold the lock on the list of users.
    until(lambda: _call("useradd", "-M", "-U", "-s", "/bin/sh", "-d", "/", name), f"user {name}")
    try:
        yield name
    finally:
        uid = pwd.getpwnam(name).pw_uid
        until(lambda: not _end_all(uid), f"the processes of {name} to end")
        until(lambda: _call("userdel", name), f"user {name} to go")


def _call(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def processes_of(uid: int) -> list[int]:
    """The living processes whose real user it is."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines()
            )
            if int(fields["Uid"].split()[0]) == uid and not fields["State"].startswith("Z"):
                found.append(int(folder.name))
    return found


def _end_all(uid: int) -> list[int]:
    found = processes_of(uid)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


@cache
def python_of(user: str) -> tuple[str, str]:
    """A Python that this user may run, and what it must add to its path to have Rota."""
    here = f"{REPOSITORY / 'src'}:{sysconfig.get_path('purelib')}"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    system = shutil.which("python3", path=SYSTEM_PATH) or sys.executable
    for python in (sys.executable, system):
        with contextlib.suppress(PermissionError):
            told = subprocess.run(
                [python, "-c", "import rota.cli.main, sys; print(*sys.version_info[:2], sep='.')"],
                user=user,
                group=pwd.getpwnam(user).pw_gid,
                extra_groups=[],
                env={"PYTHONPATH": here},
                capture_output=True,
                text=True,
                cwd="/",
                check=False,
            )
            if told.stdout.strip() == version:
                return python, here
    missing("needs a Python and a Rota that every user may run")
    return None


class Person(Box):
    """The service as one user sees it; everything is done with the rights of that user alone."""

    def __init__(self, town: Box, user: str, work: Path) -> None:
        self.__dict__.update(town.__dict__)
        self.user, self.work = user, work
        self.uid = pwd.getpwnam(user).pw_uid
        work.mkdir(mode=0o755)
        os.chown(work, self.uid, pwd.getpwnam(user).pw_gid)

    def rota(self, *args: str, check: bool = True, **options: Any) -> Any:
        """The command line in a process of the user."""
        python, path = python_of(self.user)
        done = subprocess.run(
            [python, "-m", "rota.cli.main", *args],
            cwd=self.work, user=self.user, group=self.user, extra_groups=[],
            env={**self.env, "PYTHONPATH": path, "HOME": str(self.work), **options.get("env", {})},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
            check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done

    def python(self, script: str, *arguments: str) -> str:
        """What a script of the user's own prints, outside of any job."""
        done = subprocess.run(
            self._command(script, arguments), cwd=self.work, user=self.user, group=self.user,
            extra_groups=[], env={"PATH": SYSTEM_PATH}, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def busy(self, script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A script of the user's own, from its first line on until the block ends."""
        process = subprocess.Popen(
            self._command(script, arguments), cwd=self.work, user=self.user, group=self.user,
            extra_groups=[], env={"PATH": SYSTEM_PATH}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it did not come so far"
            yield process
        finally:
            process.kill()
            process.communicate()

    def _command(self, script: str, arguments: tuple[str, ...]) -> list[str]:
        python = shutil.which("python3", path=SYSTEM_PATH)
        if python is None:
            missing("needs a python3 that every user may run")
        return [python, "-I", "-c", script, *arguments]

    def write(self, name: str, body: str | bytes, mode: int = 0o644) -> Path:
        """A file of the user's own."""
        path = self.work / name
        path.write_bytes(body.encode() if isinstance(body, str) else body)
        path.chmod(mode)
        os.chown(path, self.uid, self.uid)
        return path

    def asks(
        self, method: str, path: str, body: bytes | None = None, timeout_s: float = DEADLINE_S,
        **headers: str,
    ) -> tuple[int, bytes]:  # fmt: skip
        """One call, its answer as it is."""
        connection = UnixConnection(self.state / "rota.sock", timeout_s, self.user)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def over_network(self, method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
        """One REST call with a token."""
        netloc = self.url.partition("://")[2]
        connection = http.client.HTTPConnection(netloc, timeout=DEADLINE_S)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, f"/api/v1{path}", payload, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        finally:
            connection.close()

    @property
    def url(self) -> str:
        return str(self.api("GET", "/status")[1]["controller"]["url"])

    def is_served_soon(self) -> None:
        """A short job of this user runs and its output is read, as if nobody else was there."""
        job = self.job(["echo", "served"])
        until(lambda: self.api("GET", f"/jobs/{job}")[1]["state"] == "completed",
              f"a short job of {self.user} while another user attacks", SOON_S)  # fmt: skip
        assert self.output(job) == "served\n"
