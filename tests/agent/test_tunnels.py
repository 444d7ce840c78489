"""Connections to ports of jobs: bytes both ways, half-closed ends, slow readers, closed ports."""

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable

from rota.agent.machine import listeners
from rota.agent.visits.tunnels import WINDOW_BYTES, Tunnels
from rota.rpc.visits import CloseTunnel, OpenTunnel, TunnelInput, TunnelOutput

WAIT_S = 60.0
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Far:
    """The controller's end: keeps what it hears, and waits for it."""

    def __init__(self, pid: int | None = None) -> None:
        """The job's first process is this one, unless told otherwise."""
        self.heard: list[TunnelOutput] = []
        self._news = asyncio.Event()
        self.tunnels = Tunnels(self._take, lambda uid: os.getpid() if pid is None else pid)

    def _take(self, message: TunnelOutput) -> None:
        self.heard.append(message)
        self._news.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    @property
    def body(self) -> bytes:
        return b"".join(message.body for message in self.heard)

    @property
    def over(self) -> TunnelOutput | None:
        return next((message for message in self.heard if message.over), None)


def with_port(talk: Talk, story: Callable[[Far, int], Awaitable[None]]) -> None:
    """Tell a story about a program that listens on a port."""

    async def tell() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        far = Far()
        await story(far, port)
        far.tunnels.close()
        server.close()

    asyncio.run(tell())


async def echo_at_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers when it has heard all: only a half-closed connection can carry that."""
    writer.write((await reader.read()).upper())
    await writer.drain()
    writer.close()


def test_bytes_travel_both_ways_and_a_half_closed_end_still_hears_the_answer():
    async def story(far: Far, port: int) -> None:
        far.tunnels.take(OpenTunnel(1, "u1", port))
        far.tunnels.take(TunnelInput(1, b"hel"))
        far.tunnels.take(TunnelInput(1, b"lo", end=True))
        await far.until(lambda: far.over)

        assert far.body == b"HELLO"
        assert [message.end for message in far.heard].count(True) == 1
        assert sum(message.taken for message in far.heard) == 5
        assert far.over is not None
        assert far.over.error == ""

    with_port(echo_at_end, story)


def test_a_port_that_sends_faster_than_it_is_read_is_held_up():
    total = 4 * 1024 * 1024

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * total)
        writer.close()

    async def story(far: Far, port: int) -> None:
        far.tunnels.take(OpenTunnel(1, "u1", port))
        await far.until(lambda: len(far.body) >= WINDOW_BYTES)
        unread = len(far.body)
        assert unread < 2 * WINDOW_BYTES
        told = 0
        while far.over is None and len(far.body) < total:
            before = len(far.body)
            far.tunnels.take(TunnelInput(1, taken=before - told))
            told = before
            await far.until(lambda before=before: len(far.body) > before or far.over)

        assert len(far.body) == total

    with_port(pour, story)


def test_a_port_that_reads_slowly_grants_no_more_room_until_it_has_read():
    may_read = asyncio.Event()
    got: list[int] = []

    async def sleepy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await may_read.wait()
        got.append(len(await reader.read()))
        writer.close()

    async def story(far: Far, port: int) -> None:
        far.tunnels.take(OpenTunnel(1, "u1", port))
        piece, pieces = b"y" * 65536, 256
        for _ in range(pieces):
            far.tunnels.take(TunnelInput(1, piece))
        await far.until(lambda: sum(m.taken for m in far.heard))
        assert sum(message.taken for message in far.heard) < pieces * len(piece)

        may_read.set()
        far.tunnels.take(TunnelInput(1, end=True))
        await far.until(lambda: far.over)

        assert got == [pieces * len(piece)]
        assert sum(message.taken for message in far.heard) == pieces * len(piece)

    with_port(sleepy, story)


def test_several_connections_to_one_port_do_not_mix():
    async def story(far: Far, port: int) -> None:
        for number in (1, 2, 3):
            far.tunnels.take(OpenTunnel(number, "u1", port))
            far.tunnels.take(TunnelInput(number, f"call {number}".encode(), end=True))
        await far.until(lambda: sum(message.over for message in far.heard) == 3)

        said = {m.request: m.body for m in far.heard if m.body}
        assert said == {1: b"CALL 1", 2: b"CALL 2", 3: b"CALL 3"}

    with_port(echo_at_end, story)


def test_one_who_leaves_ends_the_connection_to_the_port():
    ended = asyncio.Event()

    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    async def story(far: Far, port: int) -> None:
        far.tunnels.take(OpenTunnel(1, "u1", port))
        far.tunnels.take(TunnelInput(1, b"x"))
        await far.until(lambda: sum(message.taken for message in far.heard))
        far.tunnels.take(CloseTunnel(1))

        async with asyncio.timeout(WAIT_S):
            await ended.wait()
        assert far.over is None

    with_port(wait_for_end, story)


def test_a_closed_port_and_a_job_that_is_gone_are_one_clear_line():
    async def story() -> None:
        far, gone = Far(), Far(pid=0)
        with socket.socket() as silent:
            # Held, so that nobody else listens there; and nobody listens.
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            far.tunnels.take(OpenTunnel(1, "u1", port))
            gone.tunnels.take(OpenTunnel(1, "u1", port))
            await far.until(lambda: far.over)
            await gone.until(lambda: gone.over)

        assert far.over is not None
        assert far.over.error == f"nothing listens on port {port} of the job's node"
        assert gone.over is not None
        assert gone.over.error == "the job does not run on this node (any more)"

    asyncio.run(story())


def test_a_directory_of_users_that_does_not_answer_holds_up_the_asker_alone(monkeypatch):
    asked, answered = threading.Event(), threading.Event()
    in_time = []

    def name_of(uid: int) -> str:
        asked.set()
        in_time.append(answered.wait(WAIT_S / 2))
        return str(uid)

    async def story(_far: Far, port: int) -> None:
        # Of a job that is gone everybody is a stranger.
        far = Far(pid=1 << 30)
        far.tunnels.take(OpenTunnel(1, "u1", port))
        await asyncio.to_thread(asked.wait, WAIT_S)
        answered.set()
        await far.until(lambda: far.over)

        assert far.over is not None
        assert "is not the job's" in far.over.error

    monkeypatch.setattr(listeners, "_user_name", name_of)
    with_port(echo_at_end, story)

    assert in_time[0]
