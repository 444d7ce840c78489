"""A real Rota on this machine, in a folder of its own, driven the way a person would."""

from __future__ import annotations

import copy
import http.client
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.cli.service.supervise import PidLock
from rota.inherited import looks_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Long enough for a loaded machine; every wait ends as soon as its condition holds.
DEADLINE_S = 60.0
FINAL = ("completed", "failed", "cancelled", "timeout", "node_failed", "unschedulable")


def until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of ``condition``, or a failure that says what never came."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}; saw {value!r}")
        time.sleep(0.01)


@contextmanager
def acting_as(user: str) -> Iterator[None]:
    """With the effective rights of another user; the kernel tells a socket's peer at connect."""
    entry = pwd.getpwnam(user)
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket, as another user if one is named."""

    def __init__(self, path: Path, timeout: float = DEADLINE_S, user: str = "") -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path
        self.user = user

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if not self.user:
            self.sock.connect(str(self.path))
            return
        with acting_as(self.user):
            self.sock.connect(str(self.path))


class Box:
    """One state folder, one controller, one agent; ``work`` is where its jobs run."""

    def __init__(self, root: Path, *, cpus: int = 4, gpus: int = 0) -> None:
        self.state = root / "state"
        self.work = root / "work"
        self.work.mkdir(parents=True)
        #: Whose jobs these are; empty: of whoever runs the tests.
        self.user = ""
        self.env = {
            # Whatever secrets the machine has: commands would say that they stay behind.
            **{name: value for name, value in os.environ.items() if not looks_secret(name)},
            "ROTA_STATE_DIR": str(self.state),
            "ROTA_AGENT_CPUS": str(cpus),
            "ROTA_AGENT_NAME": "box",
            "ROTA_SERVER_LISTEN": "127.0.0.1:0",
        }
        self.env.pop("ROTA_URL", None)
        if gpus:
            fake = root / "gpus.json"
            fake.write_text(
                json.dumps(
                    [{"model": "A100", "memory_mib": 40960, "numa": i // 2} for i in range(gpus)]
                )
            )
            self.env["ROTA_FAKE_GPUS"] = str(fake)

    def at(self, work: Path, user: str = "") -> Box:
        """The same box, seen from another folder, by another user if one is named."""
        other = copy.copy(self)
        other.work = work
        other.user = user
        return other

    def rota(
        self,
        *args: str,
        check: bool = True,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = DEADLINE_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line in the work folder."""
        done = subprocess.run(
            [sys.executable, "-m", "rota.cli.main", *args],
            cwd=self.work,
            env={**self.env, **(env or {})},
            text=True,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"rota {' '.join(args)} -> {done.returncode}\n{done.stderr}")
        return done

    def up(self, *args: str) -> None:
        self.rota("up", "--detach", *args)

    def down(self, *args: str) -> None:
        """Stop everything; if that is refused, at least Rota itself."""
        args = (*args, "--yes") if "--stop-jobs" in args else args
        if self.rota("down", *args, check=False).returncode:
            self.rota("down", check=False)

    def submit(self, *args: str, **options: Any) -> int:
        return int(self.rota("submit", *args, **options).stdout.split()[-1])

    def job(self, command: list[str] | str | None = None, **fields: Any) -> int:
        """Submit over REST, which is quicker than a process of its own; the id."""
        body = {"workdir": str(self.work), **fields}
        if command is not None:
            body["command"] = command
        status, answer = self.api("POST", "/jobs", body)
        assert status == 201, answer
        return int(answer["id"])

    def job_again(self, command: list[str], key: str) -> int:
        """Submit with a key that makes it safe to repeat, through a controller's restart too."""
        body = {"workdir": str(self.work), "command": command}
        status, answer = self.api("POST", "/jobs", body, {"Idempotency-Key": key})
        assert status in (200, 201), answer
        return int(answer["id"])

    def ended(self, job: int | str) -> dict[str, Any]:
        """The record of a job once it has ended."""
        return self.reach(job, *FINAL)

    def ran(self, command: list[str] | str | None = None, **fields: Any) -> dict[str, Any]:
        """Submit over REST and wait for the end."""
        return self.ended(self.job(command, **fields))

    def output(self, job: int | str, stream: str = "stdout") -> str:
        """What the job printed."""
        status, text = self.api("GET", f"/jobs/{job}/logs?stream={stream}")
        assert status == 200, text
        return str(text)

    def why(self, job: int | str) -> str:
        """The one-line reason and the lines that go with it."""
        _, answer = self.api("GET", f"/jobs/{job}/why")
        return "\n".join([answer["reason"], *answer["lines"], *answer["help"]])

    def refusal(self, *args: str, exit_code: int = 2, **options: Any) -> str:
        """The one line on stderr with which a command is refused."""
        done = self.rota(*args, check=False, **options)
        assert done.returncode == exit_code, done
        assert "Traceback" not in done.stdout + done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("rota: ")
        return lines[0]

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.rota("status", "--json").stdout))

    def show(self, job: int | str) -> dict[str, Any]:
        return dict(json.loads(self.rota("show", str(job), "--json").stdout))

    def state_of(self, job: int | str) -> str:
        return str(self.show(job)["state"])

    def reach(self, job: int | str, *states: str) -> dict[str, Any]:
        """Wait until the job is in one of the states; its record then."""

        shown: dict[str, Any] = {}

        def there() -> bool:
            shown.update(self.api("GET", f"/jobs/{job}")[1])
            return shown["state"] in states

        try:
            until(there, f"job {job} to be {' or '.join(states)}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {shown['state']}, {shown['reason']}") from None
        return shown

    def api(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """One REST call over the local socket; waits out a controller that is restarting."""
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self._call(method, path, body, headers or {})
            except (OSError, http.client.HTTPException):
                if method != "GET" and "Idempotency-Key" not in (headers or {}):
                    raise
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _call(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        connection = UnixConnection(self.state / "rota.sock", user=self.user)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(
                method, f"/api/v1{path}", payload, {"Content-Type": "application/json", **headers}
            )
            response = connection.getresponse()
            raw = response.read()
            kind = response.headers.get("Content-Type", "")
            return response.status, json.loads(raw) if "json" in kind else raw.decode()
        finally:
            connection.close()

    def pid(self, part: str) -> int:
        """The process id of ``supervisor``, ``controller``, ``agent`` or ``keeper``; 0: none.

        The lock tells whether it lives. A number in a file alone may by now be anybody's. One that
        is just starting has the lock, and has not said its number yet.
        """
        folder = self.state / "agent" if part in ("agent", "keeper") else self.state
        if not PidLock(folder / f"{part}.lock").holder():
            return 0
        if folder == self.state:
            return PidLock(folder / f"{part}.lock").holder()
        try:
            return int(json.loads((folder / f"{part}.json").read_text())["pid"])
        except (FileNotFoundError, ValueError):
            return 0

    def kill(self, *parts: str) -> None:
        """``kill -9``, no warning."""
        handles = [os.pidfd_open(self.living(part)) for part in parts]
        for handle in handles:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)

    def living(self, part: str) -> int:
        """Its process id, once there is one: whoever was killed may just be coming back."""

        def pid() -> int:
            found = self.pid(part)
            return found if found > 0 and os.path.exists(f"/proc/{found}") else 0

        return int(until(pid, f"a living {part}"))

    def read(self, name: str) -> str:
        path = self.work / name
        return path.read_text() if path.exists() else ""
