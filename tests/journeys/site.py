"""A controller without an agent of its own, and agents that joined it with a token."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.journeys.box import DEADLINE_S, Box

if TYPE_CHECKING:
    from pathlib import Path

#: A token with which any number of nodes may join.
JOIN = ("token", "create", "--join", "--uses", "0", "--json")
#: Long enough for a machine that is busy with other things: nothing is lost by chance.
LEASE_S = 60
#: For its last line; a node that is lost is given up so much later.
GRACE_S = 3
#: Writes one line when it starts and one when it is told to end.
WITNESS = """
import os, signal, sys, time
def say(word):
    with open(sys.argv[1], "a") as file:
        file.write(f"{word} {os.environ['ROTA_NODELIST']} {time.monotonic():.3f}\\n")
def leave(*_):
    say("ended")
    sys.exit(3)
signal.signal(signal.SIGTERM, leave)
say("began")
time.sleep(60)
"""


class Site:
    """One controller without an agent of its own, and agents that joined it with a token."""

    def __init__(self, root: Path, lease_s: float = LEASE_S, database: str = "") -> None:
        self.root = root
        self.head = Box(root / "head")
        self.head.env |= {
            "ROTA_SERVER_TLS": "on",
            "ROTA_SERVER_LEASE_S": str(lease_s),
        }
        self.head.up("--no-agent", *(("--database", database) if database else ()))
        made = json.loads(self.head.rota(*JOIN).stdout)
        self.url, self.token = str(made["url"]), str(made["token"])
        self.agents: dict[str, subprocess.Popen[str]] = {}

    def join(self, name: str, folder: str = "", token: str | None = None) -> subprocess.Popen[str]:
        """Start an agent; its log is ``name.log``."""
        state = self.root / (folder or name)
        command = [sys.executable, "-m", "rota.cli.main", "agent", "--join", self.url]
        command += ["--name", name, "--state-dir", str(state)]
        env = {
            **self.head.env,
            "ROTA_STATE_DIR": str(state),
            "ROTA_TOKEN": self.token if token is None else token,
        }
        with (self.root / f"{folder or name}.log").open("w") as log:
            agent = subprocess.Popen(command, env=env, stderr=log, stdout=log, text=True)
        self.agents[folder or name] = agent
        return agent

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text()

    def node(self, name: str) -> dict[str, object]:
        _, answer = self.head.api("GET", "/nodes")
        return next((n for n in answer["items"] if n["name"] == name), {})

    def is_up(self, name: str) -> bool:
        return self.node(name).get("state") == "up"

    def witness_job(self, file: str, **fields: Any) -> int:
        command = [sys.executable, "-c", WITNESS, file]
        return self.head.job(command, grace_s=GRACE_S, **fields)

    def witness(self, name: str) -> list[list[str]]:
        file = self.head.work / name
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def close(self) -> None:
        for agent in self.agents.values():
            if agent.poll() is None:
                agent.send_signal(signal.SIGCONT)
                agent.terminate()
                agent.wait(DEADLINE_S)
        for folder in self.agents:
            subprocess.run(
                [sys.executable, "-m", "rota.cli.main", "down", "--state-dir", folder],
                cwd=self.root, env=self.head.env, capture_output=True, check=False,
                timeout=DEADLINE_S,
            )  # fmt: skip
        self.head.down("--stop-jobs")
