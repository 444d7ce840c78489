"""Where the controller listens: unix sockets, and one port.

A port that nobody chose is only a wish: where it is taken, any free one does, and the person who
started Rota is told which, and who has the usual one.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import pwd
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rota.core.facts.errors import RotaError
from rota.pretended import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Callers that connect while the state is being loaded wait here instead of being refused.
BACKLOG = 2048
#: How long the program that has our port may take to say what it is.
ASK_S = 1.0
_LISTENS = "0A"
#: In the state folder: the free port that was found where nobody chose one.
PORT = "port"
ROTA, PRETENDED, OTHER = "a Rota", "a pretended Rota", "another program"


class CannotStart(RotaError):
    """One line for the person who started it."""


def unix_socket(path: str) -> socket.socket:
    """A fresh socket at a path. We hold the lock, so an old file there belongs to nobody."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mode = 0o666 if os.geteuid() == 0 else 0o600
    before = os.umask(0o777 & ~mode)
    try:
        _make_folder(os.path.dirname(path))
        sock.bind(path)
        sock.listen(BACKLOG)
    except OSError as error:
        # Only a path that is too long has no number of an error.
        hint = "" if error.strerror else "; choose a shorter state folder"
        raise CannotStart(f"cannot listen on {path}: {error.strerror or error}{hint}") from None
    finally:
        os.umask(before)
    return sock


def is_served(path: str) -> bool:
    """Whether a process listens on a unix socket. Another Rota's is left alone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        return sock.connect_ex(path) == 0


def _make_folder(path: str) -> None:
    """Everybody may pass through the folder of a socket that everybody may use."""
    if not os.path.isdir(path):
        os.mkdir(path)
        os.chmod(path, 0o755)


def tcp_socket(host: str, port: int, folder: Path, *, chosen: bool) -> socket.socket:
    """A socket at the port; with 0, and with one that nobody chose and that is taken, at any.

    The next start takes the port that people were told before, after a crash as well.
    """
    if not port or not chosen:
        port = _port_before(folder) or port
    if not port:
        return _any_port(host, folder)
    try:
        return _listen(host, port)
    except OSError as error:
        if chosen or error.errno != errno.EADDRINUSE:
            why = (error.strerror or str(error)).lower()
            raise CannotStart(
                f"cannot listen on {host}:{port}: {why}; choose another with --listen"
            ) from None
    return _any_port(host, folder)


def _any_port(host: str, folder: Path) -> socket.socket:
    """A free port, written down for the next start."""
    sock = _listen(host, 0)
    (folder / PORT).write_text(f"{sock.getsockname()[1]}\n")
    return sock


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotStart(f"cannot listen on {host}: {error.strerror or error}") from None
    sock = socket.socket(family, kind, proto)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _port_before(folder: Path) -> int:
    """The port of the record that a controller left behind when it was killed, else the free one
    that was found last; 0: there was none, or it is taken."""
    for find in (_recorded_port, _found_port):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            port = find(folder)
            with socket.create_server(("", port)):
                return port
    return 0


def _recorded_port(folder: Path) -> int:
    return urlsplit(json.loads((folder / "controller.json").read_text())["url"]).port or 0


def _found_port(folder: Path) -> int:
    return int((folder / PORT).read_text())


def url_of(sock: socket.socket, scheme: str) -> str:
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def neighbour(port: int, own: int, runs_jobs: bool = True) -> str:
    """Who has the port that we would have taken, in one line; empty: we have it.

    Two that both run jobs on this machine know nothing of each other's.
    """
    owner = next((uid for at, uid in _listening() if at == port), None)
    if own == port or owner is None:
        return ""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"user {owner}"
    kind = _kind_of(port)
    if kind == ROTA:
        twice = ": both hand out the same CPUs and GPUs" if runs_jobs else ""
        return f"{name} runs a Rota here too, on port {port}{twice}"
    return f"port {port} is taken by {kind} of {name}"


def _listening() -> Iterator[tuple[int, int]]:
    """The ports that processes of this machine listen on, and the user of each."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            for fields in (line.split() for line in list(file)[1:]):
                if fields[3] == _LISTENS:
                    yield int(fields[1].rpartition(":")[2], 16), int(fields[7])


def _kind_of(port: int) -> str:
    """What listens there: a Rota asks for a token in our words."""
    secure = ssl.create_default_context()
    secure.check_hostname, secure.verify_mode = False, ssl.CERT_NONE
    for line in (
        http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_S),
        http.client.HTTPSConnection("127.0.0.1", port, timeout=ASK_S, context=secure),
    ):
        trouble = (OSError, http.client.HTTPException, ValueError)
        with contextlib.suppress(*trouble), contextlib.closing(line):
            line.request("GET", "/api/v1/status")
            response = line.getresponse()
            answer = json.loads(response.read(65_536))
            if isinstance(answer, dict) and answer.get("code") == "unauthenticated":
                return PRETENDED if response.headers.get(HEADER) else ROTA
            return OTHER
    return OTHER
