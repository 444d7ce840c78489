"""Visits that the server refuses at once: one line, however soon it hangs up."""

import base64
import hashlib
import socket
import threading
from collections.abc import Iterator

import pytest

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@pytest.fixture
def hangs_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server that takes a WebSocket and says in the same breath that it refuses (1008)."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        link, _ = listener.accept()
        with link:
            asked = link.recv(65536)
            key = asked.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
            proof = base64.b64encode(hashlib.sha1(key + GUID).digest())
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            reason = (1008).to_bytes(2, "big") + b"there is no job 99"
            close = b"\x88" + bytes([len(reason)]) + reason
            link.sendall(
                head
                + b"Connection: Upgrade\r\nSec-WebSocket-Accept: "
                + proof
                + b"\r\n\r\n"
                + close
            )
            # What it was told, or that it has heard; then it is over.
            link.recv(65536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    monkeypatch.setenv("ROTA_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.setenv("ROTA_TOKEN", "secret")
    yield
    listener.close()
    thread.join(timeout=10)


@pytest.mark.parametrize("command", [("exec", "99", "--", "true"), ("attach", "99")])
def test_a_refusal_is_one_line(hangs_up: None, rota, command: tuple[str, ...]) -> None:
    ended = rota(*command)

    assert (ended.code, ended.err) == (2, "rota: there is no job 99\n")
