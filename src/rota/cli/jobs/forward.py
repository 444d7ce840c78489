"""``rota forward``: ports here that lead to ports of a running job, wherever it runs."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rota.cli.jobs.follow import patiently, wait_for
from rota.cli.jobs.wires import NORMAL, POLICY_VIOLATION, open_wire
from rota.cli.shared import exits, session, types
from rota.client.errors import ClientError
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from websockets.sync.client import ClientConnection

    from rota.client.http import Client

_HELP = """Forward ports of this machine to ports of a running JOB.

\b
rota forward 12 8888              http://localhost:8888 is port 8888 of job 12
rota forward 12 9000:6006 8888    two ports at once; port 9000 here is 6006 there
rota forward 12 web               a port that the job has by name (--port web)
rota forward 12 0:8888            any free port here; it is printed
rota forward 12 8888 --wait       first wait until the job runs and listens there

Every connection goes by way of the controller and the agent of the job's node (or the engine), so
that neither must be reachable from here in another way. Goes on until Ctrl-C or the end of the
job, and exits with 0. For owners of the job and operators only.
"""

HALF_CLOSED = "end"
PIECE_BYTES = 32 * 1024
POLL_S = 30.0
#: A port at which nothing listens is told of sooner than this, by an engine later.
PROBE_S, ENGINE_PROBE_S = 0.3, 3.0
LOOK_S = 0.3


class PortPair(NamedTuple):
    """A port here and a port of the job."""

    local: int
    remote: int


class Forward:
    """One listening port, and everybody who connects to it."""

    def __init__(self, client: Client, path: str, way: PortPair, host: str) -> None:
        self._client = client
        self._path = path
        self._way = way
        try:
            self._listener = socket.create_server((host, way.local), backlog=64)
        except OSError as error:
            raise ClientError(_not_here(error, way, host)) from None
        self.port: int = self._listener.getsockname()[1]
        #: What is forwarded must not arrive here again.
        self.inode = os.fstat(self._listener.fileno()).st_ino

    def own(self, inodes: str) -> None:
        """The sockets of this command: what arrives at one of them would go round for ever."""
        self._path += f"&boot={_boot_id()}&own={inodes}"

    def start(self) -> None:
        threading.Thread(target=self._accept, name="rota-forward", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def listens(self, probe_s: float) -> bool:
        """Whether the job takes connections on its port."""
        from websockets.exceptions import ConnectionClosed

        wire = self._dial()
        try:
            # A port that is not there ends the connection at once.
            wire.recv(timeout=probe_s)
        except TimeoutError:
            return True
        except ConnectionClosed:
            if wire.close_code == POLICY_VIOLATION:
                raise ClientError(wire.close_reason or "not allowed") from None
            return wire.close_code == NORMAL
        finally:
            wire.close()
        return True

    def _dial(self) -> ClientConnection:
        return open_wire(self._client.twin(), f"{self._path}&port={self._way.remote}")

    def _serve(self, near: socket.socket) -> None:
        """One connection; what keeps it from being is one line."""
        with near:
            try:
                wire = self._dial()
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


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _not_here(error: OSError, way: PortPair, host: str) -> str:
    why = os.strerror(error.errno).lower() if error.errno else str(error)
    hint = ""
    if error.errno == errno.EADDRINUSE:
        hint = (
            f"; if the job is on this machine, open http://{host}:{way.local} itself, else choose "
            f"another port here: {way.local + 1}:{way.remote}"
        )
    return f"cannot listen on {host}:{way.local}: {why}{hint}"


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


def parse_way(text: str, names: dict[str, int]) -> PortPair:
    """``8888``, ``9000:8888``, ``web``, ``9000:web``."""
    local, colon, remote = text.rpartition(":")
    there = names.get(remote) or _port(remote, text, least=1)
    return PortPair(_port(local, text, least=0) if colon else there, there)


def _port(word: str, text: str, least: int) -> int:
    if not (is_digits(word) and least <= int(word[:6]) <= 65_535):
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
        if one["task"] == task and is_digits(port):
            ports[str(one["name"])] = int(port)
    return ports


def _place_of(client: Client, job: int, task: int) -> tuple[str, float]:
    """Where the task runs, and how soon a port is told of there."""
    shown: dict[str, Any] = client.get(f"/jobs/{job}")
    if shown["state"] != "running":
        raise ClientError(_no_ports(job, shown))
    found = [one for one in shown["attempts"] if one["task"] == task]
    if not found:
        raise ClientError(f"job {job} has no task {task}")
    return str(found[-1]["node"]), ENGINE_PROBE_S if found[-1].get("external_id") else PROBE_S


def _no_ports(job: int, shown: dict[str, Any]) -> str:
    if shown.get("ended_at"):
        return f"job {job} has ended ({shown['state']}), and its ports with it"
    return f"job {job} is {shown['state']} and has no ports yet; --wait waits until it listens"


@click.command(help=_HELP)
@click.argument("job", type=types.JobRefType())
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@click.option("--task", type=types.Number(0), default=0, help="Of this task.  [default: 0]")
@click.option(
    "--address", default="127.0.0.1", help="Where to listen.  [default: this machine only]"
)
@click.option("--wait", "waits", is_flag=True, help="Wait until the job runs and listens.")
def forward(job: str, ports: Sequence[str], task: int, address: str, waits: bool) -> int:
    client = session.connect()
    number = session.job_id(client, job)
    if waits:
        _until_running(client, number)
    node, probe_s = _place_of(client, number, task)
    words = any(not is_digits(part) for text in ports for part in text.split(":"))
    names = _named_ports(client, number, task) if words else {}
    ways = [parse_way(text, names) for text in ports]
    forwards = [Forward(client, f"/jobs/{number}/forward?task={task}", w, address) for w in ways]
    own = ",".join(str(one.inode) for one in forwards)
    for one, way in zip(forwards, ways, strict=True):
        one.own(own)
        _until_listening(client, partial(one.listens, probe_s), way, number, waits)
        one.start()
        click.echo(f"{address}:{one.port} -> port {way.remote} of job {number} on {node}")
    try:
        while patiently(client, lambda: wait_for(client, [number], POLL_S))["pending"]:
            continue
    except KeyboardInterrupt:
        return exits.OK
    session.warn(f"job {number} has ended")
    return exits.OK


def _until_running(client: Client, job: int) -> None:
    said = False
    while True:
        shown = patiently(client, lambda: client.get(f"/jobs/{job}"))
        if shown["state"] == "running" or shown.get("ended_at"):
            return
        if not said:
            session.warn(f"job {job} is {shown['state']}; waiting for its start")
            said = True
        time.sleep(LOOK_S)


def _until_listening(
    client: Client, listens: Callable[[], bool], way: PortPair, job: int, waits: bool
) -> None:
    """Say that nothing listens yet; wait for it if that was asked for."""
    if listens():
        return
    more = "waiting for it" if waits else "connections are refused until something does (--wait)"
    session.warn(f"nothing listens on port {way.remote} of job {job} yet; {more}")
    while waits and not listens():
        if wait_for(client, [job], LOOK_S)["done"]:
            raise ClientError(f"job {job} has ended, and never listened on port {way.remote}")
