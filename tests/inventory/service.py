"""An inventory service that can be made to fail in all the ways that services do."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Service:
    """Listens on loopback. ``faults`` are used up first, one per request."""

    def __init__(self) -> None:
        self.gpus: list[dict[str, Any]] = []
        self.reserved: dict[int, list[str]] = {}
        #: What the next requests get: ``500 429 hang reset nonsense short``.
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.tokens: list[str] = []
        self.refuses_reservations = False
        self._let_go = threading.Event()
        service = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.answer(self)

            def do_POST(self) -> None:
                service.answer(self)

            def do_DELETE(self) -> None:
                service.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(f"{request.command} {request.path}")
        self.tokens.append(request.headers.get("Authorization", ""))
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        if self.faults:
            self._fail(request, self.faults.pop(0))
            return
        status, answer = self._serve(request.command, request.path, body)
        self._send(request, status, json.dumps(answer).encode())

    def _serve(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if path.startswith("/api/v1/gpus"):
            return 200, {"items": self.gpus}
        if path == "/api/v1/topology":
            return 200, {"nodes": []}
        if method == "POST" and self.refuses_reservations:
            return 403, {"detail": "not yours"}
        if method == "POST":
            asked = json.loads(body)
            self.reserved[asked["job_id"]] = asked["gpu_ids"]
            return 201, asked
        known = self.reserved.pop(int(path.rpartition("/")[2]), None)
        return (200 if known else 404), {}

    def _fail(self, request: BaseHTTPRequestHandler, fault: str) -> None:
        if fault == "hang":
            self._let_go.wait(30)
        elif fault == "reset":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
        elif fault == "nonsense":
            self._send(request, 200, b"<html>it works</html>")
        elif fault == "short":
            request.send_response(200)
            request.send_header("Content-Length", "1000")
            request.end_headers()
            request.wfile.write(b"{")
        else:
            self._send(request, int(fault), b"{}", {"Retry-After": "7"} if fault == "429" else {})

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def close(self) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()
