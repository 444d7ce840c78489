"""A slurmrestd that answers by hand, and a client of it."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rota.slurmrest.client import SlurmRest


class Service(ThreadingHTTPServer):
    """Answers each path with what it was given; remembers the headers."""

    daemon_threads = True

    def __init__(self, *versions: str) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        paths = {f"/{part}/{v}/jobs": {} for v in versions for part in ("slurm", "slurmdb")}
        self.answers = {"/openapi": (200, {"paths": paths})}
        self.headers: dict[str, str] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        self.server.headers = dict(self.headers)
        status, body = self.server.answers.get(self.path, (404, None))
        if status == 0:
            time.sleep(3)
        content = json.dumps(body).encode() if isinstance(body, dict) else b"Not found"
        self.send_response(status or 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing to be said."""


@contextmanager
def service(*versions: str) -> Iterator[Service]:
    with Service(*versions) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


async def with_client(server, use, **options):
    client = SlurmRest(server.url, user="root", limit_s=1.0, **options)
    try:
        await client.open()
        return await use(client)
    finally:
        await client.close()


def errors(code, text="words", **more):
    return {"errors": [{"error_code": code, "error": text}], **more}
