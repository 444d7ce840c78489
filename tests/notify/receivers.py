"""Real receivers on loopback: a web server and a mail server that keep what they are sent."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.ports import quiet_port

#: Guards against hanging only.
WAIT_S = 60.0


class Posted:
    """One request as it came."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body
        self.json: Any = json.loads(body)

    @property
    def event(self) -> str:
        return str(self.json["event"])


class _Kept:
    """What came so far, and a way to wait for more."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self._changed = threading.Condition()

    def keep(self, item: Any) -> None:
        with self._changed:
            self.got.append(item)
            self._changed.notify_all()

    def until(self, condition: Callable[[list[Any]], Any], what: str) -> Any:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.got), WAIT_S), (what, self.got)
            return condition(self.got)

    def wait(self, count: int) -> list[Any]:
        """The first so many."""
        self.until(lambda got: len(got) >= count, f"{count} messages")
        return self.got[:count]


class WebSink(_Kept):
    """Answers each POST with ``status``; ``gate`` closed lets it hang after it was kept."""

    def __init__(self, port: int = 0) -> None:
        super().__init__()
        self.status = 204
        self.headers: dict[str, str] = {}
        self.gate = threading.Event()
        self.gate.set()
        sink = self

        class Request(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sink.keep(Posted(self.path, dict(self.headers), body))
                sink.gate.wait(WAIT_S)
                self.send_response(sink.status)
                for name, value in sink.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: object) -> None:
                """Callers that hang up are part of the tests."""

        self.server = Server(("127.0.0.1", port), Request)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def events(self) -> list[str]:
        return [posted.event for posted in self.got]

    def close(self) -> None:
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(WAIT_S)


class _Talk(socketserver.StreamRequestHandler):
    """One client of a mail server."""

    server: Any

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())

    def handle(self) -> None:
        self.say("220 sink")
        for line in self.rfile:
            if not self.answer(line.strip()):
                return

    def answer(self, line: bytes) -> bool:
        verb = line[:4].upper()
        if verb == b"EHLO":
            self.say("250-sink\r\n250 AUTH PLAIN")
        elif verb == b"AUTH":
            self.server.sink.logins.append(line.decode())
            self.say("235 welcome")
        elif verb == b"RCPT" and b"<nobody" in line:
            self.say("550 no such person")
        elif verb == b"DATA":
            self.say("354 go on")
            self.take()
        elif verb == b"QUIT":
            self.say("221 bye")
            return False
        else:
            self.say("250 fine")
        return True

    def take(self) -> None:
        lines = []
        for line in self.rfile:
            if line == b".\r\n":
                break
            lines.append(line)
        self.server.sink.keep(message_from_bytes(b"".join(lines)))
        self.say("250 taken")


class MailSink(_Kept):
    """Speaks as much SMTP as a client needs; refuses addresses that begin with ``nobody``."""

    def __init__(self) -> None:
        super().__init__()
        self.logins: list[str] = []

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: object) -> None:
                """Callers that hang up are part of the tests."""

        self.server = Server(("127.0.0.1", 0), _Talk)
        self.server.sink = self  # type: ignore[attr-defined]
        self.port = self.server.server_address[1]
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def mails(self) -> list[Message]:
        return list(self.got)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(WAIT_S)


def dead_port() -> int:
    """A port that nobody listens on, and that nobody is given meanwhile."""
    return quiet_port()
