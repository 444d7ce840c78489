"""Processes full of simulated agents (``rota.testing.swarm``), and their CPU time apart."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
from collections import Counter
from typing import TYPE_CHECKING

from bench.rota import Broken

if TYPE_CHECKING:
    from types import TracebackType

    from bench.rota import Rota

CONNECT_S = 120.0
LEAVE_S = 30.0


class Herd:
    """Agents of ``cpus`` CPUs each, connected over the network. Use it with ``with``."""

    def __init__(self, rota: Rota, agents: int, cpus: int, gpus: int = 0) -> None:
        self._rota = rota
        self._agents = agents
        self._cpus = cpus
        self._gpus = gpus
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed when they leave
        self._child: subprocess.Popen[bytes] | None = None
        #: What they counted, once they have left.
        self.tally: Counter[str] = Counter()

    def __enter__(self) -> Herd:
        answer = self._rota.wire.post("/tokens", {"access": "agent", "uses": 0, "note": "herd"})
        parts = [answer["token"], answer.get("fingerprint") or ""]
        self._child = child = subprocess.Popen(
            [sys.executable, "-m", "rota.testing.swarm", "--url", answer["url"],
             "--agents", str(self._agents), "--cpus", str(self._cpus),
             "--gpus", str(self._gpus)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=self._rota.environment,
        )  # fmt: skip
        try:
            assert child.stdin is not None
            child.stdin.write((".".join(filter(None, parts)) + "\n").encode())
            child.stdin.flush()
            self._await_ready(child)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        child, self._child = self._child, None
        if child is None:
            return
        try:
            # The end of its input is the sign to leave.
            said, _ = child.communicate(timeout=LEAVE_S)
            self.tally = Counter(json.loads(said.splitlines()[-1]) if said else {})
        except (subprocess.TimeoutExpired, OSError, ValueError):
            child.kill()
            child.wait()
        self._log.close()

    def _await_ready(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            line = child.stdout.readline() if selector.select(CONNECT_S) else b""
        if line != b"ready\n":
            self._log.seek(0)
            said = self._log.read()[-400:].decode(errors="replace")
            raise Broken(f"{self._agents} agents did not all connect in {CONNECT_S:g} s: {said}")

    @property
    def pid(self) -> int:
        if self._child is None:
            raise Broken("the simulated agents are not there")
        return self._child.pid
