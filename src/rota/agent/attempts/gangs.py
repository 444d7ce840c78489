"""What a gang finds on a node: a port to meet at, and a file that says who takes part.

The port was chosen by the controller, which knows of other gangs and of no other program here.
"""

from __future__ import annotations

import errno
import os
import socket
from signal import SIGURG
from typing import TYPE_CHECKING

from rota.agent.attempts.address import interfaces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.rpc.messages import Launch

#: The file lies beside the script of its attempt.
WORLD = ".world"
WORLD_FILE = "ROTA_WORLD_FILE"
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
#: Programs that do not expect it do not notice it.
RESIZED = SIGURG


class PortTaken(Exception):
    """Some program outside Rota listens where the gang was to meet."""


def prepare(scripts: str, launch: Launch) -> dict[str, str]:
    """See to the port and the file before the start; the variables that come of it."""
    if launch.meeting_port and not _is_free(launch.meeting_port):
        raise PortTaken(f"port {launch.meeting_port}, where its gang meets, is in use on this node")
    variables = _interface(launch.environment)
    if launch.world:
        path = f"{scripts}/{launch.uid}{WORLD}"
        if not os.path.exists(path):
            _write(path, launch.world)
        variables[WORLD_FILE] = path
    return variables


def _interface(environment: Mapping[str, str]) -> dict[str, str]:
    """Gloo takes the interface of the host name, which on many machines is loopback."""
    if environment.get("SLURM_NNODES", "1") == "1" or GLOO_INTERFACE in environment:
        return {}
    name = interfaces().get(environment.get("ROTA_NODE_ADDRESS", ""), "")
    return {GLOO_INTERFACE: name} if name else {}


def retell(scripts: str, uid: str, world: bytes) -> bool:
    """Bring the file up to date; whether that was news to its readers."""
    path = f"{scripts}/{uid}{WORLD}"
    try:
        with open(path, "rb") as file:
            if file.read() == world:
                return False
    except FileNotFoundError:
        pass
    _write(path, world)
    return True


def _write(path: str, body: bytes) -> None:
    """As a whole or not at all: somebody may be reading it."""
    fresh = path + ".new"
    with open(fresh, "wb") as file:
        file.write(body)
    os.chmod(fresh, 0o644)
    os.rename(fresh, path)


def _is_free(port: int) -> bool:
    """Whether nobody listens there; a connection that has just ended is no hindrance."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
