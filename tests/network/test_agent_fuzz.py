"""The agent's end of the wire, against a controller that does not keep to the protocol."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, unix_serve

from rota.controller.agents.report_checks import doubt as doubt_agent
from rota.rpc.frames import bodies_of
from rota.rpc.messages import (
    PROTOCOL,
    BeatSeen,
    ControllerMessage,
    Desired,
    Hello,
    Launch,
    Wanted,
    Welcome,
    decode_from_agent,
    decode_to_agent,
    encode,
)
from rota.rpc.visits import (
    CloseTerminal,
    OpenTerminal,
    OpenTunnel,
    ReadLog,
    SearchLog,
    TerminalInput,
    TunnelInput,
)
from rota.session.order_checks import doubt
from tests.agent.support import Keeper, folder
from tests.network.traffic import HEAD_END, Recording, Vandal, frame_of

CASES = int(os.environ.get("ROTA_FUZZ_CASES", "60"))
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: How long a case waits for the agent to end it.
PATIENCE_S = 0.03
#: Of the recording. An agent that meets another one, or is refused, waits for long before it comes
#: back; that is tried elsewhere.
CLUSTER = "memory"
#: Whatever chance brings: one that can be read and cannot be meant, and one that cannot be read.
ALWAYS = (encode(Welcome(1, CLUSTER, -1.0, 10.0, PROTOCOL)), b"\xc1")
LAUNCH = Launch("other", 1, "root", ("true",), "/", {})


def others(session: int, greeting: int) -> list[bytes]:
    """What the recorded controller had no occasion to say."""
    return [
        encode(message)
        for message in (
            BeatSeen(session, 1),
            OpenTerminal(1, "u.0.1"),
            TerminalInput(1, b"text", 10, 10, 5),
            CloseTerminal(1),
            OpenTunnel(2, "u.0.1", 80),
            TunnelInput(2, b"text"),
            ReadLog(3, "u.0.1", "stdout", 0, 100),
            SearchLog(4, "u.0.1", "stdout", "word"),
            Welcome(session, CLUSTER, 60.0, 10.0, PROTOCOL, answers=greeting),
        )
    ]


class HostileController:
    """Each connection of the agent is one case; afterwards it hangs up."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.cases = 0
        self.done = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(HEAD_END)
            key = head.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
            accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + accept + HEAD_END
            )
            await self._tell(reader, writer)
        except OSError:
            pass  # The agent had enough.
        finally:
            writer.close()
            self.cases += 1
            if self.cases >= CASES:
                self.done.set()

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        vandal = Vandal(self.cases)
        session, greeting = self.cases + 1, await _greeting_of(reader)
        told = [_of_session(body, session, greeting) for body in self._recording.to_agent]
        told = [*told, *others(session, greeting)]
        if self.cases < len(ALWAYS):
            writer.write(frame_of(ALWAYS[self.cases], masked=False))
        for _ in range(vandal.chance.randrange(1, 3)):
            told = vandal.session(told)
        writer.write(vandal.frames([body for body in told if b"refused" not in body], masked=False))
        await writer.drain()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await reader.read(1 << 16):
                    pass
        except TimeoutError:
            return


async def _greeting_of(reader: asyncio.StreamReader) -> int:
    """By which number the agent knows that its hello was answered."""
    data, bodies = b"", None
    while not bodies:
        if not (more := await reader.read(1 << 16)):
            raise ConnectionResetError
        data += more
        bodies = bodies_of(data, masked=True, most=len(data))
    hello = decode_from_agent(bodies[0])
    assert isinstance(hello, Hello)
    return hello.greeting


def _of_session(body: bytes, session: int, greeting: int) -> bytes:
    """A recorded message as one of this session, with attempts of its own."""
    text = msgspec.json.encode(msgspec.msgpack.decode(body)).decode()
    said = msgspec.json.decode(text.replace(".0.1", f".0.{session}"))
    if "session" in said:
        said["session"] = session
    if "answers" in said:
        said["answers"] = greeting
    return msgspec.msgpack.encode(said)


