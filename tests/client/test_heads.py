"""A client that knows several heads finds the one that leads, whatever becomes of the first."""

import asyncio
import io
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from websockets.asyncio.server import ServerConnection, serve

from rota.client.aio.line import AsyncLine
from rota.client.errors import NobodyThere
from rota.client.http import ANSWER_TIMEOUT_S, HEAD_CONNECT_S, Client
from rota.session import wire

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


class Gone:
    """An address at which nobody even refuses, as where a machine was switched off."""

    def __init__(self) -> None:
        self._door = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port = self._door.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._queue = [socket.socket() for _ in range(4)]
        for waiting in self._queue:
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", self.port))

    def close(self) -> None:
        for sock in (*self._queue, self._door):
            sock.close()


@pytest.fixture
def gone() -> Iterator[Gone]:
    made = Gone()
    with pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", made.port), 0.2)
    yield made
    made.close()


def test_a_machine_that_is_gone_does_not_hold_a_call_up(gone: Gone) -> None:
    other = Head()
    client = Client([gone.url, other.url], "token")

    began_s = time.monotonic()
    # Without a key: nothing was sent to anybody else.
    assert client.post("/jobs", {}) == {"id": 7}

    assert time.monotonic() - began_s < HEAD_CONNECT_S / 2
    client.close()
    other.close()


def test_where_all_machines_are_gone_the_line_names_them(gone: Gone) -> None:
    with pytest.raises(
        NobodyThere, match=f"nothing answers at {gone.url}, {gone.url}/2: timed out"
    ):
        Client([gone.url, f"{gone.url}/2"], "token").upload("/x", io.BytesIO(), 0)


@pytest.mark.timeout(wire.OPEN_TIMEOUT_S)
def test_an_agent_waits_for_no_machine_that_is_gone(gone: Gone) -> None:
    refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"

    async def dial() -> None:
        accepted = asyncio.Event()

        async def stands_by(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(refusal)
            writer.close()

        async def leads(link: ServerConnection) -> None:
            accepted.set()
            await link.wait_closed()

        standby = await asyncio.start_server(stands_by, "127.0.0.1", 0)
        async with standby, serve(leads, "127.0.0.1", 0) as leader:
            ports = [gone.port, *(s.sockets[0].getsockname()[1] for s in (standby, leader))]
            urls = ",".join(f"http://127.0.0.1:{port}" for port in ports)
            link = await wire.dial(urls, "token", lambda _: None)
            await accepted.wait()
            link.close()

    asyncio.run(dial())


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
