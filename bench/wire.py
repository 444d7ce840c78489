"""HTTP/1.1 on a unix socket that is kept open: as little client as possible between two clocks."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 120.0
IDLE_S = 30.0


class Refused(Exception):
    """The server answered with something else than success."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body[:400].decode('utf-8', 'replace')}")
        self.status = status


class Wire:
    """One kept connection. Answers must carry their length, as those of Rota's API do."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(self._timeout_s)
        try:
            self._socket.connect(str(self._path))
        except OSError:
            self._socket.close()
            raise
        self._rest = b""
        self._used_s = time.monotonic()

    def close(self) -> None:
        self._socket.close()

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        return self.send(request("GET", path))

    def post(self, path: str, body: Any) -> Any:  # noqa: ANN401 - JSON
        return self.send(request("POST", path, body))

    def send(self, message: bytes) -> Any:  # noqa: ANN401 - JSON
        """A ready-made request, so that a timed loop does not pay for making it."""
        now_s = time.monotonic()
        if now_s - self._used_s > IDLE_S:
            self.close()  # The server closes what is idle for long.
            self._connect()
        self._used_s = now_s
        self._socket.sendall(message)
        status, body = self._answer()
        if not 200 <= status < 300:
            raise Refused(status, body)
        return json.loads(body) if body else None

    def _answer(self) -> tuple[int, bytes]:
        received = self._rest
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._receive()
        head, received = received[:end], received[end + 4 :]
        status, length = parse_head(head)
        parts, missing = [received[:length]], length - len(received)
        self._rest = received[length:]
        while missing > 0:
            part = self._receive()
            parts.append(part[:missing])
            self._rest = part[missing:]
            missing -= len(part)
        return status, b"".join(parts)

    def _receive(self) -> bytes:
        part = self._socket.recv(1 << 20)
        if not part:
            raise ConnectionResetError("the server closed the connection")
        return part


def request(method: str, path: str, body: Any = None) -> bytes:  # noqa: ANN401 - JSON
    """The bytes of one request; ``path`` is below ``/api/v1`` unless it names a probe."""
    full = path if path in {"/healthz", "/readyz", "/metrics"} else f"/api/v1{path}"
    payload = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {full} HTTP/1.1\r\nHost: localhost\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
    return head.encode() + b"\r\n" + payload


def parse_head(head: bytes) -> tuple[int, int]:
    """Status and length of the body."""
    lines = head.split(b"\r\n")
    status = int(lines[0].split(b" ", 2)[1])
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return status, int(value)
    if status in {204, 304}:
        return status, 0
    raise ValueError(f"an answer without a length: {head[:200]!r}")
