"""A scripted server on a unix socket: answers what a test tells it, remembers the requests."""

import contextlib
import json
import socketserver
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.support import contract


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


class Answer(NamedTuple):
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class FakeRota:
    """Routes are ``"GET /jobs/12"`` -> a value, an ``Answer``, a list of them, or a function."""

    def __init__(self, path):
        self.routes: dict[str, Any] = {}
        self.asked: list[Asked] = []
        #: Where a request or an answer is not as the OpenAPI document says.
        self.untrue: list[str] = []
        #: Else it is whatever else may stand at an address, such as a proxy.
        self.is_rota = True
        self.path = str(path)
        fake = self

        class Protocol(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                fake.serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def address_string(self):
                return "local"

            def log_message(self, *_):
                pass

            def handle(self):
                # A command that has what it wants hangs up, whatever else is being sent.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def finish(self):
                with contextlib.suppress(ConnectionError):
                    super().finish()

        self._server = Server(self.path, Protocol)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def serve(self, protocol):
        parts = urlsplit(protocol.path)
        length = int(protocol.headers.get("Content-Length") or 0)
        raw = protocol.rfile.read(length)
        asked = Asked(
            protocol.command,
            parts.path.removeprefix("/api/v1"),
            dict(parse_qsl(parts.query)),
            json.loads(raw) if raw else None,
            dict(protocol.headers.items()),
        )
        self.asked.append(asked)
        answer = self._whole(asked, self._answer(asked))
        self._hold_against_the_document(asked, answer)
        payload = (
            answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        )
        protocol.send_response(answer.status)
        for name, value in answer.headers.items():
            protocol.send_header(name, value)
        protocol.send_header("Content-Length", str(len(payload)))
        protocol.end_headers()
        protocol.wfile.write(payload)

    def _answer(self, asked):
        route = self.routes.get(f"{asked.method} {asked.path}")
        if route is None:
            problem = {"detail": f"there is nothing at {asked.path}", "code": "not_found"}
            return Answer(problem, 404)
        if isinstance(route, list) and route and isinstance(route[0], Answer):
            route = route.pop(0) if len(route) > 1 else route[0]
        if callable(route):
            route = route(asked)
        return route if isinstance(route, Answer) else Answer(route)

    def _whole(self, asked, answer):
        """With all that the document promises: commands are never given less."""
        known = contract.operation(asked.method, asked.path)
        if not self.is_rota or known is None or isinstance(answer.body, bytes):
            return answer
        return Answer(known.whole_answer(answer.status, answer.body), answer.status, answer.headers)

    def _hold_against_the_document(self, asked, answer):
        known = contract.operation(asked.method, asked.path)
        if not self.is_rota or f"{asked.method} {asked.path}" not in self.routes:
            return
        if known is None:
            self.untrue.append(f"the document has no {asked.method} {asked.path}")
            return
        self.untrue += known.wrong_query(asked.query) + known.wrong_body(asked.body)
        if not isinstance(answer.body, bytes):
            self.untrue += known.wrong_answer(answer.status, answer.body)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
