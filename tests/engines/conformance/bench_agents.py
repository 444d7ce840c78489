"""Our own agents: three on this machine, that joined through the proxy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rota.backends.api import Feature
from tests.engines.conformance.bench import Bench, Inside, processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines.conformance.scenarios import Need

#: What the answer of an engine is for an agent: the report to its controller.
SUBMITS = {"late": "late", "error": "cut", "silent": "unheard", "twice": "again"}


class AgentsBench(Bench):
    """``agent`` is each of them; there is no engine behind them."""

    name = "agents"
    machines = ("one", "two", "three")

    @property
    def has(self) -> frozenset[Need]:
        return frozenset(Feature)

    def begin(self) -> None:
        for machine in self.machines:
            self._begin_one(machine)
        self.until_up()

    def _begin_one(self, machine: str) -> None:
        self.join(machine, "agent", "--join", self.url, "--name", machine, ROTA_AGENT_CPUS="4")

    def look_inside(self, uid: str) -> list[Inside]:
        return [Inside(str(min(found)), "running")] if (found := processes(uid)) else []

    @contextmanager
    def fault(self, name: str, target: str = "") -> Iterator[None]:
        if name == "lost":
            self._end_machine(target)
            yield
            self._begin_one(target)
            self.until_up()
        elif name in ("cut", "away"):
            silent = [target] if target else self.machines
            for each in silent:
                self.signal(each, signal.SIGSTOP)
            yield
            for each in silent:
                self.signal(each, signal.SIGCONT)
        elif name == "unserved":
            for each in self.machines:
                self.kill(each)
            yield
            self.begin()
        elif name == "stranger":
            env = {"ROTA_ATTEMPT_UID": target, "ROTA_JOB_ID": "1"}
            with subprocess.Popen(["sleep", "300"], env=env) as stranger:
                yield
                stranger.kill()
        else:
            with self.session_fault(SUBMITS.get(name, name)):
                yield

    def _end_machine(self, machine: str) -> None:
        """Agent, keeper, and every process that belongs to an attempt there."""
        self.kill(machine)
        folder = self.root / machine / "agent"
        with suppress(OSError, ValueError):
            os.kill(json.loads((folder / "keeper.json").read_text())["pid"], signal.SIGKILL)
        _, page = self.box.api("GET", "/jobs?state=active&limit=500")
        for job in page["items"]:
            attempts = self.box.api("GET", f"/jobs/{job['id']}")[1]["attempts"]
            for uid in [each["uid"] for each in attempts if each["node"] == machine]:
                for pid in processes(uid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def restart(self, part: str) -> None:
        if part == "controller":
            self.box.kill("controller")
        elif part in ("agent", "journal"):  # They have no journal: their keepers know it all.
            with self.fault("unserved"):
                pass
        else:
            raise AssertionError(f"own agents have no {part}")

    def close(self) -> None:
        super().close()
        for machine in self.machines:
            env: dict[str, Any] = {"ROTA_STATE_DIR": str(self.root / machine)}
            self.box.rota("down", env=env, check=False)
