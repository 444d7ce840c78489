"""Ways to a server: a unix socket, the network, an encrypted connection."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

from rota.client.errors import ClientError
from rota.heads import addresses_of

#: So long a machine may take to let a caller in, where there is another one to ask.
KNOCK_S = 0.5


class UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class KnockingConnection(HTTPConnection):
    """HTTP over the network. ``knock_s``: how long the other machine may take to let us in, which a
    busy server does at once; None: as long as the server may take for everything else.
    """

    knock_s: float | None = None

    def connect(self) -> None:
        patience_s = self.timeout if self.knock_s is None else self.knock_s
        self.sock = socket.create_connection((self.host, self.port), patience_s)
        self.sock.settimeout(self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def connection_to(
    address: str, timeout_s: float, fingerprint: str, knock_s: float | None = None
) -> tuple[HTTPConnection, str]:
    """A connection that is not open yet, and the prefix of every path behind it."""
    connection, prefix = _connection_to(address, timeout_s, fingerprint)
    if isinstance(connection, KnockingConnection):
        connection.knock_s = knock_s
    return connection, prefix


def _connection_to(address: str, timeout_s: float, fingerprint: str) -> tuple[HTTPConnection, str]:
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
    return KnockingConnection(host, parts.port, timeout=timeout_s), prefix


def check_url(url: str, field: str = "ROTA_URL") -> None:
    """Refuse what cannot be the address of a Rota, or those of its heads with commas in between.

    ``field`` is where it was given.
    """
    if len(urls := addresses_of(url)) > 1:
        for one in urls:
            check_url(one, field)
        return
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        parts = urlsplit("")
    path_only = parts.scheme == "unix" and parts.path
    if not path_only and not (parts.scheme in {"http", "https"} and parts.hostname):
        raise ClientError(
            f"{field}: {url!r} is not valid; "
            "expected https://HOST:PORT, http://HOST:PORT or unix:///PATH"
        )
