"""Ways to a server: a unix socket, the network, an encrypted connection."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

from rota.client.errors import ClientError


class UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connection_to(address: str, timeout_s: float, fingerprint: str) -> tuple[HTTPConnection, str]:
    """A connection that is not open yet, and the prefix of every path behind it."""
    parts = urlsplit(address)
    if parts.scheme == "unix":
        return UnixConnection(parts.path, timeout_s), ""
    host, prefix = parts.hostname or "", parts.path.rstrip("/")
    if parts.scheme == "https":
        from rota.client.wire.pinned import PinnedConnection

        return PinnedConnection(host, parts.port, timeout_s, fingerprint), prefix
    if fingerprint:
        raise ClientError(
            f"the token names a certificate and {address} is not encrypted: use https://"
        )
    return HTTPConnection(host, parts.port, timeout=timeout_s), prefix