async def _play(recording: Recording, state: Path) -> str:
    """Let an agent go through all cases; what it wrote to its log."""
    hostile = HostileController(recording)
    async with await asyncio.start_unix_server(hostile.serve, str(state / "rota.sock")):
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rota.agent", "--state-dir", str(state)),
            *("--url", f"unix://{state}/rota.sock"),
            stderr=asyncio.subprocess.PIPE,
        )
        listening = asyncio.create_task(agent.communicate())
        done = asyncio.create_task(hostile.done.wait())
        await asyncio.wait({listening, done}, return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            agent.send_signal(signal.SIGTERM)
        _, log = await listening
    assert hostile.done.is_set(), f"the agent died after {hostile.cases} cases:\n{log.decode()}"
    return log.decode()


def test_an_agent_survives_whatever_a_controller_says_and_dials_again(recording: Recording) -> None:
    with tempfile.TemporaryDirectory(prefix="rota-fuzz-") as name:
        try:
            log = asyncio.run(_play(recording, Path(name)))
        finally:
            Keeper(Path(name) / "agent").clean_up()

    assert "Traceback" not in log
    assert "Fatal error" not in log
    assert "message from the controller cannot be read" in log
    assert "the controller cannot mean what it says" in log


async def _log_of_first_session(welcome: Welcome) -> str:
    """What an agent has to say about a controller that greets it like this."""
    over = asyncio.Event()

    async def serve(link: ServerConnection) -> None:
        await link.recv()
        await link.send(encode(welcome))
        await link.wait_closed()
        over.set()

    with folder() as state:
        async with unix_serve(serve, str(state / "rota.sock"), compression=None):
            agent = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "rota.agent", "--state-dir", str(state)),
                *("--url", f"unix://{state}/rota.sock"),
                stderr=asyncio.subprocess.PIPE,
            )
            assert agent.stderr is not None
            async with asyncio.timeout(60):
                await over.wait()
                line = await agent.stderr.readline()
            agent.send_signal(signal.SIGTERM)
            await agent.communicate()
        Keeper(state / "agent").clean_up()
    return line.decode()


def test_an_agent_refuses_a_controller_of_another_version_in_one_line() -> None:
    line = asyncio.run(_log_of_first_session(Welcome(1, "home", protocol=99)))

    words = f"this agent speaks protocol {PROTOCOL}, the controller 99"
    assert f"not connected to the controller: {words}" in line


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Welcome(1, "c", 60.0, 0.0), "beat_s: 0.0 is not valid; seconds from 0.001"),
        (Welcome(1, "c", float("nan"), 1.0), "lease_s: nan is not valid; seconds from 0"),
        (Desired(1, 1, (Wanted("a\n"),)), "uid: 'a\\n' is not valid; 1 to 255 printable"),
        (Desired(1, 1, (Wanted("u", grace_s=float("inf")),)), "grace_s: inf is not valid"),
        (Desired(1, 1, (Wanted("u", LAUNCH),)), "launch.uid: 'other' is not valid; u, as outside"),
        (ReadLog(1, "u", "stdout", 0, 1, path="/\0"), "path: '/\\x00' is not valid"),
        (TerminalInput(1, rows=-1), "rows, columns: (-1, 0) is not valid; 0 to 9999"),
        (OpenTunnel(1, "u", 70_000), "port: 70000 is not valid; 1 to 65535"),
    ],
)
def test_what_a_controller_cannot_mean_is_named_with_what_is_allowed(
    message: ControllerMessage, words: str
) -> None:
    assert doubt(message).startswith(words)


def test_what_was_really_said_is_never_doubted(recording: Recording) -> None:
    assert {doubt(decode_to_agent(body)) for body in recording.to_agent} == {""}
    assert {doubt_agent(decode_from_agent(body)) for body in recording.from_agent} == {""}
