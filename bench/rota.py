"""A real Rota in a folder of its own: started as a person would, driven over its socket, stopped
for certain.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import machine
from bench.wire import Refused, Wire, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

START_S = 60.0
#: Below the server's own longest wait, so that an answer always comes in time.
POLL_S = 20.0
MARK = "BENCH_MARK"


class Broken(Exception):
    """Rota did not do what the measurement needs; there is no figure then."""


class Rota:
    """One state folder with its controller, agent and keeper. Use it in a ``with`` statement.

    ``settings`` are those that differ from the defaults, as variables of the environment.
    """

    def __init__(
        self, folder: Path, label: str, *, with_agent: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._with_agent = with_agent
        self.root = Path(tempfile.mkdtemp(prefix=f"rota-bench-{label}-", dir=folder))
        self.state = self.root / "state"
        self.work = self.root / "work"
        self.work.mkdir()
        # Jobs of an agent that runs as root belong to their submitter, whoever that is.
        self.root.chmod(0o755)
        self.work.chmod(0o777)
        self._mark = secrets.token_hex(8)
        # Nothing of the caller's settings: the figures are those of the defaults.
        code = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        self.environment = {
            **code,
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.root),
            "LANG": "C.UTF-8",
            "ROTA_STATE_DIR": str(self.state),
            "ROTA_SERVER_LISTEN": "127.0.0.1:0",
            MARK: self._mark,
            **(settings or {}),
        }
        self._wire: Wire | None = None

    def __enter__(self) -> Rota:
        atexit.register(self.stop)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()

    def start(self) -> float:
        """``rota up --detach``, until the node can take jobs; the seconds until it served."""
        began = time.perf_counter()
        words = ["up", "--detach"] if self._with_agent else ["up", "--detach", "--no-agent"]
        with self._command(*words) as command:
            self.reach(
                lambda: command.poll() or self.wire.get("/jobs?limit=1"), "an answer from the API"
            )
            served_s = time.perf_counter() - began
            if command.wait(START_S):
                said = (self.root / "command.log").read_text(errors="replace").strip()
                raise Broken(f"rota up ended with {command.returncode}: {said[-600:]}")
        if self._with_agent:
            self.reach(self._has_node, "a node that takes jobs")
        return served_s

    def stop(self) -> None:
        """``rota down --stop-jobs``, then an end for whatever of this Rota is still alive."""
        atexit.unregister(self.stop)
        self.hang_up()
        if self.pids():
            with (
                contextlib.suppress(subprocess.TimeoutExpired),
                self._command("down", "--stop-jobs", "--timeout", "10") as command,
            ):
                try:
                    command.wait(30)
                finally:
                    command.kill()
        end = time.monotonic() + 5
        while (left := self.pids()) and time.monotonic() < end:
            # The keeper leaves by itself a while after its last job; a benchmark does not wait.
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        if not os.environ.get("BENCH_KEEP"):
            shutil.rmtree(self.root, ignore_errors=True)

    def _command(self, *words: str) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).parent / "rota"
        # A file takes the output: daemons that kept a pipe open would hold us up for ever.
        with (self.root / "command.log").open("wb") as log:
            return subprocess.Popen(
                [str(program), *words], env=self.environment, cwd=self.work,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def wire(self) -> Wire:
        """The kept connection of this client."""
        if self._wire is None:
            self._wire = Wire(self.state / "rota.sock")
        return self._wire

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def reach(self, ask: Callable[[], Any], what: str, deadline_s: float = START_S) -> Any:  # noqa: ANN401
        """The first true answer, from a server that may not be there yet."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                if answer := ask():
                    return answer
            except (OSError, Refused):
                self.hang_up()
            if time.monotonic() > end:
                raise Broken(f"waited {deadline_s:g} s in vain for {what}; {self._log_tail()}")
            time.sleep(0.005)

    def _has_node(self) -> bool:
        nodes = self.wire.get("/nodes")
        listed = nodes["items"] if isinstance(nodes, dict) else nodes
        return any(node.get("state", "up") in {"up", "ready", "idle", "active"} for node in listed)

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return (self.state / "controller.log").read_text(errors="replace")[-400:]
        return "there is no controller.log"

    def pids(self) -> dict[int, str]:
        """All living processes of this Rota and what they are, jobs included."""
        found = {}
        own = os.getpid()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == own:
                continue
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if command and self._is_ours(entry, command):
                    found[int(entry.name)] = self._role(int(entry.name), command)
        return found

    def _is_ours(self, entry: Path, command: str) -> bool:
        if str(self.state) in command:
            return True
        return f"{MARK}={self._mark}".encode() in (entry / "environ").read_bytes()

    def _role(self, pid: int, command: str) -> str:
        for role, path in (("controller", "controller.json"), ("agent", "agent/agent.json"),
                           ("keeper", "agent/keeper.json")):  # fmt: skip
            if self._written_pid(path) == pid:
                return role
        if "/keeper/" in command and "starter" in command:
            return "starter"
        return "supervisor" if " up --detach" in command else command[:40]

    def _written_pid(self, path: str) -> int | None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(json.loads((self.state / path).read_text())["pid"])
        return None

    def controller_pid(self) -> int:
        pid = self._written_pid("controller.json")
        if pid is None:
            raise Broken("controller.json names no process")
        return pid

    def kill_controller(self) -> float:
        """``kill -9``; seconds until the one that the supervisor starts in its place serves."""
        old = self.controller_pid()
        self.hang_up()
        began = time.perf_counter()
        os.kill(old, signal.SIGKILL)
        self.reach(lambda: self._written_pid("controller.json") not in {None, old}, "a successor")
        self.reach(lambda: self.wire.get("/jobs?limit=1"), "an answer from the successor")
        return time.perf_counter() - began

    def kill_all(self) -> None:
        """``kill -9`` to supervisor, controller and agent; the keeper stays with its jobs."""
        self.hang_up()
        # The supervisor first, or it would start the others again.
        order = ["supervisor", "controller", "agent"]
        doomed = {pid: role for pid, role in self.pids().items() if role in order}
        for pid in sorted(doomed, key=lambda pid: order.index(doomed[pid])):
            os.kill(pid, signal.SIGKILL)

    def cpu_by_role(self) -> dict[str, float]:
        """CPU seconds so far of each process, the jobs it has waited for included."""
        return {role: machine.cpu_s([pid]) for pid, role in self.pids().items()}

    def job(self, command: list[str] | None = None, **fields: Any) -> dict[str, Any]:
        """A request for one job; by default one that does nothing."""
        return {
            "command": command or ["true"],
            "workdir": str(self.work),
            # The mark lets stop() find a job that nobody is left to end.
            "env": {"PATH": self.environment["PATH"], MARK: self._mark},
            **fields,
        }

    def submit(self, **fields: Any) -> int:
        return int(self.wire.post("/jobs", self.job(**fields))["id"])

    def submit_batch(self, jobs: list[dict[str, Any]]) -> list[int]:
        return [int(each) for each in self.wire.post("/jobs:batch", {"jobs": jobs})["ids"]]

    def submit_message(self, **fields: Any) -> bytes:
        """The bytes of a submit, made before the clock starts."""
        return request("POST", "/jobs", self.job(**fields))

    def await_end(self, ids: Iterable[int], cap_s: float = 600) -> float:
        """Wait until all are final; the moment (``time.perf_counter``) at which we knew."""
        pending = list(ids)
        end = time.monotonic() + cap_s
        while pending:
            asked, later = pending[:1000], pending[1000:]
            listed = ",".join(map(str, asked))
            answer = self.wire.get(f"/jobs/wait?ids={listed}&timeout_s={POLL_S:g}")
            pending = [int(each) for each in answer["pending"]] + later
            if pending and time.monotonic() > end:
                raise Broken(f"{len(pending)} jobs had not ended after {cap_s:g} s")
        return time.perf_counter()

    def records(self, ids: list[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for start in range(0, len(ids), 500):
            listed = ",".join(map(str, ids[start : start + 500]))
            found += self.wire.get(f"/jobs?ids={listed}&limit=1000")["items"]
        return found

    def count_right(self, ids: list[int]) -> int:
        """How many are recorded as completed with exit code 0."""
        return sum(
            record["state"] == "completed" and record["exit_code"] == 0
            for record in self.records(ids)
        )
