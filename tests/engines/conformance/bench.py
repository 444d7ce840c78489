"""A controller, and a backend behind it, with five verbs: the same for own agents and for engines.

``submit`` and ``until`` go through the product's own API. ``fault`` makes trouble for as long as a
test is in it, ``look_inside`` asks the engine itself, and ``restart`` kills a part and has it back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tests.engines.conformance.proxy import SessionProxy
from tests.journeys.box import FINAL, Box, until
from tests.support.ports import quiet_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from tests.engines.conformance.scenarios import Need

#: A token with which any number of nodes may join.
JOIN = ("token", "create", "--join", "--uses", "0", "--json")
#: Jobs that say so give way at once.
RULES = ("preempt.mode=checkpoint", "preempt.min_runtime_s=0", "preempt.grace_s=4")
#: A node that is silent for so long is given up, where a backend has leases.
LEASE_S = 20
#: Long enough for an engine on a busy machine.
PATIENCE_S = 90.0
#: Appends its attempt to a file, whole lines only, however many do so at once.
MARK = 'echo "$ROTA_ATTEMPT_UID" >>marks'


class Inside(NamedTuple):
    """A job as the engine itself shows it."""

    id: str
    #: ``waiting``, ``running`` or ``ended``.
    phase: str
    node: str = ""


class Sizes(NamedTuple):
    """How many jobs the scenarios with many of them have on a backend."""

    crowd: int = 50
    array: int = 200
    cap: int = 10


class Bench(ABC):
    """One backend. ``root`` may be entered by every user, and its name is short."""

    name: ClassVar[str]
    sizes: ClassVar[Sizes] = Sizes()
    #: The engine's own server may lose what it has acknowledged, when it is killed.
    forgets: ClassVar[bool] = False
    #: A node may remove what Rota stops before it has told how that ended.
    drops_codes: ClassVar[bool] = False
    #: What each of its machines has.
    cpus: ClassVar[int] = 4
    #: Somebody else than the one who runs the tests, known to the backend.
    other_user: ClassVar[str] = "nobody"
    #: What stands behind a node's own name in Rota.
    suffix: ClassVar[str] = ""
    #: The names of its nodes inside the engine.
    machines: tuple[str, ...]

    def __init__(self, root: Path) -> None:
        self.root = root
        self.box = Box(root / "box")
        self.box.work.chmod(0o777)
        port = quiet_port()
        self.box.env |= {
            "ROTA_SERVER_LISTEN": f"127.0.0.1:{port}",
            "ROTA_SERVER_LEASE_S": str(LEASE_S),
            # What must not reach any job.
            "CONFORMANCE_LEAK": "leaked",
        }
        self.session = SessionProxy("127.0.0.1", port)
        self._joined: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        self.box.up("--no-agent")
        self._token = str(json.loads(self.box.rota(*JOIN).stdout)["token"])
        self.box.rota("policy", "set", "preemptive", *RULES)
        self.url = f"http://127.0.0.1:{self.session.begin()}"
        self.begin()

    def close(self) -> None:
        self.box.down("--stop-jobs")
        self.end_parts()
        self.session.close()

    @property
    @abstractmethod
    def has(self) -> frozenset[Need]:
        """What it declares."""

    def at(self, work: Path) -> None:
        """From now on jobs run in this folder."""
        work.mkdir(parents=True, exist_ok=True)
        work.chmod(0o777)
        self.box = self.box.at(work)

    # The five verbs.

    def submit(self, command: list[str] | str | None = None, **fields: Any) -> int:
        return self.box.job(command, **self.wishes(fields))

    def submit_many(self, commands: Iterable[list[str] | str], **fields: Any) -> list[int]:
        """All in one request."""
        common = {"workdir": str(self.box.work), **self.wishes(fields)}
        jobs = [{"command": command, **common} for command in commands]
        status, answer = self.box.api("POST", "/jobs:batch", {"jobs": jobs})
        assert status == 201, answer
        return list(answer["ids"])

    def until(self, job: int, *states: str) -> dict[str, Any]:
        """The record of the job once it is in one of the states; without any: once it has ended."""
        return self.box.reach(job, *(states or FINAL))

    @abstractmethod
    def fault(self, name: str, target: str = "") -> AbstractContextManager[None]:
        """Make trouble within a ``with``: that of the proxies, and

        ========== ================================================================
        away       the engine does not answer at all
        closed     the engine takes jobs and starts none
        full       a quota of the engine lets nothing more in
        unserved   the engine's agent, or all of ours, are dead
        lost       a machine is gone, with all that ran on it
        cut        a machine is not heard, and what runs there goes on
        drained    an operator of the engine has taken a machine out of service
        preempting somebody else's job there goes before all of ours
        cancelled  somebody in the engine cancels this job, by the engine's id
        requeued   ... starts it over
        held       ... keeps it from starting
        renamed    ... its number belongs to another job now
        purged     the engine has forgotten this job, which has ended
        stranger   a job of somebody else's that carries this key is there
        ========== ================================================================
        """

    @abstractmethod
    def look_inside(self, uid: str) -> list[Inside]:
        """What the engine has of this attempt, or under the whole key of a stranger."""

    @abstractmethod
    def restart(self, part: str) -> None:
        """Kill ``controller``, ``agent``, ``engine`` or ``journal``, and have it back."""

    # What the verbs are made of.

    @abstractmethod
    def begin(self) -> None:
        """Start what joins the controller, and wait for its nodes."""

    def wishes(self, fields: dict[str, Any]) -> dict[str, Any]:
        """What jobs on this backend ask for beside what the test wants."""
        return {"resources": {"cpus": 1}, "grace_s": 5, **fields}

    def join(self, name: str, *words: str, **env: str) -> None:
        """Start a part that joins the controller; its log is NAME.log."""
        with open(self.root / f"{name}.log", "ab") as log:
            self._joined[name] = subprocess.Popen(
                [sys.executable, "-m", "rota.cli.main", *words],
                env={
                    **self.box.env,
                    **env,
                    "ROTA_STATE_DIR": str(self.root / name),
                    "ROTA_TOKEN": self._token,
                },
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def signal(self, name: str, number: int) -> None:
        self._joined[name].send_signal(number)

    def kill(self, name: str) -> None:
        """``kill -9``, no warning."""
        self.signal(name, signal.SIGKILL)
        self._joined[name].wait()

    def end_parts(self) -> None:
        for part in self._joined.values():
            if part.poll() is None:
                part.send_signal(signal.SIGCONT)
                part.terminate()
                part.wait(30)

    @property
    def cluster(self) -> str:
        """What stands in every key of this Rota."""
        return "c0"

    def ours(self, machine: str) -> str:
        """Rota's name of a machine."""
        return f"{machine}{self.suffix}"

    def until_up(self) -> None:
        names = set(map(self.ours, self.machines))
        until(lambda: names <= self.usable(), "all nodes in service", PATIENCE_S)

    def usable(self) -> set[str]:
        items = self.box.api("GET", "/nodes")[1]["items"]
        return {node["name"] for node in items if node["state"] == "up" and not node["taints"]}

    def log_of(self, job: int, task: int) -> str:
        """What one member of a gang printed."""
        return str(self.box.api("GET", f"/jobs/{job}/logs?task={task}")[1])

    def uid(self, job: int) -> str:
        """The key of its last attempt, once it has one."""

        def last() -> str:
            attempts = self.box.api("GET", f"/jobs/{job}")[1]["attempts"]
            return attempts[-1]["uid"] if attempts else ""

        return str(until(last, f"an attempt of job {job}"))

    def began(self, job: int) -> str:
        """Its key, once its process is there and Rota knows it."""
        self.until(job, "running")
        uid = self.uid(job)
        until(lambda: processes(uid), f"a process of {uid}")
        return uid

    def marks(self) -> list[str]:
        """The attempts that really ran, each as often as it did."""
        return self.box.read("marks").split()

    def cancel(self, *jobs: int) -> None:
        status, answer = self.box.api("POST", "/jobs:cancel", {"ids": list(jobs)})
        assert status == 200, answer

    def tend(self) -> None:  # noqa: B027 - most have nothing to do
        """What the engine's operator does while others wait."""

    def tidy(self) -> None:
        """End what a test has left, and wait until nothing of it is alive."""
        self.session.set("")
        self.box.api("POST", "/jobs:cancel", {"all": True})
        until(
            lambda: not self.box.api("GET", "/jobs?state=active&limit=1")[1]["items"],
            f"{self.name} to be idle again",
            PATIENCE_S,
        )

    @contextmanager
    def session_fault(self, name: str) -> Iterator[None]:
        if name == "away":
            self.session.end()
        else:
            self.session.set(name)
        try:
            yield
        finally:
            if name == "away":
                self.session.begin()
            else:
                self.session.set("")


def processes(uid: str) -> list[int]:
    """Those on this machine that carry the key of an attempt."""
    mark, found = f"ROTA_ATTEMPT_UID={uid}\0".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark in (entry / "environ").read_bytes() + b"\0":
                    found.append(int(entry.name))
            except OSError:
                continue
    return [pid for pid in found if pid != os.getpid()]
