"""A real Rota on this machine, in a folder of its own, driven the way a person would."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Long enough for a loaded machine; every wait ends as soon as its condition holds.
DEADLINE_S = 60.0


def until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of ``condition``, or a failure that says what never came."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s:g} s in vain for {what}")
        time.sleep(0.01)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout: float = DEADLINE_S) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Box:
    """One state folder, one controller, one agent; ``work`` is where its jobs run."""

    def __init__(self, root: Path, *, cpus: int = 4, gpus: int = 0) -> None:
        self.state = root / "state"
        self.work = root / "work"
        self.work.mkdir(parents=True)
        self.env = {
            **os.environ,
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
        self.rota("down", *args, check=False)

    def submit(self, *args: str) -> int:
        return int(self.rota("submit", *args).stdout.split()[-1])

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.rota("status", "--json").stdout))

    def show(self, job: int | str) -> dict[str, Any]:
        return dict(json.loads(self.rota("show", str(job), "--json").stdout))

    def state_of(self, job: int | str) -> str:
        return str(self.show(job)["state"])

    def reach(self, job: int | str, *states: str) -> dict[str, Any]:
        """Wait until the job is in one of the states; its record then."""

        def there() -> dict[str, Any] | None:
            _, shown = self.api("GET", f"/jobs/{job}")
            return shown if shown["state"] in states else None

        return dict(until(there, f"job {job} to be {' or '.join(states)}"))

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
        connection = UnixConnection(self.state / "rota.sock")
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
        """The process id of ``controller`` or ``agent``, from its file in the state folder."""
        name = "controller.json" if part == "controller" else "agent/agent.json"
        return int(json.loads((self.state / name).read_text())["pid"])

    def kill(self, *parts: str) -> None:
        """``kill -9``, no warning."""
        for part in parts:
            try:
                os.kill(self.pid(part), signal.SIGKILL)
            except (ProcessLookupError, FileNotFoundError, ValueError):
                continue

    def read(self, name: str) -> str:
        path = self.work / name
        return path.read_text() if path.exists() else ""
