"""WebSockets from a command to the server, at the first address that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rota.client.errors import Unreachable
from rota.client.http import API

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from rota.client.http import Client

#: How a visit to a job ends: as it should, because it is not allowed, because not now.
NORMAL, POLICY_VIOLATION, TRY_LATER = 1000, 1008, 1013


def open_wire(client: Client, path: str) -> ClientConnection:
    """The WebSocket at a path below ``/api/v1``; the caller closes it."""
    from urllib.parse import urlsplit

    from websockets.exceptions import InvalidHandshake
    from websockets.sync.client import connect, unix_connect

    headers = {"Authorization": f"Bearer {client.token}"} if client.token else {}
    settings: dict[str, Any] = {"additional_headers": headers, "compression": None}
    problem = "no address"
    for address in client.addresses:
        parts = urlsplit(address)
        try:
            if parts.scheme == "unix":
                wire = unix_connect(parts.path, f"ws://rota{API}{path}", max_size=None, **settings)
                return cast("ClientConnection", wire.__enter__())
            base = f"ws://{parts.netloc}{parts.path.rstrip('/')}{API}"
            if parts.scheme == "https":
                # The token goes out with the first words: the certificate is looked at before.
                settings["sock"] = client.secure_socket(parts.hostname or "", parts.port)
            wire = connect(base + path, max_size=None, proxy=None, **settings)
            return cast("ClientConnection", wire.__enter__())
        except (OSError, InvalidHandshake) as error:
            problem = f"{address}: {getattr(error, 'strerror', None) or error}"
    raise Unreachable(f"cannot reach Rota at {problem}; start it with 'rota up --detach'")
