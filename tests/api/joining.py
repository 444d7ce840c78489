"""Agents that join over the network, spoken by hand: what they show, and what they hear."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_network

from rota.core.facts.node import NodeSpec
from rota.node_keys import digest_of, new_key
from rota.rpc.messages import PROTOCOL, Hello, SessionRefused, Welcome, decode_to_agent, encode
from tests.api.running import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.rpc.messages import AgentMessage, ControllerMessage
    from tests.api.running import Running


class Joiner:
    """Wants to be a node: it has a name and a key of its own, and shows what it is told to."""

    def __init__(self, server: Running, name: str, key: str = "") -> None:
        self._server = server
        self.name = name
        self.key = key or new_key()
        self.socket: ClientConnection | None = None
        self._open = ExitStack()

    def dial(self, shown: str) -> ClientConnection:
        """Raises ``InvalidStatus`` when it is turned away at the door."""
        self.close()
        url = f"ws://127.0.0.1:{self._server.port}/api/v1/agent"
        headers = {"Authorization": f"Bearer {shown}"}
        self.socket = self._open.enter_context(connect_network(url, additional_headers=headers))
        return self.socket

    def joins(self, shown: str, **hello: Any) -> str:
        """Why it is not let in; empty: it is."""
        self.dial(shown)
        self.say_hello(**hello)
        answer = self.hears()
        if isinstance(answer, SessionRefused):
            self.close()
            return answer.reason
        assert isinstance(answer, Welcome), answer
        self.lease_s, self.session = answer.lease_s, answer.session
        return ""

    def say_hello(self, **changed: Any) -> None:
        assert self.socket is not None
        spec = NodeSpec(name=self.name, cpu_milli=1000, memory_mib=100)
        own = {"node": spec, "incarnation": f"i-{self.name}", "key": digest_of(self.key)}
        hello = Hello(PROTOCOL, boot_id="boot", version="test", **own | changed)
        self.socket.send(encode(hello))

    def says(self, message: Callable[[int], AgentMessage]) -> None:
        """Something in the session that it was let in for."""
        assert self.socket is not None
        self.socket.send(encode(message(self.session)))

    def hears(self) -> ControllerMessage:
        assert self.socket is not None
        body = self.socket.recv(timeout=WAIT_S)
        assert isinstance(body, bytes)
        return decode_to_agent(body)

    def hears_a(self, kind: type) -> Any:
        while not isinstance(message := self.hears(), kind):
            pass
        return message

    def close(self) -> None:
        self._open.close()
        self.socket = None


def join_token(server: Running, **asked: Any) -> dict[str, Any]:
    made = server.local().post("/tokens", {"access": "agent", **asked})
    assert made.status == 201, made.body
    return made.json
