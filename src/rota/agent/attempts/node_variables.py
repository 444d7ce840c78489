"""What only the node can add to an attempt's environment: the way to the controller, free ports."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import msgspec

from rota.agent.attempts.health import HealthWatch
from rota.core.facts.endpoints import port_variable
from rota.rpc.messages import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.rpc.messages import Launch, Observed, Seen
    from rota.session.instructions import KnownAttempt

#: Below those that the kernel gives to connections, and above those where gangs meet.
FIRST_PORT, PORT_COUNT = 30_000, 2_700


class NoPort(Exception):
    """Every port is in use."""


class NodeVariables:
    """Kept for each attempt with named ports until nobody wants it any more."""

    def __init__(self, url: str = "", fingerprint: str = "") -> None:
        """Where the agent itself reaches the controller, and by which certificate it knows it."""
        self._url = url
        self._fingerprint = fingerprint
        self._ports: dict[str, dict[str, int]] = {}
        # Not the same for all: two agents on a machine, which belong to different clusters, look
        # for a port at the same time, and it is not taken before the job listens there.
        self._next = random.randrange(PORT_COUNT)
        #: Attempts that must answer at one of their ports.
        self.health = HealthWatch()

    def of(self, launch: Launch) -> dict[str, str]:
        """For one launch; the ports are its own from now on."""
        return {**self._way_home(launch), **self._named_ports(launch)}

    def _way_home(self, launch: Launch) -> dict[str, str]:
        """On the controller's own machine its socket is there, and better."""
        if not launch.token or not self._url or self._url.startswith("unix:"):
            return {}
        if "ROTA_TOKEN" in launch.environment:
            return {"ROTA_URL": self._url}
        mark = f".{self._fingerprint}" if self._fingerprint else ""
        return {"ROTA_URL": self._url, "ROTA_TOKEN": launch.token + mark}

    def _named_ports(self, launch: Launch) -> dict[str, str]:
        if not launch.ports:
            return {}
        known = self._ports.setdefault(launch.uid, {})
        for name in launch.ports:
            if name not in known:
                known[name] = self._free_port()
        if launch.health is not None:
            self.health.add(launch.uid, launch.health, known)
        return {port_variable(name): str(known[name]) for name in launch.ports}

    def _free_port(self) -> int:
        taken = {port for ports in self._ports.values() for port in ports.values()}
        for _ in range(PORT_COUNT):
            port = FIRST_PORT + self._next
            self._next = (self._next + 1) % PORT_COUNT
            if port not in taken and _is_free(port):
                return port
        raise NoPort(f"none of the ports {FIRST_PORT} to {FIRST_PORT + PORT_COUNT - 1} is free")

    def ports_of(self, uid: str) -> dict[str, int]:
        return self._ports.get(uid, {})

    def adopt(self, attempts: Iterable[KnownAttempt]) -> None:
        """After a restart of the agent the keeper knows who has which ports."""
        attempts = list(attempts)
        self.health.adopt(attempts)
        for known in attempts:
            if known.keep.ports:
                self._ports[known.uid] = known.keep.ports

    def forget(self, uid: str) -> None:
        self._ports.pop(uid, None)
        self.health.forget(uid)

    def told(self, message: Observed) -> Observed:
        """The same report; an attempt that runs is told of with its ports."""
        if not self._ports:
            return message
        attempts = tuple(self._with_ports(seen) for seen in message.attempts)
        return msgspec.structs.replace(message, attempts=attempts)

    def _with_ports(self, seen: Seen) -> Seen:
        ports = self._ports.get(seen.uid)
        if ports is None or seen.sighting is not Sighting.RUNNING:
            return seen
        return msgspec.structs.replace(seen, ports=ports)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
