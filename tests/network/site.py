"""A controller and agents, each on a host with an address of its own, on an ``Ether``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from rota.cli.service.supervise import PidLock
from tests.journeys.box import Box, until
from tests.journeys.site import JOIN
from tests.network.ether import FAIR, Ether, Weather

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HEAD = "10.77.0.1"
PORT = 8082
UNAVAILABLE = 503


class HeadBox(Box):
    """The controller's machine: its commands run in a network namespace."""

    def __init__(self, root: Path, space: str, lease_s: float, database: str) -> None:
        super().__init__(root)
        self.space = space
        self.env |= {"ROTA_SERVER_LISTEN": f"{HEAD}:{PORT}", "ROTA_SERVER_DATABASE": database}
        self.set_lease(lease_s)

    def set_lease(self, lease_s: float) -> None:
        """For controllers that start from now on."""
        self.env["ROTA_SERVER_LEASE_S"] = str(lease_s)

    def up(self, *args: str) -> None:
        command = [sys.executable, "-m", "rota.cli.main", "up", "--detach", *args]
        done = subprocess.run(
            inside(self.space, command), cwd=self.work, env=self.env, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=110, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


class Node:
    """One agent: its host, its folder and, while it lives, its process."""

    def __init__(self, site: Site, number: int) -> None:
        self.name = f"node{number}"
        self.address = f"10.77.0.{10 + number}"
        self.space = site.ether.add(self.address)
        self.state = site.root / self.name
        self.log = site.root / f"{self.name}.log"
        self._site = site
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "rota.cli.main", "agent", "--join", self._site.url]
        command += ["--name", self.name, "--state-dir", str(self.state)]
        env = {
            **os.environ,
            "ROTA_STATE_DIR": str(self.state),
            "ROTA_AGENT_CPUS": str(self._site.cpus),
            "ROTA_TOKEN": self._site.token,
        }
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                inside(self.space, command), env=env, stdout=log, stderr=log
            )

    def tell(self, number: signal.Signals) -> None:
        """Send its agent a signal; after a KILL it is gone for sure."""
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()
            self._process = None

    def weather(self, *, to_head: Weather = FAIR, from_head: Weather = FAIR) -> None:
        self._site.ether.set(self.address, HEAD, to_head)
        self._site.ether.set(HEAD, self.address, from_head)

    @property
    def runs(self) -> bool:
        return self._process is not None

    def keeper(self) -> psutil.Process | None:
        """The process that keeps the jobs, if there is one."""
        if not PidLock(self.state / "agent" / "keeper.lock").holder():
            return None
        try:
            note = json.loads((self.state / "agent" / "keeper.json").read_text())
            return psutil.Process(note["pid"])
        except (OSError, ValueError, psutil.NoSuchProcess):
            return None  # It is just starting, or ending.

    def freeze_keeper(self) -> Callable[[], None]:
        """It stands still, and its jobs do not; gives what lets it go on."""
        keeper = self.keeper()
        if keeper is None:
            return lambda: None
        with suppress(psutil.NoSuchProcess):
            keeper.suspend()

        def go_on() -> None:
            with suppress(psutil.NoSuchProcess):
                keeper.resume()

        return go_on

    def kill_keeper(self) -> None:
        """Without a word; its jobs live on."""
        keeper = self.keeper()
        if keeper is not None:
            with suppress(psutil.NoSuchProcess):
                keeper.kill()

    def stop(self) -> None:
        """The agent, its keeper and what they run: kept alive by nobody, it is all gone at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        keeper = self.keeper()
        if keeper is not None:
            # One that stands still dies all the same.
            for process in [*keeper.children(recursive=True), keeper]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


class Site:
    """A controller without an agent of its own, and nodes that join it with a token over TLS."""

    def __init__(
        self,
        root: Path,
        *,
        agents: int,
        cpus: int,
        lease_s: float,
        seed: int = 0,
        database: str = "",
    ) -> None:
        """``database``: where the state is kept; empty: SQLite in the controller's folder."""
        self.root = root
        self.cpus = cpus
        self.lease_s = lease_s
        self.ether = Ether(seed)
        self.nodes: list[Node] = []
        self.head = HeadBox(root / "head", self.ether.add(HEAD), lease_s, database)
        self.url = f"https://{HEAD}:{PORT}"
        self.token = ""
        try:
            self.nodes = [Node(self, number) for number in range(1, agents + 1)]
            self.ether.start()
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self.head.up("--no-agent")
        made = json.loads(self.head.rota(*JOIN).stdout)
        self.token = str(made["token"])
        for node in self.nodes:
            node.start()
        until(lambda: self.states() == ["up"] * len(self.nodes), "all nodes to be up")

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Until there is an answer: while the database is away there is none."""
        answers: list[tuple[int, Any]] = []

        def answered() -> bool:
            answers[:] = [self.head.api(method, path, body, headers)]
            return answers[0][0] != UNAVAILABLE

        until(answered, f"an answer to {method} {path}")
        assert answers[0][0] in (200, 201), answers
        return answers[0][1]

    def states(self) -> list[str]:
        return [str(node["state"]) for node in self.ask("GET", "/nodes")["items"]]

    def submit(self, jobs: Sequence[dict[str, Any]], key: str) -> list[int]:
        """Hand in a batch, again with the same key until it is acknowledged; the ids."""
        answer = self.ask("POST", "/jobs:batch", {"jobs": list(jobs)}, {"Idempotency-Key": key})
        return list(answer["ids"])

    def unfinished(self) -> list[int]:
        return [job["id"] for job in self.ask("GET", "/jobs?state=active&limit=1000")["items"]]

    def records(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.ask("GET", f"/jobs?state=all&limit=500&cursor={cursor}")
            found += page["items"]
            cursor = page["cursor"] or ""
            if not cursor:
                return found

    def logs(self) -> str:
        """What the controller, the agents and the keepers have logged."""
        files = [*self.root.glob("*.log"), *self.root.glob("*/*/*.log")]
        return "\n".join(file.read_text(errors="replace") for file in files)

    def close(self) -> None:
        for node in self.nodes:
            node.stop()
        self.head.down()
        self.ether.close()


def inside(space: str, command: list[str]) -> list[str]:
    """The same command in a network namespace."""
    return ["nsenter", f"--net=/run/netns/{space}", *command]
