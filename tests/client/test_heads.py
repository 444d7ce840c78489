"""A client that knows several heads finds the one that leads, whatever becomes of the first."""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from rota.client.aio.line import AsyncLine
from rota.client.http import ANSWER_TIMEOUT_S, Client

ANSWER = (
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
    b'Connection: close\r\n\r\n{"id": 7}'
)
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Head:
    """Answers as one that leads; ``resets`` hangs up on callers, ``silent`` says nothing."""

    def __init__(self, how: str = "leads") -> None:
        self._how, self._callers = how, list[socket.socket]()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._door.accept()
            except OSError:
                return
            self._callers.append(caller)
            said = caller.recv(65536)
            if self._how == "leads":
                caller.sendall(HEALTHY if b"/healthz" in said else ANSWER)
                caller.close()
            elif self._how == "resets":
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                caller.close()

    def close(self) -> None:
        self._door.close()
        for caller in self._callers:
            caller.close()


@pytest.fixture(params=["resets", "silent"])
def heads(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    made = [Head(request.param), Head()]
    yield [head.url for head in made]
    for head in made:
        head.close()


@pytest.mark.timeout(ANSWER_TIMEOUT_S / 2)
def test_a_call_under_a_key_is_repeated_at_the_head_that_leads(heads: list[str]) -> None:
    client = Client(heads, "token")

    assert client.post("/jobs", {}, key="key") == {"id": 7}
    client.close()


@pytest.mark.timeout(ANSWER_TIMEOUT_S / 2)
def test_so_it_is_without_threads(heads: list[str]) -> None:
    async def call() -> object:
        line = AsyncLine(Client(heads, "token"))
        try:
            return await line.call("POST", "/jobs", {}, key="key")
        finally:
            await line.close()

    assert asyncio.run(call()) == {"id": 7}
