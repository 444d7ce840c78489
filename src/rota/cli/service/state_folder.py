"""The state folder of this machine's Rota: who works in it, and what the controller says."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import msgspec

from rota import paths
from rota.cli.service.supervise import PidLock
from rota.client.errors import ClientError
from rota.client.http import Client
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from pathlib import Path


class StateFolder:
    """The state folder and the locks of the processes that work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.supervisor = PidLock(folder / "supervisor.lock")
        self.controller = PidLock(folder / "controller.lock")
        self.agent_folder = folder / "agent"

    @property
    def socket(self) -> str:
        return str(self.folder / paths.SOCKET_NAME)

    def client(self) -> Client:
        return Client([f"unix://{self.socket}"])

    def agent_pid(self) -> int:
        """The pid of the agent that runs here; 0 when none does."""
        if not PidLock(self.agent_folder / "agent.lock").holder():
            return 0
        return int(read_json(self.agent_folder / "agent.json").get("pid") or 0)

    def refusal(self) -> str:
        """Why the agent that runs here does not work for its controller; empty: it may."""
        facts = read_json(self.agent_folder / "agent.json")
        alive = os.path.exists(f"/proc/{facts.get('pid')}")
        return str(facts.get("refused") or "") if alive else ""

    def at_work(self, pid: int) -> bool:
        """Whether the agent with this pid has accepted its controller, as far as it could say."""
        facts = read_json(self.agent_folder / "agent.json")
        return facts.get("pid") != pid or bool(facts.get("at_work"))

    def status(self) -> dict[str, Any]:
        """What the controller says; empty when it does not answer."""
        if not os.path.exists(self.socket):
            return {}
        client = self.client()
        try:
            answer = client.call("GET", "/status", timeout_s=5.0)
        except ClientError:
            return {}
        finally:
            client.close()
        return answer if isinstance(answer, dict) else {}

    def dismiss_keeper(self) -> None:
        """The agent's keeper leaves when no job is left for it; else it stays with its jobs."""
        if self.agent_pid():
            return
        with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(2.0)
            sock.connect(str(self.agent_folder / "keeper.sock"))
            with sock.makefile("rwb") as lines:
                known = json.loads(lines.readline())["attempts"]
                if not any(attempt["phase"] == "running" for attempt in known):
                    lines.write(b'{"op":"exit"}\n')
                    lines.flush()
                    lines.read()


def refuse_anothers(folder: Path) -> None:
    """Root works in no folder that a user could exchange, and leaves no files of root's there.

    Such a one is the home that some programs keep when they become root.
    """
    if os.geteuid() != 0:
        return
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.stat().st_uid != 0:
        owner = _name_of(place)
        raise Rejected(
            f"{place} belongs to {owner}, and this is root: run it as {owner}, or name a folder of "
            f"root's own: --state-dir /var/lib/rota"
        )


def _name_of(place: Path) -> str:
    try:
        return place.owner()
    except KeyError:
        return f"user {place.stat().st_uid}"


def read_json(path: Path) -> dict[str, Any]:
    """What one of the processes has written down of itself; empty without it."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}
