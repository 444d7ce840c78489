"""``rota forward``: ports here that lead to ports of a running job, wherever it runs."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rota.cli.jobs.follow import patiently, wait_for
from rota.cli.jobs.wires import NORMAL, open_wire
from rota.cli.shared import exits, session, types
from rota.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from websockets.sync.client import ClientConnection

    from rota.client.http import Client

_HELP = """Forward ports of this machine to ports of a running JOB.

\b
rota forward 12 8888              http://localhost:8888 is port 8888 of job 12
rota forward 12 9000:6006 8888    two ports at once; port 9000 here is 6006 there
rota forward 12 web               a port that the job has by name (--port web)
rota forward 12 0:8888            any free port here; it is printed

Every connection goes by way of the controller and the agent of the job's node, so that neither
must be reachable from here in another way. Goes on until Ctrl-C or the end of the job, and exits
with 0. For owners of the job and operators only.
"""

HALF_CLOSED = "end"
PIECE_BYTES = 32 * 1024
POLL_S = 30.0


class Way(NamedTuple):
    """A port here and a port of the job."""

    local: int
    remote: int


class Forward:
    """One listening port, and everybody who connects to it."""

    def __init__(self, client: Client, path: str, way: Way, host: str) -> None:
        self._client = client
        self._path = path
        self._way = way
        try:
            self._listener = socket.create_server((host, way.local), backlog=64)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise ClientError(f"cannot listen on {host}:{way.local}: {why}") from None
        self.port: int = self._listener.getsockname()[1]

    def start(self) -> None:
        threading.Thread(target=self._accept, name="rota-forward", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        """One connection; what keeps it from being is one line."""
        with near:
            try:
                wire = open_wire(self._client.twin(), f"{self._path}&port={self._way.remote}")
            except ClientError as error:
                session.warn(str(error))
                return
            threading.Thread(target=_hand_in, args=(near, wire), daemon=True).start()
            _hand_out(wire, near)
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)
            if wire.close_code not in (NORMAL, None):
                session.warn(wire.close_reason or "the connection to rota broke")

    def close(self) -> None:
        self._listener.close()


def _hand_in(near: socket.socket, wire: ClientConnection) -> None:
    """What the program here says, to its end."""
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed, OSError):
        try:
            while piece := near.recv(PIECE_BYTES):
                wire.send(piece)
        except ConnectionResetError:
            wire.close()
        wire.send(HALF_CLOSED)


def _hand_out(wire: ClientConnection, near: socket.socket) -> None:
    """What the job says, to the end of the connection."""
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed):
        try:
            for piece in wire:
                if isinstance(piece, bytes):
                    near.sendall(piece)
                else:
                    near.shutdown(socket.SHUT_WR)
        except OSError:
            wire.close()


def parse_way(text: str, names: dict[str, int]) -> Way:
    """``8888``, ``9000:8888``, ``web``, ``9000:web``."""
    local, colon, remote = text.rpartition(":")
    there = names.get(remote) or _port(remote, text, least=1)
    return Way(_port(local, text, least=0) if colon else there, there)


def _port(word: str, text: str, least: int) -> int:
    if not (word.isascii() and word.isdecimal() and least <= int(word[:6]) <= 65_535):
        raise ClientError(
            f"port: {text!r} is not valid; expected [LOCAL:]REMOTE with ports from 1 to 65535, or "
            "the name of a port of the job"
        )
    return int(word)


def _named_ports(client: Client, job: int, task: int) -> dict[str, int]:
    """The ports that the job has by name."""
    found = client.get("/endpoints", job=job)["items"]
    ports = {}
    for one in found:
        port = str(one["address"]).rpartition(":")[2]
        if one["task"] == task and port.isdecimal():
            ports[str(one["name"])] = int(port)
    return ports


def _node_of(client: Client, job: int, task: int) -> str:
    """Where the task runs."""
    shown: dict[str, Any] = client.get(f"/jobs/{job}")
    if shown["state"] != "running":
        raise ClientError(f"job {job} is {shown['state']}; only a running job can be entered")
    nodes = [str(one["node"]) for one in shown["attempts"] if one["task"] == task]
    if not nodes:
        raise ClientError(f"job {job} has no task {task}")
    return nodes[-1]


@click.command(help=_HELP)
@click.argument("job", type=types.JobRef())
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@click.option("--task", type=click.IntRange(0), default=0, help="Of this task.  [default: 0]")
@click.option(
    "--address", default="127.0.0.1", help="Where to listen.  [default: this machine only]"
)
def forward(job: str, ports: Sequence[str], task: int, address: str) -> int:
    client = session.connect()
    number = session.job_id(client, job)
    node = _node_of(client, number, task)
    words = any(not part.isdecimal() for text in ports for part in text.split(":"))
    names = _named_ports(client, number, task) if words else {}
    ways = [parse_way(text, names) for text in ports]
    path = f"/jobs/{number}/forward?task={task}"
    forwards = [Forward(client, path, way, address) for way in ways]
    for one, way in zip(forwards, ways, strict=True):
        one.start()
        click.echo(f"{address}:{one.port} -> port {way.remote} of job {number} on {node}")
    try:
        while patiently(client, lambda: wait_for(client, [number], POLL_S))["pending"]:
            continue
    except KeyboardInterrupt:
        return exits.OK
    session.warn(f"job {number} has ended")
    return exits.OK
