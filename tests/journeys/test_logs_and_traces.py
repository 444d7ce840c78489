"""What programs read of a running Rota: logs as objects, spans for a collector."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Sink(ThreadingHTTPServer):
    """Takes what is posted to it."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        super().__init__(("127.0.0.1", 0), Take)


class Take(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Sink)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def test_logs_are_objects_where_the_site_wants_them(new_box: Callable[..., Box]):
    box = new_box()
    box.env["ROTA_SERVER_LOG_FORMAT"] = "json"
    box.up()
    box.ran(["true"])
    box.down()

    lines = (box.state / "controller.log").read_text().splitlines()
    lines += (box.state / "agent.log").read_text().splitlines()
    records = [json.loads(line) for line in lines]

    assert any(record["message"].startswith("rota ") for record in records)
    assert {"time", "level", "logger", "message", "pid"} <= records[0].keys()
    assert {record["level"] for record in records} <= {"debug", "info", "warning", "error"}


def test_spans_go_to_the_collector_that_is_named(new_box: Callable[..., Box], sink: Sink):
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    box = new_box()
    box.env["ROTA_SERVER_TRACES"] = f"http://127.0.0.1:{sink.server_port}"
    box.up()

    box.ran(["true"])
    box.down()
    until(lambda: sink.bodies, "spans to come")

    assert {path for path, _ in sink.bodies} == {"/v1/traces"}
    sent = b"".join(body for _, body in sink.bodies)
    assert all(name in sent for name in (b"tick", b"pass", b"commit", b"http"))


def test_a_format_or_an_address_that_is_none_is_refused(new_box: Callable[..., Box]):
    box = new_box()

    form = box.refusal("up", "--detach", env={"ROTA_SERVER_LOG_FORMAT": "xml"})
    place = box.refusal("up", "--detach", env={"ROTA_SERVER_TRACES": "collector:4318"})

    assert form == "rota: ROTA_SERVER_LOG_FORMAT: 'xml' is not known; known: text, json"
    assert place.startswith("rota: ROTA_SERVER_TRACES: 'collector:4318' is not valid; expected")
