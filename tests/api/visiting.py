"""People who go into jobs over the API, and an agent that keeps what it hears of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Running

if TYPE_CHECKING:
    from collections.abc import Iterator


class VisitedAgent(PretendedAgent):
    """An agent that keeps the messages of some kinds instead of answering them."""

    def __init__(self, socket_path: str, *kinds: type) -> None:
        self.heard: list[Any] = []
        self._kinds = kinds
        super().__init__(socket_path)

    def _take(self, message: object) -> None:
        if isinstance(message, self._kinds):
            with self._changed:
                self.heard.append(message)
                self._changed.notify_all()
            return
        super()._take(message)

    def wait(self, count: int) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= count, WAIT_S), self.heard
            return self.heard[:count]


@contextmanager
def visit(server: Running, path: str, token: str) -> Iterator[ClientConnection]:
    """A WebSocket below the jobs, as in ``12/attach``."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"ws://127.0.0.1:{server.port}/api/v1/jobs/{path}"
    with connect(url, additional_headers=headers, compression=None, proxy=None) as wire:
        yield wire


def end_of(wire: ClientConnection) -> tuple[int, str]:
    """The code and the reason with which the server hangs up."""
    with pytest.raises(ConnectionClosed):
        wire.recv(WAIT_S)
    return wire.close_code or 0, wire.close_reason or ""


def revoke(server: Running, token: str) -> None:
    """An admin makes a token invalid."""
    assert server.local().delete(f"/tokens/{token.split('_')[1]}").status == 204


def token_of(server: Running, user: str, access: str = "user") -> str:
    return str(server.as_user(user, access).token)
