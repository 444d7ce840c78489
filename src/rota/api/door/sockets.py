"""The sockets that a controller listens on, bound before anything else is done."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rota.core.facts.errors import RotaError

if TYPE_CHECKING:
    from pathlib import Path

#: Whoever connects while the state is being loaded waits here instead of being refused.
BACKLOG = 2048


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


def _make_folder(path: str) -> None:
    """Everybody may pass through the folder of a socket that everybody may use."""
    if not os.path.isdir(path):
        os.mkdir(path)
        os.chmod(path, 0o755)


def tcp_socket(host: str, port: int) -> socket.socket:
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
    except OSError as error:
        why = error.strerror or str(error)
        raise CannotStart(
            f"cannot listen on {host}:{port}: {why.lower()}; choose another with --listen"
        ) from None
    return sock


def port_before(folder: Path) -> int:
    """With port 0, a restart after a crash takes the port that people were told; else any."""
    try:
        port = urlsplit(json.loads((folder / "controller.json").read_text())["url"]).port or 0
        with socket.create_server(("", port)):
            return port
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def url_of(sock: socket.socket, scheme: str) -> str:
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
