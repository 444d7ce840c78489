"""Real traffic between an agent and a controller, recorded, and ways to spoil it."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rota.rpc.frames import bodies_of, frame_of
from tests.agent.support import Keeper
from tests.api.running import Running

NAME = "recorded"
HEAD_END = b"\r\n\r\n"
MESSAGE_MAX = 1 << 26
JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -1.0, 1e300,
    float("nan"), float("inf"), "", "x", "\0", "é\n", "../../nowhere", "x" * 70_000,
    b"", b"\xff" * 9,
    [], [1], [[]], {}, {"type": "hello"}, {"uid": {}},
)  # fmt: skip


@dataclass
class Recording:
    """The messages of one session in their order, as bytes."""

    from_agent: list[bytes] = field(default_factory=list)
    to_agent: list[bytes] = field(default_factory=list)


def record(server: Running, folder: Path) -> Recording:
    """A real agent runs two jobs over a connection that is listened to."""
    token = server.local().post("/tokens", {"access": "agent"}).json["token"]
    with _tapped(server.port) as tap:
        agent = _start_agent(folder, tap.port, token)
        try:
            caller = server.local()
            for command in ("exit 3", "echo done"):
                job = caller.submit(command, workdir=str(folder))
                caller.until(job, "completed", "failed")
                assert caller.get(f"/jobs/{job}/logs").status == 200
        finally:
            agent.kill()
            agent.wait()
            Keeper(folder / "agent").clean_up()
    sent, received = bytes(tap.sent), bytes(tap.received)
    return Recording(_bodies(sent, masked=True), _bodies(received, masked=False))


def _start_agent(folder: Path, port: int, token: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rota.agent", "--state-dir", str(folder), "--name", NAME]
    command += ["--url", f"http://127.0.0.1:{port}", "--cpus", "2"]
    env = {**os.environ, "ROTA_TOKEN": token}
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=env)


def _bodies(stream: bytes, *, masked: bool) -> list[bytes]:
    """The messages behind the handshake; pings and what follows them are left out."""
    frames = stream[stream.index(HEAD_END) + len(HEAD_END) :]
    bodies: list[bytes] = []
    for end in range(len(frames), 0, -1):
        found = bodies_of(frames[:end], masked=masked, most=MESSAGE_MAX)
        if found is not None:
            return found
    return bodies


class _Tap:
    """Hands bytes on between one client and the server, and keeps them."""

    def __init__(self, server_port: int) -> None:
        self.sent, self.received = bytearray(), bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._server_port = server_port
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._server_port))
            self._sockets += [client, server]
            ways = ((client, server, self.sent), (server, client, self.received))
            for way in ways:
                threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                kept += chunk
                sink.sendall(chunk)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def _tapped(port: int) -> Iterator[_Tap]:
    tap = _Tap(port)
    try:
        yield tap
    finally:
        tap.close()


class Vandal:
    """Spoils messages and the frames that carry them, the same way for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def message(self, body: bytes) -> bytes:
        """One message with another meaning, or with none."""
        try:
            said = msgspec.msgpack.decode(body)
        except (msgspec.MsgspecError, UnicodeError, TypeError):
            return self.spoil_bytes(body)  # It was spoilt before.
        if self.chance.random() < 0.2:
            return self.spoil_bytes(body)
        return msgspec.msgpack.encode(self.spoil_value(said))

    def spoil_bytes(self, body: bytes) -> bytes:
        at = self.chance.randrange(len(body) + 1)
        how = self.chance.randrange(4)
        if how == 0:
            return body[:at]
        if how == 1:
            return body[:at] + self.chance.randbytes(self.chance.randrange(1, 20)) + body[at:]
        if how == 2:
            return body[:at] + body[at // 2 :]
        return body[:at] + self.chance.randbytes(1) + body[at + 1 :]

    def spoil_value(self, value: Any) -> Any:
        """Somewhere in it, something is junk, missing, or there twice."""
        if isinstance(value, dict) and value and self.chance.random() < 0.8:
            key = self.chance.choice(sorted(value, key=str))
            if self.chance.random() < 0.2:
                return {name: kept for name, kept in value.items() if name != key}
            return value | {key: self.spoil_value(value[key])}
        if isinstance(value, list) and value and self.chance.random() < 0.8:
            at = self.chance.randrange(len(value))
            if self.chance.random() < 0.2:
                return [*value, value[at]]
            return [*value[:at], self.spoil_value(value[at]), *value[at + 1 :]]
        alike = [junk for junk in JUNK if type(junk) is type(value)]
        return self.chance.choice(alike if alike and self.chance.random() < 0.7 else JUNK)

    def session(self, bodies: list[bytes]) -> list[bytes]:
        """A session in which something is spoilt, missing, repeated or in another order."""
        told = list(bodies)
        at = self.chance.randrange(len(told))
        how = self.chance.randrange(5)
        if how == 0:
            del told[at]
        elif how == 1:
            told.insert(at, told[self.chance.randrange(len(told))])
        elif how == 2:
            other = self.chance.randrange(len(told))
            told[at], told[other] = told[other], told[at]
        else:
            told[at] = self.message(told[at])
        return told

    def frames(self, bodies: list[bytes], *, masked: bool) -> bytes:
        """The messages as a stream, most of the time in good frames."""
        stream = b"".join(frame_of(body, masked=masked) for body in bodies)
        if self.chance.random() < 0.7:
            return stream
        at = self.chance.randrange(len(stream) + 1)
        return stream[:at] + self._odd_frame(masked) + stream[at:]

    def _odd_frame(self, masked: bool) -> bytes:
        """Something that a WebSocket must not carry, or not there."""
        mask = 0x80 if masked else 0
        tail = b"\1\2\3\4" if masked else b""
        return self.chance.choice(
            (
                bytes((0x82, mask | 127)) + (2**63 - 1).to_bytes(8, "big") + tail,
                bytes((0x82, mask | 127)) + (2**31).to_bytes(8, "big") + tail,
                bytes((0x82, (mask ^ 0x80) | 5)) + b"hello",
                bytes((0xF2, mask)) + tail,
                bytes((0x80, mask)) + tail,
                bytes((0x02, mask)) + tail,
                bytes((0x81, mask | 2)) + tail + b"\xff\xfe",
                bytes((0x89, mask | 126)) + (300).to_bytes(2, "big") + tail + bytes(300),
                bytes((0x88, mask | 2)) + tail + b"\0\1",
                bytes((0x88, mask | 1)) + tail + b"\0",
                bytes((0x83, mask)) + tail,
                self.chance.randbytes(self.chance.randrange(1, 40)),
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            )
        )
